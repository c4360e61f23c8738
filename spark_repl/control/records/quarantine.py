"""Quarantine: tables whose changes are kept and not applied, since one of them can't be.

Each quarantine is told by its rows in the control table: what it began with, what somebody decided
about it by hand, and how it ended. It is over, whatever the rows say, once the table has a position
behind the one that it was found at: only what ends it commits one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ...errors import ConfigError

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.cut import Cut, InQuarantine

KIND = "quarantine"
REPLAY, DROP = "replay", "drop"
_BEGIN, _FAILED = "begin", "failed"
ENDED = {REPLAY: "replayed", DROP: "dropped"}
"""how each decision ends"""
CURE = (
    "correct its rows, then spark-repl quarantine replay --config F --table DB.T, and start again;"
    " or copy it again: spark-repl snapshot --config F --table DB.T"
)
"""the hint of errors about a table in quarantine"""
_CURE = (
    "correct its rows, stop the applier, spark-repl quarantine replay --config F --table {name},"
    " and start it; or copy it again: spark-repl snapshot --config F --table {name}"
)


@dataclass(frozen=True)
class Quarantine:
    """``path``: the table's, relative to the target; ``held_from``: the packed position behind
    which its changes are kept, its own. ``position`` (FILE:OFFSET) and ``gtid``: the transaction
    that can't be applied, as far as the error says it; ``hint``: what the error says to do about
    it, beside the cure of any. ``asked``: what somebody decided, that is to
    be done; ``failed``: why a replay was in vain; ``ended``: how it ended, else ""."""

    id: str
    name: str
    path: str
    held_from: int
    reason: str
    number: int = 0
    gtid: str = ""
    position: str = ""
    hint: str = ""
    at: datetime | None = None
    asked: str = ""
    failed: str = ""
    ended: str = ""

    @property
    def since(self) -> str:
        """What tells the transaction from others."""
        return self.gtid or self.position


_LATER = ("at", "asked", "failed", "ended")
_FIELDS = tuple(name for name in Quarantine.__dataclass_fields__ if name not in _LATER)
"""what stands in the row that one begins with"""


def cure_of(quarantine: Quarantine) -> str:
    """What is to be done about it now."""
    if quarantine.asked:
        done = "replayed" if quarantine.asked == REPLAY else "forgotten"
        return f"what is kept of it is {done} when the applier starts next"
    cure = _CURE.format(name=quarantine.name)
    return f"{quarantine.hint}; or {cure}" if quarantine.hint else cure


def begin(control: Control, quarantine: Quarantine) -> Quarantine:
    """Records that a table's changes are kept from here on; the caller owns the target. Raises what
    ``Control.write`` raises."""
    made = replace(quarantine, id=uuid.uuid4().hex)
    fields = {name: value for name, value in asdict(made).items() if name not in _LATER}
    control.write(KIND, position=made.held_from, detail=json.dumps({**fields, "action": _BEGIN}))
    return made


def fail(control: Control, quarantine: Quarantine, reason: str) -> Quarantine:
    """Records that a replay was in vain: it is not tried again until somebody asks for it."""
    _write(control, quarantine, _FAILED, reason)
    return replace(quarantine, asked="", failed=reason)


def end(control: Control, quarantine: Quarantine, how: str) -> None:
    """Records that nothing is kept of the table any more."""
    _write(control, quarantine, "ended", how)


def _write(control: Control, quarantine: Quarantine, action: str, reason: str) -> None:
    detail = {"id": quarantine.id, "name": quarantine.name, "action": action, "reason": reason}
    control.write(KIND, position=quarantine.held_from, detail=json.dumps(detail))


def quarantines(control: Control) -> list[Quarantine]:
    """All that were ever begun, oldest first, as they stand now."""
    by_id: dict[str, Quarantine] = {}
    for row in control.rows(KIND):
        detail = json.loads(row["detail"])
        action = detail.pop("action")
        if action == _BEGIN:
            known = {name: detail[name] for name in _FIELDS if name in detail}
            by_id[detail["id"]] = Quarantine(**known, at=row["at"])
            continue
        one = by_id[detail["id"]]
        if action == _FAILED:
            one = replace(one, asked="", failed=detail["reason"])
        elif action in ENDED:
            one = replace(one, asked=action)
        else:
            one = replace(one, ended=detail["reason"])
        by_id[one.id] = one
    return list(by_id.values())


def mark_of(cut: Cut | None, path: str) -> InQuarantine | None:
    """What a cut says of the quarantine of the table at a path; None: it has none there."""
    if cut is None:
        return None
    marks = cut.quarantined.items()
    return next((mark for n, mark in marks if n in cut.tables and cut.tables[n].path == path), None)


def open_quarantines(control: Control) -> dict[str, Quarantine]:
    """Those that have not ended, by the table's name."""
    return {one.name: one for one in quarantines(control) if not one.ended}


def named(tables: Mapping[str, Quarantine], name: str) -> Quarantine:
    """That of a table. Raises ConfigError where it has none."""
    if name not in tables:
        raise ConfigError(
            f"no change of {name} is in quarantine",
            hint=f"in quarantine: {', '.join(tables) or 'nothing'}",
        )
    return tables[name]

"""Quarantine: tables whose changes are kept and not applied, since one of them can't be.

The control table's rows record each quarantine: its beginning, an operator's decision about it, and
its end. It has ended, whatever the rows record, once the table has a position after the one at
which it began: only the end commits such a position.
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
    """The state of one quarantine.

    ``path``: the table's, relative to the target; ``held_from``: the table's own packed position,
    after which its changes are kept. ``position`` (FILE:OFFSET) and ``gtid``: the transaction that
    can't be applied, if the error has them; ``hint``: the error's own hint, in addition to the
    general remedy. ``asked``: the operator's decision that is not carried out yet; ``failed``: why
    a replay failed; ``ended``: how it ended, or "".
    """

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
        """Return the GTID or position that identifies the transaction."""
        return self.gtid or self.position


_LATER = ("at", "asked", "failed", "ended")
_FIELDS = tuple(name for name in Quarantine.__dataclass_fields__ if name not in _LATER)
"""the fields in the row of a beginning"""


def cure_of(quarantine: Quarantine) -> str:
    """Return what an operator can currently do about it."""
    if quarantine.asked:
        action = "replayed" if quarantine.asked == REPLAY else "forgotten"
        return f"what is kept of it is {action} when the applier starts next"
    cure = _CURE.format(name=quarantine.name)
    return f"{quarantine.hint}; or {cure}" if quarantine.hint else cure


def begin(control: Control, quarantine: Quarantine) -> Quarantine:
    """Record that a table's changes are kept from now on; the caller owns the target. Raise as
    ``Control.write``."""
    begun = replace(quarantine, id=uuid.uuid4().hex)
    fields = {name: value for name, value in asdict(begun).items() if name not in _LATER}
    control.write(KIND, position=begun.held_from, detail=json.dumps({**fields, "action": _BEGIN}))
    return begun


def fail(control: Control, quarantine: Quarantine, reason: str) -> Quarantine:
    """Record that a replay failed: the applier retries it only after another decision."""
    _write(control, quarantine, _FAILED, reason)
    return replace(quarantine, asked="", failed=reason)


def end(control: Control, quarantine: Quarantine, how: str) -> None:
    """Record that the table's changes are no longer kept."""
    _write(control, quarantine, "ended", how)


def _write(control: Control, quarantine: Quarantine, action: str, reason: str) -> None:
    detail = {"id": quarantine.id, "name": quarantine.name, "action": action, "reason": reason}
    control.write(KIND, position=quarantine.held_from, detail=json.dumps(detail))


def quarantines(control: Control) -> list[Quarantine]:
    """Return all quarantines that were ever begun, oldest first, in their current state."""
    by_id: dict[str, Quarantine] = {}
    for row in control.rows(KIND):
        detail = json.loads(row["detail"])
        action = detail.pop("action")
        if action == _BEGIN:
            fields = {name: detail[name] for name in _FIELDS if name in detail}
            by_id[detail["id"]] = Quarantine(**fields, at=row["at"])
            continue
        quarantine = by_id[detail["id"]]
        if action == _FAILED:
            quarantine = replace(quarantine, asked="", failed=detail["reason"])
        elif action in ENDED:
            quarantine = replace(quarantine, asked=action)
        else:
            quarantine = replace(quarantine, ended=detail["reason"])
        by_id[quarantine.id] = quarantine
    return list(by_id.values())


def mark_of(cut: Cut | None, path: str) -> InQuarantine | None:
    """Return a cut's mark about the quarantine of the table at a path; None if the cut has none."""
    if cut is None:
        return None
    marks = cut.quarantined.items()
    return next((mark for n, mark in marks if n in cut.tables and cut.tables[n].path == path), None)


def open_quarantines(control: Control) -> dict[str, Quarantine]:
    """Return the quarantines that have not ended, by the table's name."""
    return {
        quarantine.name: quarantine for quarantine in quarantines(control) if not quarantine.ended
    }


def named(tables: Mapping[str, Quarantine], name: str) -> Quarantine:
    """Return the quarantine of a table. Raise ConfigError if it has none."""
    if name not in tables:
        raise ConfigError(
            f"no change of {name} is in quarantine",
            hint=f"in quarantine: {', '.join(tables) or 'nothing'}",
        )
    return tables[name]

"""Pins: cuts that somebody wants kept, by a name, until they are unpinned.

A pin is a row of the control table that anybody may write beside a running applier: on the version
where the cut was seen, so that it can't land behind a commit that forgets the cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, TargetError

if TYPE_CHECKING:
    from .control import Control
    from .cut import Cut

KIND = "pin"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Pin:
    """``position`` and ``at`` are the cut's: packed, and when it was published."""

    name: str
    position: int
    at: datetime

    @property
    def cut(self) -> tuple[int, datetime]:
        return self.position, self.at


def pins_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Pin]:
    """The pins that stand, by name; ``rows`` of this kind, oldest first."""
    pins: dict[str, Pin] = {}
    for row in rows:
        detail = json.loads(row["detail"])
        pins.pop(detail["name"], None)
        if detail["at"] is not None:
            at = datetime.fromisoformat(detail["at"])
            pins[detail["name"]] = Pin(detail["name"], row["position"], at)
    return pins


def pins(control: Control) -> dict[str, Pin]:
    return pins_of(control.rows(KIND))


def pinned(control: Control, name: str) -> Pin:
    """The pin of that name. Raises TargetError for a name that is not there."""
    known = pins(control)
    if name not in known:
        shown = ", ".join(sorted(known)) or "none"
        raise TargetError(
            f"no cut is pinned as {name}", file=control.path, hint=f"pinned are: {shown}"
        )
    return known[name]


def is_name(text: str) -> bool:
    """Whether a cut may be pinned by it: no GTID set nor time is one."""
    return text != "latest" and _NAME.fullmatch(text) is not None


def pin(control: Control, cut: Cut, name: str) -> None:
    """Keeps ``cut`` until ``unpin``. Raises ConfigError for what is no name, TargetError when the
    name is another cut's, or when the cut has been forgotten meanwhile."""
    if not is_name(name):
        raise ConfigError(
            f"{name!r} is no name of a cut that could be found by it",
            hint="begin with a letter or _, then letters, digits, _ . or -, 64 at most",
        )
    assert cut.at is not None

    def check() -> bool:
        there = {(row["position"], row["at"]) for row in control.rows("cut")}
        if (cut.position, cut.at) not in there:
            raise TargetError(
                "the cut has been forgotten", file=control.path, hint="cut list says what is there"
            )
        other = pins(control).get(name)
        if other is not None and other.cut != (cut.position, cut.at):
            raise TargetError(
                f"{name} is pinned already, to another cut", file=control.path,
                hint=f"take another name, or spark-repl cut unpin --name {name}",
            )  # fmt: skip
        return other is None

    detail = json.dumps({"name": name, "at": cut.at.isoformat()})
    control.write_beside(KIND, check, position=cut.position, detail=detail)


def unpin(control: Control, name: str) -> None:
    """Lets the cut go as any other of its age. Raises TargetError for a name that is not there."""

    def check() -> bool:
        pinned(control, name)
        return True

    control.write_beside(KIND, check, detail=json.dumps({"name": name, "at": None}))

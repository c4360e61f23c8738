"""Pins: cuts that somebody wants kept, by a name, until they are unpinned (``pinning``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..errors import TargetError

if TYPE_CHECKING:
    from .control import Control

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

"""Pinning: a cut is kept by a name, or let go.

A pin is a row of the control table that anybody may write beside a running applier: on the version
where the cut was seen, so that it can't land behind a commit that forgets the cut.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ..errors import ConfigError, TargetError
from .pins import KIND, is_name, pinned, pins
from .retention import promised_until, recorded

if TYPE_CHECKING:
    from .control import Control
    from .cut import Cut

_VACUUM = timedelta(hours=1)
"""from VACUUM's look at what is pinned to what it removes; a quarter of a shorter promise"""


def pin(control: Control, cut: Cut, name: str) -> None:
    """Keeps ``cut`` until ``unpin``. Raises ConfigError for what is no name, TargetError when the
    name is another cut's, when the cut has been forgotten meanwhile, or by its age is promised no
    more, or not for long: the newest one and pinned ones stay."""
    if not is_name(name):
        raise ConfigError(
            f"{name!r} is no name of a cut that could be found by it",
            hint="begin with a letter or _, then letters, digits, _ . or -, 64 at most",
        )
    at = cut.at
    assert at is not None
    place = cut.position, at

    def check() -> bool:
        until = promised_until(control, control.held(), datetime.now(UTC))
        if place not in until:
            raise TargetError(
                "the cut has been forgotten", file=control.path, hint="cut list says what is there"
            )
        known = pins(control)
        other = known.get(name)
        if other is not None and other.cut != place:
            raise TargetError(
                f"{name} is pinned already, to another cut", file=control.path,
                hint=f"take another name, or spark-repl cut unpin --name {name}",
            )  # fmt: skip
        if place != max(until) and place not in {one.cut for one in known.values()}:
            _check_promised(control, at, until[place])
        return other is None

    detail = json.dumps({"name": name, "at": at.isoformat()})
    control.write_beside(KIND, check, position=cut.position, detail=detail)


def _check_promised(control: Control, at: datetime, until: datetime) -> None:
    """Raises TargetError for a cut that was published ``at``, and is promised no more, or of which
    files may go just now: those that were removed from a table right behind the cut are the first
    that VACUUM may take."""
    files = timedelta(hours=recorded(control).longest)
    if min(until, at + files - min(_VACUUM, files / 4)) <= datetime.now(UTC):
        raise TargetError(
            f"the cut is promised until {until.isoformat(timespec='seconds')}:"
            " files of it may be gone, or going",
            file=control.path,
            hint="pin one that is promised for another hour: cut list says until when each is",
        )


def unpin(control: Control, name: str) -> None:
    """Lets the cut go as any other of its age. Raises TargetError for a name that is not there when
    it begins: gone later, it is this one's commit that has landed, or another one's."""
    pinned(control, name)

    def check() -> bool:
        return name in pins(control)

    control.write_beside(KIND, check, detail=json.dumps({"name": name, "at": None}))

"""Retention: which cuts are promised, and until when; pins, which keep single cuts.

Each cut is kept for a short time, then the last one of each minute, then the last one of each hour.
The newest one stays always, and a pinned one until it is unpinned.

A pin is a row of the control table that any process may write beside a running applier. It commits
on the version in which it saw the cut, so it can't follow a commit that prunes the cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...config import Target
from ...errors import ConfigError, TargetError
from ..table.cut_encoding import marks_of
from ..table.row_formats import known_fields

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.control_snapshot import HeldRows
    from ..table.cut import Cut

KIND = "retention"
"""rows of the control table"""
_UNITS = (timedelta(minutes=1), timedelta(hours=1))


@dataclass(frozen=True)
class Retention:
    """Hours for which each cut is promised, the last one of a minute, the last one of an hour."""

    every: int
    minute: int
    hour: int

    @classmethod
    def of(cls, target: Target) -> Retention:
        every = target.every_cut_hours
        return cls(every, max(every, target.minute_cut_hours), target.cut_retention_hours)

    @property
    def longest(self) -> int:
        """Hours for which a table's files stay that no version names any more."""
        return max(self.every, self.minute, self.hour)

    def exceeds(self, other: Retention) -> bool:
        """Whether a cut may be promised longer than by the other."""
        mine, others = (self.every, self.minute, self.hour), (other.every, other.minute, other.hour)
        return any(hours > less for hours, less in zip(mine, others, strict=True))

    def record(self, control: Control) -> None:
        """Writes what is promised, if it is another than was written last; the caller owns the
        target, and has each table keep its files for so long."""
        if self != _written(control):
            control.write(KIND, detail=json.dumps(asdict(self)))

    def until(self, at: Sequence[datetime], now: datetime) -> list[datetime]:
        """Until when each cut is promised. ``at``: when they were published, ascending. A minute
        that has not ended may have later cuts: its last one is not known yet."""
        begin = datetime(1970, 1, 1, tzinfo=now.tzinfo)
        ends = [when + timedelta(hours=self.every) for when in at]
        for unit, hours in zip(_UNITS, (self.minute, self.hour), strict=True):
            numbers = [(when - begin) // unit for when in at]
            numbers.append((now - begin) // unit)
            for i, when in enumerate(at):
                if numbers[i] != numbers[i + 1]:
                    ends[i] = max(ends[i], when + timedelta(hours=hours))
        return ends


def recorded(control: Control, otherwise: Retention | None = None) -> Retention:
    """What was promised last; where nobody has said it ``otherwise``, or by default the defaults'
    own."""
    return _written(control) or otherwise or Retention.of(Target())


def promised_until(
    control: Control, held: HeldRows, now: datetime
) -> dict[tuple[int, datetime], datetime]:
    """Until when each cut of the rows that are ``held`` is promised by its age, by its position and
    when it was published; from then on it is there until it is pruned, and its files until VACUUM
    comes."""
    places = sorted(held.cut_places(), key=lambda place: (place[1], place[0]))
    ends = recorded(control).until([at for _, at in places], now)
    return dict(zip(places, ends, strict=True))


def _written(control: Control) -> Retention | None:
    rows = control.rows(KIND)
    fields = json.loads(rows[-1]["detail"]) if rows else None
    return Retention(**known_fields(Retention, fields)) if fields else None


def needed(
    rows: pa.Table, epoch: int, retention: Retention, now: datetime, stood_on: Container[str] = ()
) -> pa.Table:
    """The control table's rows, as they lie, without cuts that are promised no more, owners of
    epochs before the last, and pins that were taken off. ``stood_on``: ids of cuts that stay all
    the same."""
    places = rows.select(["kind", "epoch", "at", "position"])
    order = pc.sort_indices(places, [("at", "ascending"), ("position", "ascending")])
    kinds, epochs, ats, positions = (column.to_pylist() for column in places.take(order))
    keep = np.array([kind != "owner" for kind in kinds]) | (np.array(epochs) >= epoch - 1)
    pin_rows = [number for number, kind in enumerate(kinds) if kind == PIN]
    details = [rows.slice(order[at].as_py(), 1).to_pylist()[0] for at in pin_rows]
    pins, names = pins_of(details), set[str]()
    for number, row in reversed(list(zip(pin_rows, details, strict=True))):
        name = json.loads(row["detail"])["name"]
        keep[number] = name in pins and name not in names
        names.add(name)
    pinned = {pin.cut for pin in pins.values()}
    cuts = [number for number, kind in enumerate(kinds) if kind == "cut"]
    ends = retention.until([ats[number] for number in cuts], now)
    newest = max(((positions[number], ats[number]) for number in cuts), default=None)
    ids = [one for one, _ in marks_of(rows.column("detail"))]
    for number, end in zip(cuts, ends, strict=True):
        place = positions[number], ats[number]
        stays = place == newest or place in pinned or ids[order[number].as_py()] in stood_on
        keep[number] = end > now or stays
    kept = np.empty(len(keep), bool)
    kept[order.to_numpy()] = keep
    return rows.filter(pa.array(kept))  # what is taken of rows copies their gigabytes first


PIN = "pin"
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
    return pins_of(control.rows(PIN))


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
    control.write_beside(PIN, check, position=cut.position, detail=detail)


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

    control.write_beside(PIN, check, detail=json.dumps({"name": name, "at": None}))

"""Retention: which cuts are promised, and until when; pins, which keep single cuts.

Each cut is kept for a short time, then the last one of each minute, then the last one of each hour.
The newest one stays always, and a pinned one until it is unpinned.

A pin is a row of the control table that any process may write beside a running applier. It commits
on the version in which it saw the cut, so it can't follow a commit that prunes the cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...config import Target
from ...errors import ConfigError, TargetError
from ..table.row_formats import known_fields

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.control_snapshot import ControlSnapshot
    from ..table.cut import Cut

KIND = "retention"
"""kind of rows of the control table"""
_UNITS = (timedelta(minutes=1), timedelta(hours=1))


@dataclass(frozen=True)
class Retention:
    """The hours for which cuts are promised: each cut, the last cut of a minute, the last cut of an
    hour."""

    every: int
    minute: int
    hour: int

    @classmethod
    def of(cls, target: Target) -> Retention:
        every = target.every_cut_hours
        return cls(every, max(every, target.minute_cut_hours), target.cut_retention_hours)

    @property
    def longest(self) -> int:
        """Return for how many hours files of a table are kept after no version names them any
        more."""
        return max(self.every, self.minute, self.hour)

    def exceeds(self, other: Retention) -> bool:
        """Return whether a cut may be promised for longer than by the other retention."""
        own, other_hours = (
            (self.every, self.minute, self.hour),
            (other.every, other.minute, other.hour),
        )
        return any(hours > less for hours, less in zip(own, other_hours, strict=True))

    def record(self, control: Control) -> None:
        """Write the promise if it differs from the last one. The caller owns the target, and makes
        each table keep its files for this time."""
        if self != _written(control):
            control.write(KIND, detail=json.dumps(asdict(self)))

    def until(self, at: Sequence[datetime], now: datetime) -> list[datetime]:
        """Return until when each cut is promised. ``at``: when they were published, ascending. In a
        minute that has not ended, later cuts are possible, so its last cut is not known yet."""
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
    """Return the last recorded promise; if there is none, return ``otherwise``, or the default."""
    return _written(control) or otherwise or Retention.of(Target())


def promised_until(
    control: Control, snapshot: ControlSnapshot, now: datetime
) -> dict[tuple[int, datetime], datetime]:
    """Return until when each cut of a ``snapshot`` is promised because of its age, by its position
    and time. After that it remains until it is pruned, and its files until VACUUM."""
    places = sorted(snapshot.cut_places(), key=lambda place: (place[1], place[0]))
    ends = recorded(control).until([at for _, at in places], now)
    return dict(zip(places, ends, strict=True))


def _written(control: Control) -> Retention | None:
    rows = control.rows(KIND)
    fields = json.loads(rows[-1]["detail"]) if rows else None
    return Retention(**known_fields(Retention, fields)) if fields else None


def promised_rows(rows: pa.Table, epoch: int, retention: Retention, now: datetime) -> pa.Table:
    """Return the control table's rows in stored form, without cuts that are no longer promised,
    owners of epochs before the last one, and removed pins."""
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
    for number, end in zip(cuts, ends, strict=True):
        place = positions[number], ats[number]
        keep[number] = end > now or place == newest or place in pinned
    mask = np.empty(len(keep), bool)
    mask[order.to_numpy()] = keep
    return rows.filter(pa.array(mask))  # ``take`` would first copy gigabytes


PIN = "pin"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Pin:
    """A pinned cut. ``position`` and ``at``: the cut's packed position, and when it was
    published."""

    name: str
    position: int
    at: datetime

    @property
    def cut(self) -> tuple[int, datetime]:
        return self.position, self.at


def pins_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Pin]:
    """Return the current pins by name. ``rows``: rows of this kind, oldest first."""
    pins: dict[str, Pin] = {}
    for row in rows:
        detail = json.loads(row["detail"])
        pins.pop(detail["name"], None)
        if detail["at"] is not None:
            at = datetime.fromisoformat(detail["at"])
            pins[detail["name"]] = Pin(detail["name"], row["position"], at)
    return pins


def pins(control: Control) -> dict[str, Pin]:
    """Return the current pins by name. Raise as ``Control.rows``."""
    return pins_of(control.rows(PIN))


def pinned(control: Control, name: str) -> Pin:
    """Return the pin of that name. Raise TargetError if there is none."""
    by_name = pins(control)
    if name not in by_name:
        names = ", ".join(sorted(by_name)) or "none"
        raise TargetError(
            f"no cut is pinned as {name}", file=control.path, hint=f"pinned are: {names}"
        )
    return by_name[name]


def is_name(text: str) -> bool:
    """Return whether a cut may be pinned under the name ``text``. A GTID set or a time is not
    allowed as a name."""
    return text != "latest" and _NAME.fullmatch(text) is not None


_VACUUM = timedelta(hours=1)
"""from VACUUM's look at the pins until it removes files; for a shorter promise a quarter of that"""


def pin(control: Control, cut: Cut, name: str) -> None:
    """Keep ``cut`` until ``unpin``. Raise ConfigError for an invalid name. Raise TargetError if
    another cut has the name, or if the cut has been pruned meanwhile. Also raise it if the cut's
    promise by age has ended or ends soon, unless the cut is the newest or already pinned."""
    if not is_name(name):
        raise ConfigError(
            f"{name!r} is no name of a cut that could be found by it",
            hint="begin with a letter or _, then letters, digits, _ . or -, 64 at most",
        )
    at = cut.at
    assert at is not None
    place = cut.position, at

    def check() -> bool:
        until = promised_until(control, control.snapshot(), datetime.now(UTC))
        if place not in until:
            raise TargetError(
                "the cut has been forgotten",
                file=control.path,
                hint="choose a cut that cut list shows",
            )
        by_name = pins(control)
        other = by_name.get(name)
        if other is not None and other.cut != place:
            raise TargetError(
                f"{name} is pinned already, to another cut", file=control.path,
                hint=f"take another name, or spark-repl cut unpin --name {name}",
            )  # fmt: skip
        if place != max(until) and place not in {pin_.cut for pin_ in by_name.values()}:
            _check_promised(control, at, until[place])
        return other is None

    detail = json.dumps({"name": name, "at": at.isoformat()})
    control.write_beside(PIN, check, position=cut.position, detail=detail)


def _check_promised(control: Control, at: datetime, until: datetime) -> None:
    """Raise TargetError for a cut that was published ``at`` and is no longer promised, or whose
    files may be removed just now. VACUUM removes first the files that a table dropped right after
    the cut."""
    files = timedelta(hours=recorded(control).longest)
    if min(until, at + files - min(_VACUUM, files / 4)) <= datetime.now(UTC):
        raise TargetError(
            f"the cut is promised until {until.isoformat(timespec='seconds')}:"
            " files of it may be gone, or going",
            file=control.path,
            hint="pin one that is promised for another hour: cut list says until when each is",
        )


def unpin(control: Control, name: str) -> None:
    """Remove the pin: the cut is then pruned by its age. Raise TargetError if the name is not
    pinned at the beginning. If the pin disappears later, this commit succeeded, or another process
    removed the pin."""
    pinned(control, name)

    def check() -> bool:
        return name in pins(control)

    control.write_beside(PIN, check, detail=json.dumps({"name": name, "at": None}))

"""Retention: which cuts are promised, and until when.

Each cut for a short time, then the last one of each minute, then the last one of each hour; a
pinned one until it is unpinned, and the newest one always.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..config import Target
from .pins import KIND as PIN
from .pins import pins_of
from .row_formats import known_fields
from .told_cuts import marks_of

if TYPE_CHECKING:
    from .control import Control
    from .held_rows import HeldRows

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

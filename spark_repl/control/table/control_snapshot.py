"""ControlSnapshot: what the control table holds at one version.

There are thousands of cuts, and mostly only the newest is read. So cuts stay in Arrow: to make
Python objects of all of them takes ten times as long as to read them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ... import formats
from .cut_encoding import CutDecoder, CutRows, base_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from .cut import Cut

Row = dict[str, Any]
Place = tuple[int, "datetime"]
"""A packed position, and the time of the row."""
CUT = "cut"
_AT_ONCE = 100
_ORDER = [("at", "ascending"), ("position", "ascending")]


@dataclass(frozen=True)
class ControlSnapshot:
    """The rows of one version. ``other_rows``: rows that are no cuts, oldest first; ``cuts``: as
    they were read; ``newer``: cuts that were written since; ``known_format``: the highest number of
    a format that may be read."""

    version: int = -1
    other_rows: tuple[Row, ...] = ()
    cuts: pa.Table = field(default_factory=lambda: pa.table({}))
    newer: tuple[Row, ...] = ()
    known_format: int = 0
    file: str = ""
    _by_id: CutRows = field(default_factory=lambda: CutRows(pa.table({})), repr=False)

    @classmethod
    def of(cls, version: int, rows: pa.Table, known_format: int, file: str) -> ControlSnapshot:
        """Return the snapshot of all rows of the table at ``version``. Raise FormatError if the
        format of any is above ``known_format``."""
        formats.check_all(rows.column("detail"), known_format, "this target", file)
        is_cut = pc.equal(rows.column("kind"), CUT)
        other_rows = rows.filter(pc.invert(is_cut)).sort_by(_ORDER).to_pylist()
        # In one piece: ``take`` on several chunks would join them each time.
        cuts = rows.filter(is_cut).cast(_large(rows.schema)).combine_chunks()
        plain = tuple(_plain(row, known_format) for row in other_rows)
        return cls(version, plain, cuts, (), known_format, file, CutRows(cuts))

    def with_newer(self, version: int, rows: pa.Table) -> ControlSnapshot:
        """Return the snapshot at a later ``version``, with the ``rows`` that were appended up to
        it, as they are stored. Raise FormatError as ``of``."""
        formats.check_all(rows.column("detail"), self.known_format, "this target", self.file)
        plain = [_plain(row, self.known_format) for row in rows.sort_by(_ORDER).to_pylist()]
        return replace(self.followed_by(*plain), version=version)

    def followed_by(self, *rows: Row) -> ControlSnapshot:
        """Return the snapshot at the next version, which appends ``rows``."""
        newer = (*self.newer, *(row for row in rows if row["kind"] == CUT))
        added = [row for row in rows if row["kind"] != CUT]
        other_rows = (*self.other_rows, *added)
        if added and self.other_rows and _by_time(added[0]) < _by_time(self.other_rows[-1]):
            other_rows = tuple(sorted(other_rows, key=_by_time))
        return replace(self, version=self.version + 1, other_rows=other_rows, newer=newer)

    def rows(self, kind: str) -> list[Row]:
        """Return the rows of one kind, oldest first."""
        if kind != CUT:
            return [row for row in self.other_rows if row["kind"] == kind]
        rows = [_plain(row, self.known_format) for row in self.cuts.to_pylist()]
        return sorted([*rows, *self.newer], key=_by_time)

    def all_cuts(self) -> Iterator[Cut]:
        """Return the cuts in the order of ``cut_rows``. Raise TargetError as ``cut_of``."""
        return map(self._decoder().cut, self.cut_rows())

    def cut_of(self, row: Row) -> Cut:
        """Return the cut of one of the rows. Raise TargetError if the row is encoded as differences
        to a cut that is missing."""
        return self._decoder().cut(row)

    def _decoder(self) -> CutDecoder:
        newer = {base_of(row["detail"])[0]: row["detail"] for row in self.newer}
        return CutDecoder(lambda wanted: newer.get(wanted) or self._by_id.detail(wanted), self.file)

    def cut_rows(self, *, newest_first: bool = False) -> Iterator[Row]:
        """Return the cuts' rows by position, of two at one position the later one last; or in
        reverse. A row has all tables, or those that differ from another cut. Only a few rows are
        Python objects at a time: with a thousand tables all of them may be gigabytes."""
        newer = sorted(self.newer, key=_by_place, reverse=newest_first)
        read = self._read_cuts("descending" if newest_first else "ascending")
        return heapq.merge(read, newer, key=_by_place, reverse=newest_first)

    def _read_cuts(self, order_of: str) -> Iterator[Row]:
        if not self.cuts.num_rows:
            return
        order = pc.sort_indices(self.cuts, [("position", order_of), ("at", order_of)])
        for first in range(0, len(order), _AT_ONCE):
            for row in self.cuts.take(order[first : first + _AT_ONCE]).to_pylist():
                yield _plain(row, self.known_format)

    def cut_places(self) -> set[Place]:
        """Return what identifies each cut."""
        places = {_by_place(row) for row in self.newer}
        if self.cuts.num_rows:
            columns = (self.cuts.column(name).to_pylist() for name in ("position", "at"))
            places.update(zip(*columns, strict=True))
        return places

    @property
    def newest(self) -> datetime | None:
        """Return the time of the last row that is no cut; None: there is none."""
        return self.other_rows[-1]["at"] if self.other_rows else None

    @property
    def newest_time(self) -> datetime | None:
        """Return the time of the last row of any kind, by its writer's clock; None: there is
        none."""
        times = [row["at"] for row in (*self.other_rows[-1:], *self.newer)]
        if self.cuts.num_rows:
            times.append(pc.max(self.cuts.column("at")).as_py())
        return max(times, default=None)

    @property
    def cut_count(self) -> int:
        return int(self.cuts.num_rows) + len(self.newer)

    def last_cut(self) -> Row | None:
        """Return the cut of the highest position, the latest one if several have it; None: there is
        none."""
        rows = list(self.newer)
        if self.cuts.num_rows:
            highest = self.cuts
            for name in ("position", "at"):  # in Arrow: there may be thousands at one position
                values = highest.column(name)
                highest = highest.filter(pc.equal(values, pc.max(values)))
            rows += [_plain(row, self.known_format) for row in highest.to_pylist()]
        return max(rows, key=lambda row: (row["position"], row["at"]), default=None)


def _large(schema: pa.Schema) -> pa.Schema:
    """Return the schema for details of more than 2 GB in all."""
    return schema.set(schema.get_field_index("detail"), pa.field("detail", pa.large_string()))


def _plain(row: Row, known_format: int) -> Row:
    """Return the row with its ``detail`` as it was before the format's number was added."""
    return {**row, "detail": formats.unstamp(row["detail"], known_format, "this target")}


def _by_place(row: Row) -> Place:
    return row["position"], row["at"]


def _by_time(row: Row) -> Any:
    return row["at"], row["position"]

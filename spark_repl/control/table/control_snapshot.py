"""HeldRows: what the control table holds at one version.

Cuts, of which there are thousands and of which mostly the newest is asked for, stay in Arrow: to
make Python's objects of them all takes ten times as long as to read them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ... import formats
from .cut_encoding import CutsById, ToldCuts, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from .cut import Cut

Row = dict[str, Any]
Place = tuple[int, "datetime"]
"""a packed position, and when the row was written"""
CUT = "cut"
_AT_ONCE = 100
_ORDER = [("at", "ascending"), ("position", "ascending")]


@dataclass(frozen=True)
class HeldRows:
    """``others``: rows that are no cuts, oldest first; ``cuts``: as they were read, ``newer``:
    those written since."""

    version: int = -1
    others: tuple[Row, ...] = ()
    cuts: pa.Table = field(default_factory=lambda: pa.table({}))
    newer: tuple[Row, ...] = ()
    known: int = 0
    file: str = ""
    _by_id: CutsById = field(default_factory=lambda: CutsById(pa.table({})), repr=False)

    @classmethod
    def of(cls, version: int, rows: pa.Table, known: int, file: str) -> HeldRows:
        """All rows of the table at ``version``. Raises FormatError when any was written in a format
        above ``known``."""
        formats.check_all(rows.column("detail"), known, "this target", file)
        is_cut = pc.equal(rows.column("kind"), CUT)
        others = rows.filter(pc.invert(is_cut)).sort_by(_ORDER).to_pylist()
        # In one piece: what is taken out of several makes one of them first, each time.
        cuts = rows.filter(is_cut).cast(_large(rows.schema)).combine_chunks()
        plain = tuple(_plain(row, known) for row in others)
        return cls(version, plain, cuts, (), known, file, CutsById(cuts))

    def with_newer(self, version: int, rows: pa.Table) -> HeldRows:
        """The same at a later ``version``, up to which ``rows`` were appended, as they lie. Raises
        FormatError as ``of``."""
        formats.check_all(rows.column("detail"), self.known, "this target", self.file)
        plain = [_plain(row, self.known) for row in rows.sort_by(_ORDER).to_pylist()]
        return replace(self.behind(*plain), version=version)

    def behind(self, *rows: Row) -> HeldRows:
        """The same at the next version, which appends ``rows``."""
        newer = (*self.newer, *(row for row in rows if row["kind"] == CUT))
        more = [row for row in rows if row["kind"] != CUT]
        others = (*self.others, *more)
        if more and self.others and _by_time(more[0]) < _by_time(self.others[-1]):
            others = tuple(sorted(others, key=_by_time))
        return replace(self, version=self.version + 1, others=others, newer=newer)

    def rows(self, kind: str) -> list[Row]:
        """Those of one kind, oldest first."""
        if kind != CUT:
            return [row for row in self.others if row["kind"] == kind]
        rows = [_plain(row, self.known) for row in self.cuts.to_pylist()]
        return sorted([*rows, *self.newer], key=_by_time)

    def all_cuts(self) -> Iterator[Cut]:
        """The cuts in the order of ``cut_rows``. Raises TargetError as ``cut_of``."""
        return map(self._told().cut, self.cut_rows())

    def cut_of(self, row: Row) -> Cut:
        """The cut of one of the rows. Raises TargetError where one is missing that it is told
        since."""
        return self._told().cut(row)

    def _told(self) -> ToldCuts:
        newer = {mark_of(row["detail"])[0]: row["detail"] for row in self.newer}
        return ToldCuts(lambda wanted: newer.get(wanted) or self._by_id.detail(wanted), self.file)

    def cut_rows(self, *, newest_first: bool = False) -> Iterator[Row]:
        """The cuts by their positions, of two at one the later one last; or from the last one back.
        Each as it is told: with all tables, or those that were others in another cut. Few of them
        are made at a time, as with a thousand tables all of them may be gigabytes."""
        newer = sorted(self.newer, key=_by_place, reverse=newest_first)
        read = self._read_cuts("descending" if newest_first else "ascending")
        return heapq.merge(read, newer, key=_by_place, reverse=newest_first)

    def _read_cuts(self, order_of: str) -> Iterator[Row]:
        if not self.cuts.num_rows:
            return
        order = pc.sort_indices(self.cuts, [("position", order_of), ("at", order_of)])
        for first in range(0, len(order), _AT_ONCE):
            for row in self.cuts.take(order[first : first + _AT_ONCE]).to_pylist():
                yield _plain(row, self.known)

    def cut_places(self) -> set[Place]:
        """What tells each cut from the others."""
        places = {_by_place(row) for row in self.newer}
        if self.cuts.num_rows:
            columns = (self.cuts.column(name).to_pylist() for name in ("position", "at"))
            places.update(zip(*columns, strict=True))
        return places

    @property
    def newest(self) -> datetime | None:
        """When the last row was written that is no cut; None: there is none."""
        return self.others[-1]["at"] if self.others else None

    @property
    def newest_time(self) -> datetime | None:
        """When the last row was written by its own clock, whatever it is; None: there is none."""
        times = [row["at"] for row in (*self.others[-1:], *self.newer)]
        if self.cuts.num_rows:
            times.append(pc.max(self.cuts.column("at")).as_py())
        return max(times, default=None)

    @property
    def cut_count(self) -> int:
        return int(self.cuts.num_rows) + len(self.newer)

    def last_cut(self) -> Row | None:
        """The cut of the highest position, the latest of several there; None: there is none."""
        rows = list(self.newer)
        if self.cuts.num_rows:
            highest = self.cuts
            for name in ("position", "at"):  # in Arrow: there may be thousands at one position
                values = highest.column(name)
                highest = highest.filter(pc.equal(values, pc.max(values)))
            rows += [_plain(row, self.known) for row in highest.to_pylist()]
        return max(rows, key=lambda row: (row["position"], row["at"]), default=None)


def _large(schema: pa.Schema) -> pa.Schema:
    """With details that may come to more than 2 GB."""
    return schema.set(schema.get_field_index("detail"), pa.field("detail", pa.large_string()))


def _plain(row: Row, known: int) -> Row:
    """Its ``detail`` as it was before the format's number was put to it."""
    return {**row, "detail": formats.unstamp(row["detail"], known, "this target")}


def _by_place(row: Row) -> Place:
    return row["position"], row["at"]


def _by_time(row: Row) -> Any:
    return row["at"], row["position"]

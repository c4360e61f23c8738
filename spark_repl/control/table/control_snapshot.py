"""ControlSnapshot: the rows of the control table at one version.

There are thousands of cuts, and most readers need only the newest. So cuts, and the rows of their
tables, stay in Arrow: to convert all of them to Python objects takes ten times as long as to read
them.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ... import formats
from .cut_tables import CUT_TABLE, CutDecoder, CutTables, LastTables
from .earlier_cuts import converted, has_earlier
from .row_formats import COMMON, with_all_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from .cut import Cut

Row = dict[str, Any]
Place = tuple[int, "datetime"]
"""A packed position, and the time of the row."""
CUT = "cut"
_AT_ONCE = 100
_ORDER = [("at", "ascending"), ("position", "ascending")]
_CUT_COLUMNS = [*COMMON, "sequence"]


@dataclass(frozen=True)
class ControlSnapshot:
    """The rows of one version. ``cuts``: in the order of the first read; ``newer``: cuts that were
    written later; ``tables``: the rows of all cuts' tables; ``other_rows``: rows of other kinds,
    oldest first; ``known_format``: the highest number of a format that may be read; ``is_earlier``:
    whether an earlier version wrote the cuts."""

    version: int = -1
    other_rows: tuple[Row, ...] = ()
    cuts: pa.Table = field(default_factory=lambda: pa.table({}))
    newer: tuple[Row, ...] = ()
    tables: CutTables = field(default_factory=CutTables, repr=False)
    known_format: int = 0
    file: str = ""
    is_earlier: bool = False
    _by_kind: dict[str, list[Row]] = field(default_factory=dict, repr=False, compare=False)
    """``other_rows`` of the kinds that were read"""

    @classmethod
    def of(cls, version: int, rows: pa.Table, known_format: int, file: str) -> ControlSnapshot:
        """Return the snapshot of all rows of the table at ``version``. Raise FormatError if the
        format of any row is above ``known_format``. Raise TargetError as
        ``earlier_cuts.converted``."""
        formats.check_all(rows.column("detail"), known_format, "this target", file)
        rows = with_all_columns(rows)
        is_earlier = has_earlier(rows)
        rows = converted(rows, file)
        is_cut, is_table = (pc.equal(rows.column("kind"), kind) for kind in (CUT, CUT_TABLE))
        others = rows.filter(pc.invert(pc.or_(is_cut, is_table))).select(COMMON)
        # In one piece: ``take`` on several chunks would join them each time.
        cuts = rows.filter(is_cut).select(_CUT_COLUMNS)
        cuts = cuts.cast(_large(cuts.schema)).combine_chunks()
        plain = tuple(_plain(row, known_format) for row in others.sort_by(_ORDER).to_pylist())
        tables = CutTables.of(rows)
        return cls(version, plain, cuts, (), tables, known_format, file, is_earlier)

    def with_newer(self, version: int, rows: pa.Table) -> ControlSnapshot:
        """Return the snapshot at a later ``version``, without cuts of earlier versions. ``rows``:
        the rows that were appended up to it, in stored form. Raise FormatError as ``of``."""
        formats.check_all(rows.column("detail"), self.known_format, "this target", self.file)
        plain = rows.filter(pc.not_equal(rows.column("kind"), CUT_TABLE)).sort_by(_ORDER)
        columns = {CUT: _CUT_COLUMNS}
        added = [
            {name: row[name] for name in columns.get(row["kind"], COMMON)}
            for row in (_plain(row, self.known_format) for row in plain.to_pylist())
        ]
        return replace(self.followed_by(added, rows), version=version)

    def followed_by(
        self, rows: Sequence[Row], stored: pa.Table, last: LastTables | None = None
    ) -> ControlSnapshot:
        """Return the snapshot at the next version, which appends ``rows``. ``stored``: the rows in
        stored form, with those of cuts' tables; ``last``: the tables at the last of the cuts."""
        cuts = [row for row in rows if row["kind"] == CUT]
        added = [row for row in rows if row["kind"] != CUT]
        other_rows = (*self.other_rows, *added)
        if added and self.other_rows and _by_time(added[0]) < _by_time(self.other_rows[-1]):
            other_rows = tuple(sorted(other_rows, key=_by_time))
        tables = self.tables.followed_by(stored, last) if cuts else self.tables
        changed = {row["kind"] for row in added}
        by_kind = dict(self._by_kind)  # in one step: other threads add to it
        return replace(
            self, version=self.version + 1, other_rows=other_rows,
            newer=(*self.newer, *cuts), tables=tables,
            _by_kind={kind: own for kind, own in by_kind.items() if kind not in changed},
        )  # fmt: skip

    def rows(self, kind: str) -> list[Row]:
        """Return the rows of one kind, oldest first."""
        if kind != CUT:
            own = self._by_kind.get(kind)
            if own is None:
                own = self._by_kind[kind] = [r for r in self.other_rows if r["kind"] == kind]
            return list(own)
        rows = [_plain(row, self.known_format) for row in self.cuts.to_pylist()]
        return sorted([*rows, *self.newer], key=_by_time)

    def all_cuts(self) -> Iterator[Cut]:
        """Return the cuts in the order of ``cut_rows``."""
        decoder = CutDecoder(self.tables)
        return (decoder.cut(row, json.loads(row["detail"])) for row in self.cut_rows())

    def cut_of(self, row: Row) -> Cut:
        """Return the cut of one of the rows."""
        return CutDecoder(self.tables).cut(row, json.loads(row["detail"]))

    @cached_property
    def last_tables(self) -> LastTables:
        """Return the tables at the highest sequence number: the last cut that was written, or that
        was before a pruned one."""
        if self.tables.known_last is not None:
            return self.tables.known_last
        highest = max([self.tables.highest, *self._sequences])
        return LastTables(highest, self.tables.at(highest))

    @property
    def _sequences(self) -> list[int]:
        read = self.cuts.column("sequence").to_pylist() if self.cuts.num_rows else []
        return [*read, *(row["sequence"] for row in self.newer)]

    @cached_property
    def shown_versions(self) -> frozenset[tuple[str, int]]:
        """Return path and version of each table that a cut shows."""
        rows = self.tables.shown(self._sequences)
        columns = (rows.column(name).to_pylist() for name in ("path", "version"))
        return frozenset(zip(*columns, strict=True))

    def table_names(self) -> frozenset[str]:
        """Return the names of the tables that any retained row of a cut names."""
        return frozenset(self.tables.rows.column("table_name").unique().to_pylist())

    def places_of(self, path: str) -> set[Place]:
        """Return identifiers of the cuts that show a table at ``path``."""
        showing = self.tables.cuts_with(path, self._sequences)
        return {_by_place(row) for row in self.cut_rows() if row["sequence"] in showing}

    def cut_rows(self, *, newest_first: bool = False) -> Iterator[Row]:
        """Return the cuts' rows by position, or in reverse order. If two have the same position,
        the later one is last. Only a few rows are Python objects at a time."""
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
        """Return an identifier of each cut."""
        places = {_by_place(row) for row in self.newer}
        if self.cuts.num_rows:
            columns = (self.cuts.column(name).to_pylist() for name in ("position", "at"))
            places.update(zip(*columns, strict=True))
        return places

    @property
    def newest(self) -> datetime | None:
        """Return the time of the last row that is not a cut; None if there is none."""
        return self.other_rows[-1]["at"] if self.other_rows else None

    @property
    def newest_time(self) -> datetime | None:
        """Return the time of the last row of any kind, by its writer's clock; None if there is
        none."""
        times = [row["at"] for row in (*self.other_rows[-1:], *self.newer)]
        if self.cuts.num_rows:
            times.append(pc.max(self.cuts.column("at")).as_py())
        return max(times, default=None)

    @property
    def cut_count(self) -> int:
        return int(self.cuts.num_rows) + len(self.newer)

    def last_cut(self) -> Row | None:
        """Return the cut with the highest position, or the latest one of several; None if there is
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

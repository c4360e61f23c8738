"""Tables of cuts: a row for each table that differs from the cut that was written before.

Each cut has a sequence number. The commit of a cut with the number ``s`` also has a row of the kind
``cut_table``, with the same number, for each table that is new or has another version. If the cut
no longer shows a table, the table gets a row without a path. Numbers grow with every cut that is
written, whereas positions and clocks may go back.

**Invariant**: in every version of the control table, for each cut ``s`` and each name, the table is
the row with the highest number up to ``s``. If there is no such row, or it has no path, the cut
does not show the table. Pruning keeps the rows for this (``needed_rows``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .cut import Cut, TableVersion
from .row_formats import SCHEMA, rows_table

if TYPE_CHECKING:
    from datetime import datetime

Tables = Mapping[str, TableVersion]
CUT_TABLE = "cut_table"
"""kind of the rows"""
_COLUMNS = ["sequence", "table_name", "path", "version", "metadata_id", "position"]
_END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class LastTables:
    """The tables at the highest sequence number, with which the next cut is compared."""

    sequence: int = 0
    tables: Tables = field(default_factory=dict)

    def changes_of(self, tables: Tables) -> dict[str, TableVersion | None]:
        """Return the entries of ``tables`` that are new or differ from the last tables, and None
        for each last table that ``tables`` lacks."""
        before = self.tables
        changes: dict[str, TableVersion | None] = {
            name: table
            for name, table in tables.items()
            if (old := before.get(name)) is not table and old != table
        }
        return changes | dict.fromkeys(sorted(before.keys() - tables.keys()))


def change_rows(
    changes: Mapping[str, TableVersion | None], sequence: int, *,
    epoch: int, at: datetime, position: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the rows of a cut's ``changes``. ``epoch``, ``at`` and ``position`` are the cut's. The
    row of a table that the cut no longer shows has the cut's position; other rows have their
    table's position."""
    common = {"kind": CUT_TABLE, "epoch": epoch, "at": at, "sequence": sequence}
    return [
        {**common, "gtid_executed": "", "table_name": name, "position": position}
        if table is None
        else {
            **common, "gtid_executed": "", "table_name": name, "position": table.position,
            "path": table.path, "version": table.version, "metadata_id": table.metadata_id,
        }
        for name, table in changes.items()
    ]  # fmt: skip


@dataclass(frozen=True)
class CutTables:
    """The rows of the kind ``cut_table`` of one version of the control table, in Arrow.

    ``read``: ascending by sequence number. ``newer``: rows of the control table that were written
    later, of any kind. ``known_last``: the last tables, if they are known without decoding rows.
    """

    read: pa.Table = field(default_factory=lambda: SCHEMA.empty_table().select(_COLUMNS))
    newer: tuple[pa.Table, ...] = ()
    known_last: LastTables | None = None

    @classmethod
    def of(cls, rows: pa.Table) -> CutTables:
        """Return the rows of this kind among the control table's ``rows``, which may be in any
        order."""
        own = rows.filter(pc.equal(rows.column("kind"), CUT_TABLE)).select(_COLUMNS)
        return cls(own.sort_by("sequence").combine_chunks())

    def followed_by(self, rows: pa.Table, last: LastTables | None = None) -> CutTables:
        """Return these rows, and those of later cuts among the control table's ``rows``. ``last``:
        the tables at the last of these cuts."""
        return CutTables(self.read, (*self.newer, rows), last)

    @cached_property
    def rows(self) -> pa.Table:
        """Return all rows, ascending by sequence number."""
        if not self.newer:
            return self.read
        newer = CutTables.of(pa.concat_tables(self.newer)).read
        return pa.concat_tables([self.read, newer])

    @cached_property
    def _sequences(self) -> npt.NDArray[np.int64]:
        sequences: npt.NDArray[np.int64] = self.rows.column("sequence").to_numpy()
        return sequences

    @cached_property
    def _names(self) -> npt.NDArray[np.int32]:
        return _numbered(self.rows.column("table_name"))

    @property
    def highest(self) -> int:
        """Return the highest sequence number of a row; 0 if there is no row."""
        return int(self._sequences[-1]) if self.rows.num_rows else 0

    def at(self, sequence: int) -> dict[str, TableVersion]:
        """Return the tables of the cut with this number, by their names."""
        if self.known_last is not None and sequence == self.known_last.sequence:
            return dict(sorted(self.known_last.tables.items()))
        upto = int(np.searchsorted(self._sequences, sequence, side="right"))
        if not upto:
            return {}
        names = self._names[:upto]
        newest = np.full(int(names.max()) + 1, -1)
        newest[names] = np.arange(upto)  # of several rows of a name the last one stays
        rows = self.rows.take(newest[newest >= 0])
        return dict(sorted((name, table) for name, table in _tables_of(rows) if table))

    def between(self, after: int, upto: int) -> Iterator[tuple[str, TableVersion | None]]:
        """Return (name, table) of the rows with numbers above ``after``, up to ``upto``."""
        first, end = np.searchsorted(self._sequences, [after, upto], side="right")
        return _tables_of(self.rows.slice(first, end - first))

    def shown(self, cuts: Sequence[int]) -> pa.Table:
        """Return the rows with paths that any of the ``cuts`` shows. ``cuts``: their numbers."""
        order, _, is_between = _spans(self.rows, cuts)
        mask = np.zeros(self.rows.num_rows, bool)
        mask[order] = is_between
        rows = self.rows.filter(pa.array(mask))
        return rows.filter(pc.is_valid(rows.column("path")))

    def cuts_with(self, path: str, cuts: Sequence[int]) -> set[int]:
        """Return the numbers of those ``cuts`` that show a table at ``path``."""
        names = self.rows.filter(pc.equal(self.rows.column("path"), path)).column("table_name")
        rows = self.rows.filter(pc.is_in(self.rows.column("table_name"), names.unique()))
        own = CutTables(rows)
        return {s for s in cuts if any(table.path == path for table in own.at(s).values())}


def _numbered(names: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Return a number for each name, the same for equal names."""
    encoded = pa.chunked_array([names.combine_chunks()], pa.string()).dictionary_encode()
    numbers: npt.NDArray[np.int32] = encoded.combine_chunks().indices.to_numpy()
    return numbers


def _tables_of(rows: pa.Table) -> Iterator[tuple[str, TableVersion | None]]:
    columns = (rows.column(name).to_pylist() for name in _COLUMNS[1:])
    for name, path, version, metadata_id, position in zip(*columns, strict=True):
        table = None if path is None else TableVersion(path, version, metadata_id, position)
        yield name, table


def _spans(
    rows: pa.Table, cuts: Collection[int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Return three arrays: the order of the rows by name and sequence number; a number for the name
    of each row, in that order; whether a cut is at the row or between it and the next row of its
    table, in that order."""
    names, sequences = _numbered(rows.column("table_name")), rows.column("sequence").to_numpy()
    order = np.lexsort((sequences, names))
    names, sequences = names[order], sequences[order]
    following = np.append(sequences[1:], _END)
    following[np.append(names[1:] != names[:-1], True)] = _END
    numbers = np.sort(np.fromiter(cuts, np.int64, len(cuts)))
    is_between = np.searchsorted(numbers, sequences) < np.searchsorted(numbers, following)
    return order, names, is_between


def needed_rows(rows: pa.Table, cuts: Collection[int]) -> pa.Table:
    """Return those ``rows``, of the kind ``cut_table``, that pruning to the ``cuts`` has to keep.

    Keep a row if a cut is at the row, or between it and the next row of its table. Also keep the
    last row of each table: the next cut is compared with it, even if the cut with the highest
    number is pruned. Keep a row without a path only if the previous kept row of its table has a
    path.
    """
    order, names, needed = _spans(rows, cuts)
    if not len(order):
        return rows
    needed |= np.append(names[1:] != names[:-1], True)
    remaining = order[needed]
    names = names[needed]
    is_gone = pc.is_null(rows.column("path")).to_numpy()[remaining]
    follows = np.append(False, (names[1:] == names[:-1]) & ~is_gone[:-1])
    mask = np.zeros(rows.num_rows, bool)
    mask[remaining[~is_gone | follows]] = True
    return rows.filter(pa.array(mask))


class CutDecoder:
    """Decodes cuts from rows. For a cut after a cut with a lower number it reads only the rows in
    between. Not thread-safe."""

    def __init__(self, tables: CutTables) -> None:
        self._rows, self._sequence = tables, -1
        self._tables: Tables = {}

    def cut(self, row: Mapping[str, Any], detail: Mapping[str, Any]) -> Cut:
        """Return the cut of a row. ``detail``: the row's detail, decoded."""
        sequence = row["sequence"]
        if 0 <= self._sequence <= sequence:
            tables = dict(self._tables)
            for name, table in self._rows.between(self._sequence, sequence):
                if table is None:
                    tables.pop(name, None)
                else:
                    tables[name] = table
            if not tables.keys() <= self._tables.keys():
                tables = dict(sorted(tables.items()))
        else:
            tables = self._rows.at(sequence)
        self._sequence, self._tables = sequence, tables
        return Cut.with_tables(row, detail, tables)


def complete_rows(
    cuts: Iterable[tuple[Mapping[str, Any], str, Tables]], last: LastTables
) -> pa.Table:
    """Return the rows of ``cuts`` and of their tables, with the sequence numbers after ``last``.
    ``cuts``: for each cut its row, with any columns, its new detail, and its tables."""
    rows = list[Mapping[str, Any]]()
    for row, detail, tables in cuts:
        number = last.sequence + 1
        rows.append({**row, "detail": detail, "sequence": number})
        rows += change_rows(
            last.changes_of(tables), number,
            epoch=row["epoch"], at=row["at"], position=row["position"],
        )  # fmt: skip
        last = LastTables(number, tables)
    return rows_table(rows)

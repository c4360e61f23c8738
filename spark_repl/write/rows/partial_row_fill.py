"""Rows whose images lack columns: which values the group has, and which only the target has.

With binlog_row_image=MINIMAL or NOBLOB, and with JSON diffs, the log has parts of a row. They are
put together column by column over all changes of the group. A value that no image has comes from
the target's row with the key that the row had before the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...alter.column_defaults import default_value
from ...binlog.json.diff import apply_diffs, pending_diffs
from ...binlog.rows.change_bits import EXISTS
from ...decode.lineage import DEFAULT, LOST, TARGET, Lineage, along, lineage, sources
from ...delta.files.delta_columns import one_chunk
from ...errors import DecodeError
from ...position import RelayPosition
from ...tables.column import ColumnType

if TYPE_CHECKING:
    from ...decode.folding import Net
    from ...tables.target_table import TargetTable

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_UNSAID = "", ""
"""column and table of an error that nobody sees"""

_LOST_HINT = (
    "the log changes between whole and partial row images inside one group, and moves a row between"
    " keys there: set group_max_transactions = 1 until it is behind that place"
)


@dataclass
class MissingValues:
    """The values that n net rows lack. ``wanted``: column -> which rows; ``origin``: the net row
    whose key the row has in the target (-1: none); ``diffs``: column -> row -> JSON diffs, in log
    order."""

    wanted: dict[int, Bools]
    origin: Longs
    diffs: dict[int, dict[int, bytes]] = field(default_factory=dict)

    @property
    def rows(self) -> Bools:
        """Return which rows need the target's row."""
        needed = np.zeros(len(self.origin), bool)
        for mask in self.wanted.values():
            needed |= mask
        return needed

    def fill(self, rows: pa.Table, old: Mapping[int, pa.Array], at: Longs) -> pa.Table:
        """Return ``rows`` with the values that they lack. The target's value for row i is
        ``old[column][at[i]]`` (-1: the target has no such row)."""
        columns = rows.columns
        for column, mask in self.wanted.items():
            base = one_chunk(columns[column])
            target_values = old[column]
            place = np.where(mask, len(base) + np.maximum(at, 0), np.arange(len(base)))
            gone = pa.array(mask & (at < 0))
            indices = pa.array(place, mask=np.asarray(gone))
            columns[column] = pa.concat_arrays([base, target_values]).take(indices)
        return pa.Table.from_arrays(columns, names=rows.column_names)

    def patch(self, rows: pa.Table, definition: TargetTable) -> tuple[pa.Table, list[int]]:
        """Return ``rows`` with their JSON diffs applied, and the rows whose diffs do not fit."""
        columns, bad = rows.columns, []
        for column, by_row in self.diffs.items():
            base = one_chunk(columns[column])
            chosen = np.array(sorted(by_row), np.int64)
            documents = base.take(pa.array(chosen)).to_pylist()
            patched_texts = _patched(documents, [by_row[i] for i in chosen])
            bad += [int(i) for i, text in zip(chosen, patched_texts, strict=True) if text is None]
            indices = np.arange(len(base))
            indices[chosen] = len(base) + np.arange(len(chosen))
            both = pa.concat_arrays([base, pa.array(patched_texts, base.type)])
            columns[column] = both.take(pa.array(indices))
        return pa.Table.from_arrays(columns, names=rows.column_names), bad


def _patched(documents: Sequence[str | None], diffs: Sequence[bytes]) -> list[str | None]:
    """Return each document, patched; None if its diffs don't fit."""
    try:
        return list(apply_diffs(documents, diffs, *_UNSAID))
    except DecodeError:
        return [patched(d, diff) for d, diff in zip(documents, diffs, strict=True)]


def patched(document: str | None, diff: bytes) -> str | None:
    """Return the document with its diffs applied; None if they don't fit."""
    try:
        return apply_diffs([document], [diff], *_UNSAID)[0]
    except DecodeError:
        return None


@dataclass(frozen=True)
class ChangeLog:
    """Changes in log order, [n] each: the staged row of their key's part, flags, packed position.

    ``image``: whether the staged row's image belongs to this change. A folded chain keeps its last
    image.
    """

    parent: Longs
    code: npt.NDArray[np.int32]
    flags: npt.NDArray[np.uint8]
    position: Longs
    image: Bools

    def only(self, chosen: Bools) -> ChangeLog:
        return ChangeLog(*(getattr(self, f.name)[chosen] for f in fields(self)))


def fill_partial_rows(
    staged: pa.Table, changes: ChangeLog, distinct: int, net: Net, definition: TargetTable
) -> tuple[pa.Table, MissingValues]:
    """Return the net rows as far as the group's images and the defaults give them, and the values
    that are missing."""
    line = lineage(changes.code, distinct, changes.flags)
    bitmaps, diffs = one_chunk(staged.column("held")), one_chunk(staged.column("diffs"))
    is_whole = np.asarray(bitmaps.is_null())
    present = bits(bitmaps, len(definition.columns))
    exists = net.flags & EXISTS != 0
    entry_of = np.full(distinct, -1, np.int64)
    entry_of[changes.code[net.entry]] = np.arange(len(net.entry))
    missing = MissingValues({}, entry_of[changes.code[line.root[net.entry]]])
    arrays = []
    waiting = _waiting(diffs)
    for i, column in enumerate(definition.columns):
        holds = (is_whole | present[:, i])[changes.parent]
        source = sources(line, holds, changes.image)[net.entry]
        if (lacking := exists & (source == LOST)).any():
            raise _incomplete(int(changes.position[net.entry[np.argmax(lacking)]]), definition.name)
        values = one_chunk(staged.column(i))
        indices = np.where(source >= 0, changes.parent[np.maximum(source, 0)], len(values))
        if (plain := exists & (source == DEFAULT)).any():
            at = RelayPosition.unpack(int(changes.position[net.entry[np.argmax(plain)]]))
            default = default_value(column, definition.name, at).cast(values.type)
            values = pa.concat_arrays([values, default])
        from_target = (source == TARGET) | ~exists & (source < 0)
        arrays.append(values.take(pa.array(indices, mask=from_target)))
        if (mask := exists & (source == TARGET)).any():
            missing.wanted[i] = mask
        if column.type == ColumnType.JSON and i in waiting:
            by_row = _collect(waiting[i], changes, line, net, source, exists)
            if by_row:
                missing.diffs[i] = by_row
    names = [str(i) for i in range(len(arrays))]
    return pa.Table.from_arrays(arrays, names=names), missing


def _waiting(diffs: pa.Array) -> dict[int, dict[int, bytes]]:
    """Return column -> staged row -> diffs. Only rows that have diffs pass through Python."""
    by_column: dict[int, dict[int, bytes]] = {}
    for row in np.flatnonzero(np.asarray(diffs.is_valid())):
        for column, data in pending_diffs(diffs[int(row)].as_py()):
            by_column.setdefault(column, {})[int(row)] = data
    return by_column


def _collect(
    waiting: dict[int, bytes],
    changes: ChangeLog,
    line: Lineage,
    net: Net,
    source: Longs,
    exists: Bools,
) -> dict[int, bytes]:
    """Return net row -> the diffs between the image that its document comes from and its last
    change."""
    has_diffs = np.isin(changes.parent, np.array(list(waiting), np.int64)) & changes.image
    # number of diffs on the path from each change back to its row's root
    count = along(line.previous, has_diffs)
    by_row = {}
    for row in np.flatnonzero(exists & (count[net.entry] > 0)):
        parts, at = [], int(net.entry[row])
        while at >= 0 and at != source[row]:
            if has_diffs[at]:
                parts.append(waiting[int(changes.parent[at])])
            at = int(line.previous[at])
        if parts:
            by_row[int(row)] = b"".join(reversed(parts))
    return by_row


def _incomplete(position: int, table: str) -> DecodeError:
    return DecodeError(
        "a row's image can't be completed",
        position=RelayPosition.unpack(position),
        table=table,
        hint=_LOST_HINT,
    )


def bits(bitmaps: pa.Array, columns: int) -> Bools:
    """Return bool[n, columns] of bitmaps; all False for NULL (a whole image)."""
    width = (columns + 7) // 8
    raw = bitmaps.fill_null(bytes(width)).buffers()[2]
    data = np.frombuffer(raw, np.uint8)[: len(bitmaps) * width].reshape(len(bitmaps), width)
    return np.unpackbits(data, axis=1, count=columns, bitorder="little").astype(bool)

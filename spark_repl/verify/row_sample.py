"""A sample of a table's rows, the same rows on both sides and in each run.

If the first key column is an integer, blocks of its values are sampled: the source reads only some
ranges of its key. Otherwise the CRC-32 of a text decides: the source scans the table, and sends
only the sample.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..binlog.kernels.crc import crc32
from ..binlog.kernels.jit import jit_allocating
from ..copy.source_tables import full_name, quoted
from ..delta.files.digests import mix
from ..tables.column import BINARY, CHARACTER_TYPES, ColumnType

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..copy.source_tables import ListedTable
    from ..tables.column import Column
    from ..tables.target_table import TargetTable

_BLOCKS = 4096
"""greatest number of blocks of the key's values"""
_RANGE_ROWS = 50_000
"""approximate number of rows that one statement reads"""
_INTEGERS = (
    ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG,
)  # fmt: skip


@dataclass(frozen=True)
class SampledRows:
    """A sample. If there are ``windows`` (ascending, both ends included), it has the rows whose
    value in ``column`` (a number) is within one of them; otherwise, the rows whose value there has
    a CRC-32 below ``below``."""

    column: int
    windows: tuple[tuple[int, int], ...] = ()
    below: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SampledRows:
        fields = json.loads(text)
        windows = tuple((low, high) for low, high in fields["windows"])
        return cls(fields["column"], windows, fields["below"])

    def holds(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Return bool[n]: which rows are in the sample, by their values in ``column``."""
        valid = np.asarray(values.is_valid())
        if not self.windows:
            text = values if _is_bytes(values.type) else values.cast(pa.string())
            return np.asarray(valid & (_crcs_of(text) < self.below))
        kind = pa.uint64() if pa.types.is_decimal(values.type) else pa.int64()
        numbers = values.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
        low, high = (np.array(side, numbers.dtype) for side in zip(*self.windows, strict=True))
        at = np.searchsorted(low, numbers, "right") - 1
        return np.asarray(valid & (at >= 0) & (numbers <= high[np.maximum(at, 0)]))


def sample_of(
    query: Callable[[str], list[tuple[Any, ...]]],
    table: ListedTable,
    target: TargetTable,
    percent: float,
    *,
    replaces: bool = False,
) -> tuple[SampledRows | None, tuple[str, ...]]:
    """Return the sample of a table, and the WHERE clauses that read it from the source.

    Return None and a clause for all rows if no column can choose rows, or the ``target`` does not
    show the column. ``replaces``: whether the target has U+FFFD in place of bytes that the source
    converts to other characters.
    """
    definition = table.definition
    candidates = definition.primary_key[:1] or range(len(definition.columns))
    texts = bool(definition.primary_key) or not replaces
    number = next((i for i in candidates if _is_fit(definition.columns[i], texts=texts)), None)
    if number is None or target.masks_order:
        return None, ("",)
    column = definition.columns[number]
    name = quoted(column.name)
    if column.type not in _INTEGERS or not definition.primary_key:
        below = max(1, round(percent / 100 * (1 << 32)))
        return SampledRows(number, (), below), (f"WHERE CRC32({_as_text(column)}) < {below}",)
    ((low, high),) = query(f"SELECT MIN({name}), MAX({name}) FROM {full_name(definition)}")
    if low is None:
        return None, ("",)
    sample = SampledRows(number, windows(definition.name, int(low), int(high), percent))
    count = min(len(sample.windows), max(1, round(table.rows * percent / 100) // _RANGE_ROWS))
    shares = [sample.windows[first::count] for first in range(count)]
    return sample, tuple(f"WHERE {_within(name, share)}" for share in shares)


def windows(table: str, low: int, high: int, percent: float) -> tuple[tuple[int, int], ...]:
    """Return blocks of the values from ``low`` to ``high``, at least one block, which a digest
    chooses.

    The choice of a block does not depend on the other values, as long as the span of all values
    stays within the same power of two.
    """
    width = max(0, (high - low).bit_length() - (_BLOCKS.bit_length() - 1))
    first, count = low >> width, (high >> width) - (low >> width) + 1
    seed = np.frombuffer(hashlib.sha256(table.encode()).digest()[:8], np.uint64)[0]
    numbers = np.array([(first + i) & ((1 << 64) - 1) for i in range(count)], np.uint64)
    drawn = mix(mix(numbers) ^ seed)
    chosen = np.flatnonzero(drawn < np.uint64(min(percent / 100 * 2.0**64, 2.0**64 - 2**12)))
    if percent >= 100:
        chosen = np.arange(count)
    if not len(chosen):
        chosen = np.array([int(np.argmin(drawn))])
    runs = list[tuple[int, int]]()
    for block in chosen.tolist():
        begin, end = (first + block) << width, ((first + block + 1) << width) - 1
        if runs and runs[-1][1] == begin - 1:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((begin, end))
    return tuple((max(begin, low), min(end, high)) for begin, end in runs)


def _crcs_of(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return int64[n]: the CRC-32 of each value of a text or binary array; any number for NULL."""
    array = column.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    at = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return np.asarray(_crcs(raw, at))


@jit_allocating
def _crcs(raw: Any, at: Any) -> Any:
    out = np.empty(at.size - 1, np.int64)
    for i in range(out.size):
        out[i] = crc32(raw, at[i], at[i + 1])
    return out


def _within(name: str, ranges: tuple[tuple[int, int], ...]) -> str:
    return " OR ".join(f"{name} BETWEEN {low} AND {high}" for low, high in ranges)


def _is_fit(column: Column, *, texts: bool) -> bool:
    """Return whether both sides have the same text of the column's values: BINARY is filled with
    zeros. ``texts``: whether a column of text is acceptable."""
    if column.type in CHARACTER_TYPES and column.collation == BINARY:
        return column.type != ColumnType.STRING
    return column.type in _INTEGERS or (texts and column.type in CHARACTER_TYPES)


def _as_text(column: Column) -> str:
    name = quoted(column.name)
    if column.type in _INTEGERS:
        return f"CAST({name} AS CHAR)"
    return name if column.collation == BINARY else f"CONVERT({name} USING utf8mb4)"


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )  # fmt: skip

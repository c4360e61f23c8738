"""Statistics of a data file, as Delta writes them: readers skip files by them.

Protocol: section "Per-file Statistics"; how values are cut: Delta's StatisticsCollection. A column
without ``minValues`` is never used to skip a file; ``nullCount`` counts for every type. Bounds are
those of the file's rows. Rows that a deletion vector marks later make the bounds wide
(``tightBounds``: false).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..store.storage import data_file, parquet_source
from .variant_struct import is_variant

# Columns with statistics (default of delta.dataSkippingNumIndexedCols); characters of a text.
_COLUMNS, _TEXT = 32, 32
_YEAR_1 = -719162  # in days since 1970; some readers can't parse earlier dates
_COUNT_FIRST = r'^\s*\{\s*"numRecords"\s*:\s*(?P<count>\d{1,18})\s*[,}]'
_LAST_CHARACTER = "\U0010ffff"


def statistics(table: pa.Table) -> str:
    """Return the ``stats`` of an ``add`` whose file contains ``table`` (under physical names)."""
    bounds = _Bounds({}, {}, {})
    left = _COLUMNS
    for name, column in zip(table.column_names, table.columns, strict=True):
        left = _collect(name, column, bounds, left)
    low, high, nulls = bounds
    head = {"numRecords": table.num_rows, "minValues": low, "maxValues": high}
    return as_json({**head, "nullCount": nulls, "tightBounds": True})


def row_count(folder: str, add: Mapping[str, Any]) -> int:
    """Return the number of all rows of a data file of the table at ``folder``, including deleted
    ones. If another writer left out statistics, read the file's footer. Raise OSError."""
    stats = json.loads(add.get("stats") or "{}")
    if "numRecords" in stats:
        return int(stats["numRecords"])
    return footer_row_count(data_file(folder, add["path"]))


def record_counts(stats: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the number of rows that each ``stats`` text records, NULL if it records none. Writers
    put the number first, where Arrow finds it. Python parses other texts."""
    first = pc.struct_field(pc.extract_regex(stats, _COUNT_FIRST), "count").cast(pa.int64())
    parsed = [
        json.loads(text or "{}").get("numRecords")
        for text in stats.filter(first.is_null()).to_pylist()
    ]
    counts = [None if count is None else int(count) for count in parsed]
    return pc.replace_with_mask(
        first.combine_chunks(), first.is_null().combine_chunks(), pa.array(counts, pa.int64())
    )


def footer_row_count(path: str) -> int:
    """Return the number of rows in the footer of a data file. Raise OSError."""
    with pq.ParquetFile(parquet_source(path)) as file:
        return int(file.metadata.num_rows)


def loosened(folder: str, add: Mapping[str, Any]) -> str:
    """Return the ``stats`` of a file in which some rows are now deleted. Only the flag changes;
    numbers keep their digits. Delta requires the number of rows together with a deletion vector."""
    stats = add.get("stats") or "{}"
    if "numRecords" not in json.loads(stats):
        return as_json({"numRecords": row_count(folder, add), "tightBounds": False})
    loose, count = re.subn(r'"tightBounds"\s*:\s*true', '"tightBounds":false', stats)
    if count or re.search(r'"tightBounds"\s*:\s*false', stats):
        return loose
    return stats.rstrip().removesuffix("}") + ',"tightBounds":false}'


class _Bounds(NamedTuple):
    """Least and greatest values and NULL counts by column name; a struct's are dicts by field."""

    low: dict[str, Any]
    high: dict[str, Any]
    nulls: dict[str, Any]


def _collect(name: str, column: pa.ChunkedArray, into: _Bounds, left: int) -> int:
    """Add one column's bounds to ``into``, the fields of a struct below its name; return how many
    more columns get statistics."""
    if pa.types.is_struct(column.type) and not is_variant(column.type):
        inner = _Bounds({}, {}, {})
        for field, child in zip(column.type, column.flatten(), strict=True):
            left = _collect(field.name, child, inner, left)
        for outer, part in zip(into, inner, strict=True):
            if part:
                outer[name] = part
        return left
    if left <= 0:
        return 0
    into.nulls[name] = column.null_count
    printed = _printed(column.type)
    if printed is not None and column.null_count < len(column) and _has_order(column):
        extremes = pc.min_max(column)
        low, high = printed[0](extremes["min"]), printed[1](extremes["max"])
        if low is not None and high is not None:
            into.low[name], into.high[name] = low, high
    return left - 1


def _has_order(column: pa.ChunkedArray) -> bool:
    """Return whether all values have a place in the order, and a JSON form: NaN has no place, and
    JSON has no infinity."""
    return not pa.types.is_floating(column.type) or pc.all(pc.is_finite(column)).as_py()


_Print = Callable[[pa.Scalar], Any]


def _printed(kind: pa.DataType) -> tuple[_Print, _Print] | None:
    """Return how the least and the greatest value of a type are written; None for no bounds."""
    if pa.types.is_integer(kind):
        return _plain, _plain
    if pa.types.is_floating(kind):
        return _float_min, _float_max
    if pa.types.is_decimal(kind):
        return Digits.of, Digits.of
    if pa.types.is_date(kind):
        return _date, _date
    if pa.types.is_timestamp(kind):
        return _moment, _moment
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_min, _text_max
    return None


def _plain(value: pa.Scalar) -> Any:
    return value.as_py()


def _float_min(value: pa.Scalar) -> float:
    """Return the bound, a zero as -0.0: delta-kernel orders -0.0 before 0.0."""
    return value.as_py() or -0.0


def _float_max(value: pa.Scalar) -> float:
    return value.as_py() or 0.0


class Digits(str):
    """A JSON number with its own digits."""

    @classmethod
    def of(cls, value: pa.Scalar) -> Digits:
        return cls(format(value.as_py(), "f"))


def _date(value: pa.Scalar) -> str | None:
    if value.cast(pa.int32()).as_py() < _YEAR_1:
        return None
    return f"{value.as_py()}"


def _moment(value: pa.Scalar) -> str | None:
    """Return a timestamp with its microseconds. Delta itself cuts bounds to milliseconds; after the
    year 2262 delta-rs then misses rows in the last one."""
    micros = value.cast(pa.int64()).as_py()
    if micros < _YEAR_1 * 86_400_000_000:
        return None
    moment = pa.scalar(micros, pa.timestamp("us")).as_py()
    text: str = moment.isoformat(timespec="microseconds")
    return text + ("Z" if value.type.tz else "")


def _text(value: pa.Scalar) -> str | None:
    """Return the text; None for invalid UTF-8, as copies of version 0.1.0 wrote it."""
    try:
        return str(value.as_py())
    except UnicodeDecodeError:
        return None


def _text_min(value: pa.Scalar) -> str | None:
    text = _text(value)
    return None if text is None else text[:_TEXT]


def _text_max(value: pa.Scalar) -> str | None:
    """Return the text, or a shorter one that is not less: its beginning and the greatest
    character."""
    text = _text(value)
    if text is None or len(text) <= _TEXT:
        return text
    end = _TEXT
    while end < len(text) and text[end] == _LAST_CHARACTER:
        end += 1
    return text[:end] + (_LAST_CHARACTER if end < len(text) else "")


def as_json(value: Any) -> str:
    """Return a value as JSON text in which no character is escaped unnecessarily: delta-kernel
    (delta-rs, DuckDB, Polars) decodes escaped surrogate pairs of planes 2, 4 ... 16 to wrong
    characters."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{as_json(k)}:{as_json(v)}" for k, v in value.items()) + "}"
    return str(value) if isinstance(value, Digits) else json.dumps(value, ensure_ascii=False)

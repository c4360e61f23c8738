"""Columns of a Delta table: Arrow types to Delta's schema JSON, and data files in Parquet.

Everything that writes or reads a data file uses it. ``Columns`` has the physical names, field ids
and Delta types of one table, from its schemaString, with or without column mapping. ``write_file``
returns the ``add`` action of a file that is on disk, or in the store, when it returns.
``common_type`` returns the Delta type that holds every value of two types unchanged.

Invariants: a file has only rows of one partition. A column that a file lacks, because the table got
it later, is all NULL. ``equal`` compares values, and with ``bitwise`` their bits, in which -0.0 is
not 0.0. Files of other writers are read as well, with INT96 timestamps. Raises SchemaError for a
type that Delta lacks. Design: docs/design/column-mapping.md, docs/design/delta-commits.md.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...errors import SchemaError
from ..store.storage import data_file, parquet_source
from .large_columns import BYTES_MAX, gathered, joined, stays_large, whole
from .new_file import new_file
from .partitions import Values, split
from .statistics import statistics
from .variant_struct import FILE_TYPE, as_type, is_variant

_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}


def delta_type(arrow: pa.DataType) -> Any:
    """Return Delta's name (or JSON) of an Arrow type. Raise SchemaError if Delta has no such
    type."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if is_variant(arrow):
        return "variant"
    if pa.types.is_struct(arrow):
        return {"type": "struct", "fields": [field_json(field) for field in arrow]}
    if pa.types.is_list(arrow):
        element = delta_type(arrow.value_type)
        return {"type": "array", "elementType": element, "containsNull": False}
    if arrow not in _PLAIN:
        raise SchemaError(f"Delta has no type for {arrow}")
    return _PLAIN[arrow]


def field_json(field: pa.Field) -> dict[str, Any]:
    kind = delta_type(field.type)
    return {"name": field.name, "type": kind, "nullable": field.nullable, "metadata": {}}


def schema_json(schema: pa.Schema) -> str:
    """Return the schemaString of a new table. Columns are NOT NULL as on the source, except dates,
    because a zero date may become NULL (zero_dates = "null")."""
    fields = [field_json(f.with_nullable(f.nullable or is_moment(f.type))) for f in schema]
    return json.dumps({"type": "struct", "fields": fields})


def is_moment(kind: pa.DataType) -> bool:
    """Return whether values are dates or timestamps, which may become NULL even if the source
    declares NOT NULL."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


@dataclass(frozen=True)
class Columns:
    """Columns of a table's data files: physical names, field ids and Delta types, in order."""

    names: tuple[str, ...]
    physical: tuple[str, ...]
    ids: tuple[int | None, ...]
    types: tuple[Any, ...]
    partitions: tuple[str, ...] = ()
    """names of the columns that the table is partitioned by"""
    wider: tuple[tuple[int, str], ...] = ()
    """(number of a column, wider type) for columns whose data files have a wider type"""

    @classmethod
    def of(cls, schema_string: str, partitions: Sequence[str] = ()) -> Columns:
        """Return the columns of a table's schemaString (with or without column mapping)."""
        fields = json.loads(schema_string)["fields"]
        meta = [field["metadata"] for field in fields]
        return cls(
            tuple(field["name"] for field in fields),
            tuple(
                m.get("delta.columnMapping.physicalName", f["name"])
                for m, f in zip(meta, fields, strict=True)
            ),
            tuple(m.get("delta.columnMapping.id") for m in meta),
            tuple(json.dumps(field["type"]) for field in fields),
            tuple(partitions),
        )

    def split(self, rows: pa.Table) -> Iterator[tuple[Values, pa.Table]]:
        """Yield ``rows`` (columns in order) by partition, with each partition's partitionValues.
        Raise TargetError."""
        return split(rows, {self.physical[number]: number for number in self.divides})

    @property
    def divides(self) -> tuple[int, ...]:
        """Return the numbers of the columns by which the table is partitioned."""
        return tuple(map(self.names.index, self.partitions))

    def first(self, count: int) -> Columns:
        """Return the first ``count`` columns, for reading tables."""
        ids, types = self.ids[:count], self.types[:count]
        wider = tuple((number, kind) for number, kind in self.wider if number < count)
        return Columns(self.names[:count], self.physical[:count], ids, types, wider=wider)

    def fits(self, schema: pa.Schema) -> bool:
        """Return whether rows of this Arrow schema are rows of the table: same names, order and
        types."""
        types = [plain(delta_type(field.type)) for field in schema]
        own = [plain(json.loads(kind)) for kind in self.types]
        return self.names == tuple(schema.names) and own == types

    def describe(self) -> str:
        return ", ".join(
            f"{n} {json.loads(t)}" for n, t in zip(self.names, self.types, strict=True)
        )

    def rename(self, rows: pa.Table) -> pa.Table:
        """Return ``rows`` (columns in order) under their physical names and field ids, with the
        types that data files have."""
        fields, arrays, wider = [], [], dict(self.wider)
        for number, (name, i, kind, column) in enumerate(
            zip(self.physical, self.ids, self.types, rows.columns, strict=True)
        ):
            if wide := wider.get(number):
                arrow = arrow_type(wide)
            else:
                arrow = _physical(column.type, json.loads(kind))
            arrays.append(_as_stored(column, arrow))
            fields.append(pa.field(name, arrow, True, _field_id(i)))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def plain(kind: Any) -> Any:
    """Return a Delta type with all fields nullable, and without the metadata that column mapping
    adds to fields of a struct."""
    if isinstance(kind, dict) and kind["type"] == "struct":
        fields = [
            {**f, "type": plain(f["type"]), "nullable": True, "metadata": {}}
            for f in kind["fields"]
        ]
        return {"type": "struct", "fields": fields}
    if isinstance(kind, dict) and kind["type"] == "array":
        return {**kind, "elementType": plain(kind["elementType"]), "containsNull": True}
    return kind


def _physical(arrow: pa.DataType, kind: Any) -> pa.DataType:
    """Return the Arrow type in a data file: the fields of a struct have physical names of their
    own."""
    if is_variant(arrow):
        return FILE_TYPE
    if not pa.types.is_struct(arrow):
        return arrow
    fields = []
    for field, delta in zip(arrow, kind["fields"], strict=True):
        meta = delta["metadata"]
        name = meta.get("delta.columnMapping.physicalName", field.name)
        number = _field_id(meta.get("delta.columnMapping.id"))
        fields.append(pa.field(name, _physical(field.type, delta["type"]), True, number))
    return pa.struct(fields)


def _field_id(number: int | None) -> dict[str, str] | None:
    return None if number is None else {"PARQUET:field_id": str(number)}


def with_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ``array`` as ``kind``, or as its large type if it must stay large. Fields of a struct
    are matched by their order, not by their names."""
    if array.type == kind or stays_large(array, kind):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if is_variant(kind):
        return as_type(array, kind)
    if pa.types.is_struct(kind):
        parts = [with_type(array.field(i), field.type) for i, field in enumerate(kind)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if pa.types.is_list(kind):
        values = with_type(array.values, kind.value_type)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=mask)
    return array.cast(kind)


def _as_stored(column: Any, kind: pa.DataType) -> Any:
    """Return a column as ``kind``. Chunks stay separate, unless together they need a large type:
    Parquet's writer accepts them, and to join them costs as much as to decode them."""
    if column.num_chunks > 1 and column.nbytes <= BYTES_MAX and column.type == kind:
        return column
    return with_type(one_chunk(column), kind)


def one_chunk(column: Any) -> pa.Array:
    """Return a column as one array; several chunks are joined."""
    return whole(column) if isinstance(column, pa.ChunkedArray) else column


def flat_parts(array: pa.Array) -> list[pa.Array]:
    """Return arrays of plain types that together distinguish the values of ``array``."""
    if pa.types.is_struct(array.type):
        return [
            array.is_valid(),
            *(part for child in array.flatten() for part in flat_parts(child)),
        ]
    if pa.types.is_list(array.type):
        floats = np.ascontiguousarray(array.values.to_numpy(zero_copy_only=False))
        offsets = array.offsets.to_numpy() * floats.itemsize
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(floats)]
        return [array.is_valid(), pa.Array.from_buffers(pa.binary(), len(array), buffers)]
    return [array]


def bits(array: pa.Array) -> pa.Array:
    """Return floats as integers with the same bits, so that -0.0 differs from 0.0; return other
    arrays unchanged."""
    if not pa.types.is_floating(array.type):
        return array
    return array.view(pa.int32() if array.type == pa.float32() else pa.int64())


def equal(left: pa.Array, right: pa.Array, *, bitwise: bool) -> npt.NDArray[np.bool_]:
    """Return where two columns have the same values; NULL is equal to NULL. ``bitwise``: as
    ``bits``."""
    same = np.ones(len(left), bool)
    for a, b in zip(flat_parts(left), flat_parts(right), strict=True):
        b = b if b.type == a.type else b.cast(a.type)
        a, b = (bits(a), bits(b)) if bitwise else (a, b)
        both_null = pc.and_(a.is_null(), b.is_null())
        same &= np.asarray(pc.or_(pc.fill_null(pc.equal(a, b), False), both_null))
    return same


def write_file(
    folder: str, columns: Columns, rows: pa.Table, values: Values | None = None
) -> dict[str, Any]:
    """Write one data file, fsynced, with rows of one partition; return Delta's ``add`` action."""
    name = f"part-{uuid.uuid4()}.zstd.parquet"
    path = os.path.join(folder, name)
    table = columns.rename(rows)
    with new_file(path) as file:
        pq.write_table(table, file, compression="zstd", use_dictionary=False)
        size = file.tell()
    return {
        "path": name,
        "partitionValues": values or {},
        "size": size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": statistics(table),
    }


def open_file(folder: str, path: str) -> pq.ParquetFile:
    """Open a data file that the table's log names. Spark may have written it: its INT96 timestamps
    are read as microseconds, like ours."""
    location = data_file(folder, path)
    source = parquet_source(location)
    # From an object store a column's pieces come in few requests, side by side.
    ahead = source is not location
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=ahead)


def stored_columns(file: pq.ParquetFile, names: Sequence[str]) -> list[pa.ChunkedArray]:
    """Return the columns of a data file, by their names in it. A column that the table got after
    the file was written is all NULL, of type null."""
    return _columns_of(file.read(columns=list(names)), names, file.metadata.num_rows)


def _columns_of(read: pa.Table, names: Sequence[str], rows: int) -> list[pa.ChunkedArray]:
    present = set(read.column_names)
    missing = pa.chunked_array([pa.nulls(rows)])
    return [read.column(name) if name in present else missing for name in names]


def read_rows(
    folder: str, path: str, physical: Sequence[str], rows: npt.NDArray[np.int64]
) -> list[pa.Array]:
    """Return the columns ``physical`` of ``rows`` of one data file, in that order; read only the
    row groups that contain them."""
    file = open_file(folder, path)
    metadata = file.metadata
    counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    edges = np.concatenate(([0], np.cumsum(counts)))
    row_group = np.searchsorted(edges, rows, "right") - 1
    order = np.argsort(row_group, kind="stable")
    parts = [
        gathered(file.read_row_group(int(number), columns=list(physical))).take(
            pa.array(rows[row_group == number] - edges[number])
        )
        for number in np.unique(row_group)
    ]
    back = pa.array(np.argsort(order, kind="stable"))
    table = joined(parts).take(back)
    return [one_chunk(column) for column in _columns_of(table, physical, len(rows))]


_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_REALS = {"float", "double"}
_MOMENTS = {"date", "timestamp_ntz"}
_PRIMITIVE = {
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DIGITS_MAX = 38


class _Decimal(NamedTuple):
    """A DECIMAL's precision. ``scale``: the number of digits after the point."""

    digits: int
    scale: int


def common_type(first: Any, second: Any) -> str | None:
    """Return the narrowest type that holds all values of both, by Delta's names (or JSON); None if
    there is none. A text type does not hold numbers, because numbers as text are not compared by
    value."""
    if not (isinstance(first, str) and isinstance(second, str)):
        return None
    if first == second:
        return first
    both = {first, second}
    if both <= _DIGITS.keys():
        return max(both, key=lambda kind: _DIGITS[kind])
    if both <= _MOMENTS:
        return "timestamp_ntz"
    if both & _REALS:
        return _real(both)
    return _decimal(first, second)


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a wider Delta type: a number, a date or a DATETIME."""
    if kind in _PRIMITIVE:
        return _PRIMITIVE[kind]
    number = _decimal_of(kind)
    assert number is not None, kind
    return pa.decimal128(number.digits, number.scale)


def _real(both: set[str]) -> str | None:
    """Return the real type that holds all integers of the others: 24 bits in a float, 53 in a
    double."""
    if both <= {"float", "byte", "short"}:
        return "float"
    return "double" if both <= {"float", "double", "byte", "short", "integer"} else None


def _decimal(first: str, second: str) -> str | None:
    left, right = _decimal_of(first), _decimal_of(second)
    if left is None or right is None:
        return None
    scale = max(left.scale, right.scale)
    digits = max(left.digits - left.scale, right.digits - right.scale) + scale
    return f"decimal({digits},{scale})" if digits <= _DIGITS_MAX else None


def _decimal_of(kind: str) -> _Decimal | None:
    """Return a DECIMAL, or an integer as one; None for another type."""
    if kind in _DIGITS:
        return _Decimal(_DIGITS[kind], 0)
    match = _DECIMAL.fullmatch(kind)
    return _Decimal(int(match[1]), int(match[2])) if match else None

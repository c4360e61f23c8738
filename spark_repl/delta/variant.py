"""VARIANT columns in data files: a group of two required fields, whatever their order.

Delta's protocol, "Variant Data Type". Spark reads no others; in memory the fields may be NULL where
their struct is, as those that ``take`` makes of a NULL are.
"""

from __future__ import annotations

import pyarrow as pa

from ..errors import SchemaError
from ..tables.column import VARIANT_STRUCT

FILE_TYPE = pa.struct([field.with_nullable(False) for field in VARIANT_STRUCT])


def is_variant(kind: pa.DataType) -> bool:
    """Whether this is the type of a VARIANT column, in a file or in memory."""
    return kind in (VARIANT_STRUCT, FILE_TYPE)


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """``array``, of a file by any writer, as one of the two types. Raises SchemaError for a
    shredded one, which keeps parts of its values elsewhere."""
    if {field.name for field in array.type} != {field.name for field in kind}:
        raise SchemaError(
            f"a data file holds a VARIANT as {array.type}",
            hint="write the files anew with delta.enableVariantShredding = false",
        )
    parts = [array.field(field.name) for field in kind]
    if kind == FILE_TYPE:
        parts = [part.fill_null(b"") for part in parts]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)

"""VARIANT columns in data files: a group of two required fields, in any order.

Delta's protocol, "Variant Data Type". Spark reads no other form. In memory the fields may be NULL
if their struct is NULL, as ``take`` makes them.
"""

from __future__ import annotations

import pyarrow as pa

from ...errors import SchemaError
from ...tables.column import VARIANT_STRUCT

FILE_TYPE = pa.struct([field.with_nullable(False) for field in VARIANT_STRUCT])


def is_variant(kind: pa.DataType) -> bool:
    """Return whether this is the type of a VARIANT column, in a file or in memory."""
    return kind in (VARIANT_STRUCT, FILE_TYPE)


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ``array``, from a file of any writer, as one of the two types. Raise SchemaError for a
    shredded VARIANT, which has parts of its values in other fields."""
    if {field.name for field in array.type} != {field.name for field in kind}:
        raise SchemaError(
            f"a data file holds a VARIANT as {array.type}",
            hint="rewrite the files with delta.enableVariantShredding = false",
        )
    parts = [array.field(field.name) for field in kind]
    if kind == FILE_TYPE:
        parts = [part.fill_null(b"") for part in parts]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)

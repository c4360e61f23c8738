"""GEOMETRY as STRUCT<srid, wkb> or as MySQL stores it, and VECTOR as ARRAY<FLOAT>."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import GEOMETRY_STRUCT, VECTOR_LIST, Column, Form
from . import text_values
from .column_values import Values

_SRID, _FLOAT = 4, 4
_HINT = "the log is damaged here: fetch it again, or check it with mysqlbinlog"


def geometry(column: Column, values: Values) -> pa.Array:
    """Return GEOMETRY in the column's form. A non-strict server stores an empty value; in a struct
    it becomes srid 0 and no WKB. Raise DecodeError for a value without SRID."""
    length = values.length
    if len(values) and ((length > 0) & (length < _SRID)).any():
        raise DecodeError("a GEOMETRY value without SRID", hint=_HINT)
    if column.form == Form.BYTES:
        return text_values.gather(values, pa.binary())
    srid = Values(values.buffer, values.offset, np.minimum(length, _SRID).astype(np.int32))
    body = np.maximum(length - _SRID, 0).astype(np.int32)
    children = [
        pa.array(srid.little_endian().astype(np.int32)),
        text_values.gather(Values(values.buffer, values.offset + _SRID, body), pa.binary()),
    ]
    return pa.Array.from_buffers(
        GEOMETRY_STRUCT, len(values), [values.validity], values.null_count, children=children
    )


def vector(values: Values) -> pa.Array:
    """Return the ListArray of VECTOR(n): little-endian floats. Raise DecodeError for a value that
    is not a list of floats."""
    if len(values) and (np.maximum(values.length, 0) % _FLOAT).any():
        raise DecodeError("a VECTOR value that is no row of floats", hint=_HINT)
    raw = text_values.gather(values, pa.binary())
    offsets = np.frombuffer(raw.buffers()[1], np.int32) // _FLOAT
    numbers = pa.Array.from_buffers(pa.float32(), int(offsets[-1]), [None, raw.buffers()[2]])
    buffers = [values.validity, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(
        VECTOR_LIST, len(values), buffers, values.null_count, children=[numbers]
    )

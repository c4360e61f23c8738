"""What values of each kind are as text or bytes, before a column of text takes them in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets.charset import charset_of
from ..sql.charsets import WIDE
from ..tables.column import BINARY, ColumnType, Form
from .decimal_text import plain_text
from .exact import exact
from .number_text import real_text
from .temporal import moment_text, read_moments, read_times, time_text
from .to_text import store_raw, store_text
from .type_change import Converted, TypeChange, TypeFamily, family_of


def number_text(values: pa.Array, change: TypeChange) -> pa.Array:
    """Raises Unconvertible where it isn't known how a number is printed."""
    before, kind = change.before, family_of(change.before)
    if kind == TypeFamily.YEAR:
        return pc.utf8_lpad(values.cast(pa.string()), 4, "0")
    if not change.plain and kind != TypeFamily.BIT and (before.unsigned or kind == TypeFamily.REAL):
        raise change.refused("whether it is ZEROFILL, or has a number of digits, is not known")
    if kind == TypeFamily.REAL:
        return real_text(values, change)
    return plain_text(exact(values, change))


def _number(values: pa.Array, change: TypeChange) -> Converted:
    before, after = change.before, change.after
    is_bit = family_of(before) == TypeFamily.BIT
    if is_bit and after.collation != BINARY and charset_of(after.collation) in WIDE:
        raise change.refused("the server cuts bits off in a character set of wide letters")
    if not is_bit or after.type != ColumnType.BLOB:
        return store_text(number_text(values, change), change)
    if before.meta == 1:
        values = pc.if_else(values, b"\1", b"\0")
    return store_raw(values, change)


def _moment(values: pa.Array, change: TypeChange) -> Converted:
    before = change.before
    if before.form == Form.TEXT and family_of(before) != TypeFamily.TIMESTAMP:
        return store_text(values, change)
    micros, missing = read_moments(values, change)
    is_date = family_of(before) == TypeFamily.DATE
    return store_text(moment_text(micros, missing, before.meta, is_date), change)


def _time(values: pa.Array, change: TypeChange) -> Converted:
    return store_text(time_text(*read_times(values, change), change.before.meta), change)


def _json(values: pa.Array, change: TypeChange) -> Converted:
    if change.before.form == Form.VARIANT:
        raise change.refused("a VARIANT doesn't keep how the server prints it")
    return store_text(values, change)


def _member(values: pa.Array, change: TypeChange) -> Converted:
    after = change.after
    if after.collation == BINARY or charset_of(after.collation) in WIDE:
        # A Column does not tell the set of its members, which may be binary or have wide letters.
        raise change.refused("the character set of the members is not known")
    return store_text(values, change)


def _geometry(values: pa.Array, change: TypeChange) -> Converted:
    """Four bytes of SRID, then WKB; nothing at all for the empty value."""
    if change.before.form == Form.BYTES:
        return store_raw(values, change)
    wkb = pc.struct_field(values, "wkb")
    numbers = pc.fill_null(pc.struct_field(values, "srid"), 0).to_numpy(zero_copy_only=False)
    data = [None, pa.py_buffer(numbers.astype("<i4"))]
    srid = pa.Array.from_buffers(pa.binary(4), len(values), data).cast(pa.binary())
    raw = pc.binary_join_element_wise(srid, wkb, b"")
    return store_raw(pc.if_else(pc.equal(pc.binary_length(wkb), 0), b"", raw), change)


def _vector(values: pa.Array, change: TypeChange) -> Converted:
    """Four bytes of each float."""
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    edges = np.concatenate(([0], np.cumsum(sizes * 4))).astype(np.int32)
    data = np.asarray(values.flatten(), "<f4")
    there = None if values.null_count == 0 else values.is_valid().buffers()[1]
    buffers = [there, pa.py_buffer(edges), pa.py_buffer(np.ascontiguousarray(data))]
    return store_raw(pa.Array.from_buffers(pa.binary(), len(values), buffers), change)


AS_TEXT: dict[TypeFamily, Callable[[pa.Array, TypeChange], Converted]] = {
    TypeFamily.INTEGER: _number,
    TypeFamily.DECIMAL: _number,
    TypeFamily.REAL: _number,
    TypeFamily.YEAR: _number,
    TypeFamily.BIT: _number,
    TypeFamily.TEXT: store_text,
    TypeFamily.BYTES: store_raw,
    TypeFamily.ENUM: _member,
    TypeFamily.SET: _member,
    TypeFamily.DATE: _moment,
    TypeFamily.DATETIME: _moment,
    TypeFamily.TIMESTAMP: _moment,
    TypeFamily.TIME: _time,
    TypeFamily.JSON: _json,
    TypeFamily.GEOMETRY: _geometry,
    TypeFamily.VECTOR: _vector,
}

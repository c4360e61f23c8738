"""Replace NULL in a column that becomes NOT NULL. A server that is not strict stores the type's own
default, even if the column has a DEFAULT: 0, '', or in TIMESTAMP the time of the statement.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..tables.column import Form
from .temporal import put_utc, time_array, zero_date
from .to_number import bit_array
from .to_text import store_bytes
from .type_change import TypeChange, TypeFamily, family_of

_NUMBERS = (TypeFamily.INTEGER, TypeFamily.REAL, TypeFamily.YEAR, TypeFamily.DECIMAL)
_EMPTY = (TypeFamily.TEXT, TypeFamily.ENUM, TypeFamily.SET)


def without_nulls(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return the values with the type's default instead of NULL. Raise Unconvertible if the column
    cannot have NULL, if a strict server refuses NULL, or if the type's default is not known."""
    if not change.before.nullable:
        raise change.refused("there are NULLs in a column that can have none: zero dates, maybe")
    if change.session.is_strict and family_of(change.after) != TypeFamily.TIMESTAMP:
        raise change.refused("there are NULLs, which a strict server refuses")
    return pc.fill_null(values, _default(change)[0])


def _default(change: TypeChange) -> pa.Array:
    after, kind = change.after, family_of(change.after)
    zero, valid = np.zeros(1, np.int64), np.zeros(1, np.bool_)
    if kind in _NUMBERS:
        text = f"{0:.{after.scale}f}" if kind == TypeFamily.DECIMAL else "0"
        return pa.array([text]).cast(after.arrow_type)
    if kind == TypeFamily.BIT:
        return bit_array(pa.array([0]).cast(pa.decimal256(22, 0)), after.meta)
    if kind in _EMPTY:
        return pa.array([""])
    if kind == TypeFamily.BYTES:
        return store_bytes(pa.array([b""]), after).values
    if kind == TypeFamily.TIME:
        return time_array(zero, valid, after)
    if kind == TypeFamily.JSON and after.form == Form.USUAL:
        return pa.array(["null"])
    if kind == TypeFamily.TIMESTAMP and change.session.at:
        return put_utc(np.array([change.session.at], np.int64), valid, after)
    if kind in (TypeFamily.DATE, TypeFamily.DATETIME) and after.form == Form.TEXT:
        return pa.array([zero_date(after)])
    raise change.refused("there are NULLs, for which the type has no default that is known")

"""Convert stored values when ALTER TABLE gives their column another type, as MySQL 9.7 does.

All conversions were measured on 9.7 only. One difference is known: servers before 8.0 print the
doubles of JSON in another way. Some results depend on facts that are not in the log: the server's
own time zone, a collation's comparisons, values that the server would have refused. Such types or
values are Unconvertible: nothing is guessed.

NULL is replaced in a column that becomes NOT NULL. A server that is not strict stores the type's
own default, even if the column has a DEFAULT: 0, '', or in TIMESTAMP the time of the statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..tables.column import Form
from .lossless import keeps_values, numbers_zeros
from .members import members_of_bits, store_member
from .number_text import exact
from .temporal import (
    moment_number,
    number_moments,
    put_utc,
    store_moment,
    store_time,
    text_moments,
    time_array,
    zero_date,
)
from .to_json import store_json
from .to_number import bit_array, store_exact, store_integer, store_number_text, store_real
from .to_text import AS_TEXT, number_text, store_bytes
from .type_change import Converted, TypeChange, TypeFamily, by_distinct, characters, family_of

if TYPE_CHECKING:
    from ..tables.column import Column

_NUMBERS = frozenset(
    (TypeFamily.INTEGER, TypeFamily.DECIMAL, TypeFamily.YEAR, TypeFamily.BIT, TypeFamily.REAL)
)
_MOMENTS = frozenset((TypeFamily.DATE, TypeFamily.DATETIME, TypeFamily.TIMESTAMP))
_TEXTS = frozenset((TypeFamily.TEXT, TypeFamily.BYTES))
_MEMBERS = frozenset((TypeFamily.ENUM, TypeFamily.SET))


def convert(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return the column's ``values`` after ALTER TABLE has changed it. Arguments and results are in
    the columns' ``arrow_type``. Raise Unconvertible if the result is not known."""
    before, after = change.before, change.after
    if keeps_values(change):
        return _with_values(values, change)
    if before.arrow_type is None or after.arrow_type is None:
        raise change.refused("there is no place for such values")
    if change.pads and pc.any(pc.less(pc.utf8_length(values), characters(before))).as_py():
        raise change.refused("PAD_CHAR_TO_FULL_LENGTH fills values of CHAR up with spaces")
    if same_type(before, after):
        if family_of(before) in (TypeFamily.REAL, TypeFamily.VECTOR) and not change.plain:
            raise change.refused("whether it has other digits or dimensions is not known")
        converted = Converted(values)
    else:
        converter = _converter(change)
        if converter is None:
            raise change.refused("such a conversion is not known")
        converted = converter(values, change)
    _refuse_unfit(values, converted, change)
    return _with_values(_as_one(converted.values), change)


def _as_one(values: pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def same_type(before: Column, after: Column) -> bool:
    """Return whether the columns agree in every property that affects a value."""
    parts = ("type", "meta", "unsigned", "literals", "form")
    same = all(getattr(before, part) == getattr(after, part) for part in parts)
    return same and (family_of(before) not in _TEXTS or before.collation == after.collation)


def _refuse_unfit(values: pa.Array, converted: Converted, change: TypeChange) -> None:
    """Raise Unconvertible if a value does not fit and the session is strict: a strict server has
    refused the statement."""
    if converted.unfit is None or not change.session.is_strict:
        return
    if pc.any(converted.unfit).as_py():
        row = pc.index(pc.fill_null(converted.unfit, False), True).as_py()
        raise change.refused(
            f"{str(values[row].as_py())[:60]!r} {converted.why}, which a strict server refuses"
        )


def _with_values(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return the values without NULL if the column allows none. Raise Unconvertible for NULL that
    cannot be replaced, and for rows that AUTO_INCREMENT numbers."""
    before, after = change.before, change.after
    if values.null_count and after.auto_increment and not before.auto_increment:
        raise change.refused("AUTO_INCREMENT gives rows of NULL a number")
    if values.null_count and not after.nullable:
        values = without_nulls(values, change)
    zeros = numbers_zeros(before, after, change.session)
    if zeros and pc.any(pc.equal(values.cast(pa.float64(), safe=False), 0)).as_py():
        raise change.refused("AUTO_INCREMENT gives rows of 0 a number")
    return values


_Converter = Callable[[pa.Array, TypeChange], Converted]


def _converter(change: TypeChange) -> _Converter | None:
    """Return the conversion between the families of two types; None if none is known."""
    before, after = family_of(change.before), family_of(change.after)
    if before in _NUMBERS and after in _NUMBERS:
        return _number_to_number
    if before in _MEMBERS and after in _NUMBERS:
        return _number_to_number
    if before == TypeFamily.BIT and after in _MEMBERS:
        return lambda values, change: members_of_bits(exact(values, change), change)
    if after in _TEXTS:
        return AS_TEXT.get(before) if before else None
    if after in _MEMBERS:
        return _to_member if before in _NUMBERS | _TEXTS | _MEMBERS else None
    if after == TypeFamily.JSON:
        has_json = _NUMBERS - {TypeFamily.BIT} | _MEMBERS | {TypeFamily.TEXT}
        return _to_json if before in has_json else None
    if before == TypeFamily.INTEGER and after in _MOMENTS | {TypeFamily.TIME}:
        return number_moments
    if before in _MOMENTS | {TypeFamily.TIME}:
        return _from_moment(before, after)
    if before in _TEXTS:
        return _from_text(after)
    return None


def _from_text(after: TypeFamily | None) -> _Converter | None:
    if after in _NUMBERS:
        return _text_to_number
    return _text_to_moment if after in _MOMENTS | {TypeFamily.TIME} else None


def _number_to_number(values: pa.Array, change: TypeChange) -> Converted:
    if family_of(change.before) == TypeFamily.REAL:
        return store_real(values.cast(pa.float64()), change)
    if pa.types.is_integer(values.type) and family_of(change.after) == TypeFamily.INTEGER:
        return store_integer(values.cast(pa.int64()), change.after)
    return store_exact(exact(values, change), change)


def _to_member(values: pa.Array, change: TypeChange) -> Converted:
    kind = family_of(change.before)
    if kind == TypeFamily.BYTES:
        raise change.refused("bytes are compared with the members by the collation")
    texts = number_text(values, change) if kind in _NUMBERS else values
    return store_member(texts, change)


def _to_json(values: pa.Array, change: TypeChange) -> Converted:
    texts = number_text(values, change) if family_of(change.before) in _NUMBERS else values
    return store_json(texts, change)


def _from_moment(before: TypeFamily | None, after: TypeFamily | None) -> _Converter | None:
    if after in _NUMBERS:
        return lambda values, change: store_exact(moment_number(values, change), change)
    if after in _MOMENTS | {TypeFamily.TIME}:
        return store_time if before == TypeFamily.TIME else store_moment
    return None


def _texts_of(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return bytes as text, one character for each byte value."""
    if not pa.types.is_binary(values.type):
        return values
    return by_distinct(values, lambda v: (v and v.decode("latin-1"), True), pa.string()).values


def _text_to_number(values: pa.Array, change: TypeChange) -> Converted:
    return store_number_text(_texts_of(values, change), change)


def _text_to_moment(values: pa.Array, change: TypeChange) -> Converted:
    return text_moments(_texts_of(values, change), change)


_NUMBER_FAMILIES = (TypeFamily.INTEGER, TypeFamily.REAL, TypeFamily.YEAR, TypeFamily.DECIMAL)
_EMPTY = (TypeFamily.TEXT, TypeFamily.ENUM, TypeFamily.SET)


def without_nulls(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return the values with the type's default in place of NULL. Raise Unconvertible if the column
    cannot have NULL, if a strict server refuses NULL, or if the type's default is not known."""
    if not change.before.nullable:
        raise change.refused("there are NULLs in a column that can have none: zero dates, maybe")
    if change.session.is_strict and family_of(change.after) != TypeFamily.TIMESTAMP:
        raise change.refused("there are NULLs, which a strict server refuses")
    return pc.fill_null(values, _default(change)[0])


def _default(change: TypeChange) -> pa.Array:
    after, kind = change.after, family_of(change.after)
    zero, valid = np.zeros(1, np.int64), np.zeros(1, np.bool_)
    if kind in _NUMBER_FAMILIES:
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

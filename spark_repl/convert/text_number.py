"""Text -> numbers, as the server reads them: spaces around, what follows the number is dropped."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from ..tables.column import ColumnType
from .to_number import store_exact, store_integer, store_real
from .type_change import Converted, TypeChange, TypeFamily, by_distinct, either, family_of

_T = ColumnType
_SPACE = r"[ \t\n\v\f\r]*"
_NUMBER = re.compile(_SPACE + r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([eE][+-]?[0-9]+)?", re.ASCII)
_EMPTY = re.compile(_SPACE)
_WHOLE = rf"^{_SPACE}[+-]?[0-9]{{1,18}}{_SPACE}$"
_DIGITS_MAX, _EXPONENT_MAX, _SCALE = 40, 30, 30
_HALF_AND_MORE = pa.decimal256(76, _SCALE)
_context = Context(prec=200)
_YEAR = re.compile(r"[0-9]{1,4}", re.ASCII)


def store_number_text(texts: pa.Array, change: TypeChange) -> Converted:
    """Text into a column of any kind of number. Raises Unconvertible."""
    kind = change.after.type
    if kind in (_T.YEAR, _T.BIT):
        texts = by_distinct(texts, _only_digits(change), pa.string()).values
    elif kind in (_T.FLOAT, _T.DOUBLE):
        done = by_distinct(texts, _double(change), pa.float64())
        return _joined(done, store_real(done.values, change))
    if pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py() is not False:
        bare = pc.ascii_trim(texts, "+ \t\n\v\f\r")
        if family_of(change.after) == TypeFamily.INTEGER:
            return store_integer(bare.cast(pa.int64()), change.after)
        return store_exact(bare.cast(pa.int64()).cast(pa.decimal256(76, 0)), change)
    done = by_distinct(texts, _exact(change), _HALF_AND_MORE)
    return _joined(done, store_exact(done.values, change))


def _joined(read: Converted, stored: Converted) -> Converted:
    return Converted(stored.values, either(read.unfit, stored.unfit), "is no such number")


def _exact(change: TypeChange) -> Callable[[str | None], tuple[Decimal | None, bool]]:
    """Text -> a decimal of 30 digits behind the point, cut off where it has more."""
    integral = change.after.type != _T.DECIMAL
    zero = Decimal(0)

    def read(text: str | None) -> tuple[Decimal | None, bool]:
        if text is None:
            return None, True
        match = _NUMBER.match(text)
        if not match:
            return zero, False
        exponent = match[2] or ("e99" if _half_exponent(text, match.end()) else "e0")
        if (integral and exponent != "e0") or abs(int(exponent[1:])) > _EXPONENT_MAX:
            raise change.refused(f"how the server reads the exponent of {text!r} is not known")
        if len(match[1]) > _DIGITS_MAX:
            raise change.refused(f"how the server reads the digits of {text!r} is not known")
        number = Decimal(match[0].strip())
        cut = number.quantize(Decimal(1).scaleb(-_SCALE), "ROUND_DOWN", _context)
        if abs(number) >= 10**45 or (change.after.scale == _SCALE and cut != number):
            raise change.refused(f"how the server reads a number as large as {text!r} is not known")
        return cut, _rest_is_empty(text, match.end())

    return read


def _half_exponent(text: str, end: int) -> bool:
    return text[end : end + 1] in ("e", "E")


def _rest_is_empty(text: str, end: int) -> bool:
    return bool(_EMPTY.fullmatch(text, end))


def _double(change: TypeChange) -> Callable[[str | None], tuple[float | None, bool]]:
    def read(text: str | None) -> tuple[float | None, bool]:
        if text is None:
            return None, True
        match = _NUMBER.match(text)
        if not match:
            return 0.0, False
        if len(match[1]) > _DIGITS_MAX:
            raise change.refused(f"how the server reads the digits of {text!r} is not known")
        value = float(match[0])
        if value == 0 and match[1].strip("+-0."):
            raise change.refused(f"{text!r} is too near to 0")
        if math.isinf(value):
            return value, False
        return value, _rest_is_empty(text, match.end())

    return read


def _only_digits(change: TypeChange) -> Callable[[str | None], tuple[str | None, bool]]:
    """YEAR and BIT have readings of their own for all but plain digits."""
    is_year = change.after.type == _T.YEAR

    def read(text: str | None) -> tuple[str | None, bool]:
        if text is None:
            return None, True
        plain = _YEAR.fullmatch(text) if is_year else re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII)
        if not plain or (is_year and int(text) < 100 and not (len(text) < 3 and int(text))):
            raise change.refused(f"how the server reads {text!r} is not known")
        return text, True

    return read

"""Literals as their columns store them: a DEFAULT, or a constant that is assigned to the column;
and the members of ENUM and SET that a literal names.

The result depends on the literal, the column and the session. The server accepted a literal of
DEFAULT, so it is valid. A constant of an expression may be out of range: a server that is not
strict stores the nearest value then.

The last functions handle doubles: the digits that FLOAT(M,D) and DOUBLE(M,D) store, and their text.
"""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from decimal import Context, Decimal
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

import numpy as np

from ..binlog.charsets.charset import charset_of, to_text
from ..errors import DecodeError
from ..tables.column import (
    BINARY,
    CHARACTER_TYPES,
    DATE_TYPES,
    NUMERIC_TYPES,
    TIME_TYPES,
    ColumnType,
)
from .charsets import WIDE, collation
from .session import TIME_TRUNCATE_FRACTIONAL
from .temporal_literals import SECOND, letters_of, moment_letters, moment_of, time_of

if TYPE_CHECKING:
    from ..tables.column import Column
    from .session import Session

_T = ColumnType
_N = TypeVar("_N", int, float, Decimal)
_MICROSECOND = datetime.timedelta(microseconds=1)
_START = datetime.datetime(1970, 1, 1)
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_TEXT = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)\s*")
_PLAIN_NUMBER = re.compile("0|[1-9][0-9]{0,18}", re.ASCII)
_DIGIT = re.compile("[0-9]", re.ASCII)
_LONGLONG_BYTES = 8
_DIGITS = Context(prec=100)
"""more than any DECIMAL has"""
_TIMESTAMPS = (_T.TIMESTAMP, _T.TIMESTAMP_OLD)
_TIMESTAMP_MAX_MICROS = ((1 << 31) - 1) * SECOND + 999_999
_TIME_MAX_MICROS = ((838 * 60 + 59) * 60 + 59) * SECOND
_INTEGER_BITS = {_T.TINY: 8, _T.SHORT: 16, _T.INT24: 24, _T.LONG: 32, _T.LONGLONG: 64}
_ALL_CHARACTERS = frozenset(("utf8mb4", "utf16", "utf16le", "utf32"))
_YEAR_MIN, _YEAR_MAX = 1901, 2155
_FLOAT_MAX = 3.4028234663852886e38


def normalize_or_keep(literal: str, column: Column, session: Session) -> str:
    """Return ``normalize``, or the literal itself if the stored form is not known."""
    try:
        return normalize(literal, column, session)
    except ValueError:
        return literal


def normalize(literal: str, column: Column, session: Session, *, assigned: bool = False) -> str:
    """Return the form in which the column stores a literal of ``Column.default``.

    Numbers have the column's digits. ENUM and SET have the names of members. Dates and times are as
    the server prints them, TIMESTAMP with its offset from UTC. Bytes are hexadecimal digits.
    ``assigned``: the literal is the constant of an expression, not of DEFAULT. Raise ValueError if
    the stored form is not known.
    """
    if literal == "NULL":
        return literal
    truncates = bool(session.sql_mode & TIME_TRUNCATE_FRACTIONAL)
    try:
        if column.type in DATE_TYPES:
            return _date(literal, column, session, truncates)
        if column.type in TIME_TYPES:
            return _time(literal, column, truncates)
        lenient = assigned and not session.is_strict
        if column.type in (_T.ENUM, _T.SET):
            return (_numbered_member if assigned else _member)(literal, column, exact=lenient)
        if column.type in CHARACTER_TYPES:
            if assigned:
                _check_charset(literal, column, session)
            # A double that is too long gets other digits.
            is_double = not literal.startswith(("'", "0x", "0b")) and "e" in literal.lower()
            cuts = lenient and not is_double
            return (_bytes if column.collation == BINARY else _text)(literal, column, cuts=cuts)
        if column.type == _T.JSON and literal.startswith("'") and not assigned:
            return literal  # a document in the server's form: DEFAULT has no JSON literals
        return _number_text(literal, column, session.is_strict)
    except (ArithmeticError, KeyError) as error:  # KeyError: of a time zone
        raise ValueError(literal) from error


def _number_text(literal: str, column: Column, strict: bool) -> str:
    if column.type == _T.DECIMAL:
        return _decimal(literal, column, strict)
    if column.type in (_T.FLOAT, _T.DOUBLE):
        return _real(literal, column, strict)
    if column.type == _T.YEAR:
        return _year(literal, strict)
    if column.type == _T.BIT:
        return _bits(literal, column, strict)
    if column.type in NUMERIC_TYPES:
        return _integer(literal, column, strict)
    raise ValueError(literal)


def _fitted(value: _N, low: _N, high: _N, strict: bool) -> _N:
    """Return the nearest value of the range. Raise ValueError for another one if the server is
    strict: it refuses the statement."""
    if low <= value <= high:
        return value
    if strict:
        raise ValueError(value)
    return low if value < low else high


def _numbered_member(literal: str, column: Column, *, exact: bool) -> str:
    """Return ``_member``. A number is a position in the list of members of ENUM, and the bits of
    SET."""
    if not _PLAIN_NUMBER.fullmatch(literal):
        return _member(literal, column, exact=exact)
    number, members = int(literal), column.literals
    if column.type == _T.ENUM:
        if not 0 < number <= len(members):
            raise ValueError(literal)
        return _member(f"'{members[number - 1]}", column, exact=exact)
    if number >> len(members):
        raise ValueError(literal)
    chosen = ",".join(member for at, member in enumerate(members) if number >> at & 1)
    return _member(f"'{chosen}", column, exact=exact)


def _member(literal: str, column: Column, *, exact: bool) -> str:
    """``exact``: a name that differs from a member may be no member, by the collation."""
    if not literal.startswith(("'", "0x", "0b")) and not _PLAIN_NUMBER.fullmatch(literal):
        raise ValueError(literal)
    names = [letters_of(literal)]
    if column.type == _T.SET:
        names = names[0].split(",") if names[0] else []
    # The server ignores spaces at the end of a name, but not in CHARACTER SET binary, which no
    # definition records. A strict server has accepted the literal as a member.
    bare = [name if name in column.literals else name.rstrip(" ") for name in names]
    if exact and bare != names:
        raise ValueError(literal)
    if exact and not set(bare) <= set(column.literals):
        raise ValueError(literal)
    members = [member_of(name, column.literals) for name in bare]
    if any(member is None or has_twin_before(member, column.literals) for member in members):
        raise ValueError(literal)
    return "'" + ",".join(member for member in column.literals if member in members)


def _date(literal: str, column: Column, session: Session, truncates: bool) -> str:
    micros, ahead = moment_of(moment_letters(literal), truncates=truncates)
    is_date = column.type == _T.DATE
    if micros is None:
        return "'0000-00-00" if is_date else "'0000-00-00 00:00:00"
    if ahead is not None and is_date:
        raise ValueError(literal)
    unit = 10 ** (6 - column.meta)
    micros = (micros + (0 if truncates else unit // 2)) // unit * unit
    zone = ""
    if column.type in _TIMESTAMPS:
        micros, zone = _utc(micros, ahead, session.time_zone), "+00:00"
        if not SECOND <= micros <= _TIMESTAMP_MAX_MICROS:
            raise ValueError(literal)
    elif ahead is not None:
        micros = _clock(micros - ahead, session.time_zone)
    moment = _START + micros * _MICROSECOND
    text = moment.isoformat(" ", "microseconds")
    return f"'{text[: 10 if is_date else 20 + column.meta if column.meta else 19]}{zone}"


def _utc(micros: int, ahead: int | None, zone: str) -> int:
    """Return the microseconds since 1970 in UTC of a clock that is ``ahead`` of UTC, or that is in
    the zone. Of two times with that clock, return the first. Raise ValueError for a time that the
    zone leaves out."""
    fixed = _ahead(zone) if ahead is None else ahead
    if fixed is not None:
        return micros - fixed
    clock = (_START + micros * _MICROSECOND).replace(tzinfo=ZoneInfo(zone))
    utc = (clock.astimezone(datetime.UTC).replace(tzinfo=None) - _START) // _MICROSECOND
    if _clock(utc, zone) != micros:
        raise ValueError(zone)
    return utc


def _clock(utc: int, zone: str) -> int:
    fixed = _ahead(zone)
    if fixed is not None:
        return utc + fixed
    moment = (_START + utc * _MICROSECOND).replace(tzinfo=datetime.UTC)
    return (moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) - _START) // _MICROSECOND


def _ahead(zone: str) -> int | None:
    """Return the microseconds that a zone is ahead of UTC; None for a zone that has a name. Raise
    ValueError for the server's own zone."""
    if zone in ("", "SYSTEM"):
        raise ValueError(zone)
    if zone == "UTC":
        return 0
    if not (match := _OFFSET.fullmatch(zone)):
        return None
    size = (int(match[2]) * 60 + int(match[3])) * 60 * SECOND
    return -size if match[1] == "-" else size


def _time(literal: str, column: Column, truncates: bool) -> str:
    micros = time_of(letters_of(literal), truncates=truncates)
    unit = 10 ** (6 - column.meta)
    size = (abs(micros) + (0 if truncates else unit // 2)) // unit * unit
    if size > _TIME_MAX_MICROS:
        raise ValueError(literal)
    seconds, fraction = divmod(size, SECOND)
    sign = "-" if micros < 0 and size else ""
    text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"'{text}" + (f".{fraction:06d}"[: 1 + column.meta] if column.meta else "")


def _integer(literal: str, column: Column, strict: bool) -> str:
    number = _number(literal, strict)
    value = round(number) if isinstance(number, float) else int(_rounded(number, 0))
    bits = _INTEGER_BITS[ColumnType(column.type)]
    low, high = (0, (1 << bits) - 1) if column.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)
    if isinstance(number, float) and abs(number) >= 2.0**63:
        raise ValueError(literal)
    return str(_fitted(value, low, high, strict))


def _decimal(literal: str, column: Column, strict: bool) -> str:
    number = _number(literal, strict)
    exact = Decimal(repr(number)) if isinstance(number, float) else number
    high = Decimal(10**column.precision - 1).scaleb(-column.scale, _DIGITS)
    low = Decimal(0) if column.unsigned else -high
    fitted = _fitted(_rounded(exact, column.scale), low, high, strict)
    return f"{_rounded(fitted, column.scale):f}"


def _real(literal: str, column: Column, strict: bool) -> str:
    """Raise ValueError if it is not known whether the column has a number of digits."""
    value = float(_number(literal, strict))
    if column.detail is None and not value.is_integer():
        raise ValueError(literal)
    if column.detail and REAL_DETAIL.search(column.detail):
        value = real_digits(value, column.detail, clips=not strict)
    if column.type == _T.FLOAT and abs(value) > _FLOAT_MAX:
        raise ValueError(literal)
    if column.unsigned:
        value = _fitted(value, 0.0, math.inf, strict)
    return repr(value or abs(value))


def _bits(literal: str, column: Column, strict: bool) -> str:
    """Return the bits as a number. Those of a text are its bytes."""
    most = (1 << column.meta) - 1
    if literal.startswith("'"):
        return str(_fitted(int.from_bytes(literal[1:].encode(), "big"), 0, most, strict))
    number = _number(literal, strict)
    if number < 0:
        raise ValueError(literal)
    value = math.trunc(number) if isinstance(number, float) else int(_rounded(number, 0))
    return str(_fitted(value, 0, most, strict))


def _year(literal: str, strict: bool) -> str:
    number, text = _number(literal, strict), literal.removeprefix("'")
    year = math.trunc(number) if isinstance(number, float) else int(_rounded(number, 0))
    if year == 0 and "-" in text:
        raise ValueError(literal)
    if year == 0:
        is_short = literal[:1] == "'" and _DIGIT.search(text) and len(text) != len("0000")
        return "2000" if is_short else "0"
    if 0 < year < 100:
        return str(year + (2000 if year < 70 else 1900))
    if not _YEAR_MIN <= year <= _YEAR_MAX:
        if strict:
            raise ValueError(literal)
        return "0"
    return str(year)


def _check_charset(literal: str, column: Column, session: Session) -> None:
    """Raise ValueError if the column's character set may lack characters of an assigned constant:
    a server that is not strict replaces them."""
    if column.assumed and literal[:2] in ("0x", "0b") and _raw(literal):
        raise ValueError(literal)
    plain = column.collation == BINARY or session.is_strict or literal.isascii()
    if not plain and column.collation and charset_of(column.collation) not in _ALL_CHARACTERS:
        raise ValueError(literal)


def _text(literal: str, column: Column, *, cuts: bool) -> str:
    """Raise ValueError for bytes that are no text in the column's character set, for doubles whose
    text is not known, and for text that is too long unless the server cuts it."""
    charset = charset_of(column.collation) if column.collation else "utf8mb4"
    if literal[:2] in ("0x", "0b"):
        try:
            text = to_text(_raw(literal), charset)
        except DecodeError as error:
            raise ValueError(literal) from error
    else:
        text = _letters(literal, charset in WIDE)
    if column.type == _T.STRING:
        text = text.rstrip(" ")
    if column.type != _T.BLOB:
        most = column.meta // collation(charset)[1]
        lost = text[most:].strip(" ") or (literal[:1] != "'" and len(text) > most)
        if lost and not cuts:
            raise ValueError(literal)
        text = text[:most]
    return f"'{text}"


def _bytes(literal: str, column: Column, *, cuts: bool) -> str:
    is_raw = literal[:2] in ("0x", "0b")
    raw = _raw(literal) if is_raw else _letters(literal, False).encode()
    if column.type != _T.BLOB and len(raw) > column.meta:
        if not cuts:
            raise ValueError(literal)
        raw = raw[: column.meta]
    return "0x" + (raw.ljust(column.meta, b"\0") if column.type == _T.STRING else raw).hex()


def _raw(literal: str) -> bytes:
    base, digits = literal[:2], literal[2:]
    if base == "0x":
        return bytes.fromhex("0" * (len(digits) % 2) + digits)
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")


def _number(literal: str, strict: bool) -> Decimal | float:
    """Return the exact number, or a double. Raise ValueError for text whose number is not known."""
    if literal.startswith("'"):
        if match := _TEXT.fullmatch(literal[1:]):
            return Decimal(match[1])
        if strict or _DIGIT.search(literal):
            raise ValueError(literal)
        return Decimal(0)
    if literal[:2] in ("0x", "0b"):
        raw = _raw(literal).lstrip(b"\0")
        if len(raw) > _LONGLONG_BYTES:
            raise ValueError(literal)
        return Decimal(int.from_bytes(raw, "big"))
    return float(literal) if "e" in literal.lower() else Decimal(literal)


def _rounded(number: Decimal, scale: int) -> Decimal:
    rounded = number.quantize(Decimal(1).scaleb(-scale), "ROUND_HALF_UP", _DIGITS)
    return rounded or abs(rounded)


def _letters(literal: str, wide: bool) -> str:
    if literal.startswith("'"):
        return literal[1:]
    if "e" not in literal.lower():
        number = Decimal(literal)
        return f"{number or abs(number):f}"
    if wide:
        raise ValueError(literal)
    return real_literal_text(float(literal))


def member_of(name: str, members: tuple[str, ...]) -> str | None:
    """Return the member to which ``name``, which the server has accepted, refers; None if it is not
    known."""
    if name in members:
        return name
    same = [member for member in members if member.lower() == name.lower()]
    plain = len(same) == 1 and all(member.isascii() for member in (name, *members))
    return same[0] if plain else None


def has_twin_before(name: str, members: tuple[str, ...]) -> bool:
    """Return whether an earlier member may be equal to this one in the collation. The name would
    then refer to the earlier one; a server that is not strict accepts such lists."""
    bare = _bare(name)
    return any(_bare(member) == bare for member in members[: members.index(name)])


def _bare(text: str) -> str:
    """Return the text without case and marks."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in parts if not unicodedata.combining(char))


REAL_DETAIL = re.compile(r"([0-9]+),([0-9]+)")
"""in ``Column.detail``"""
_EXPONENT_FROM, _EXPONENT_LEAST = 15, -10


def real_digits(value: float, detail: str, *, clips: bool = False) -> float:
    """Return the double that a column of (M,D) stores, rounded in binary, half to even. Raise
    ValueError for a value out of range, unless the server ``clips``."""
    match = REAL_DETAIL.search(detail)
    assert match
    whole, digits = int(match[1]), int(match[2])
    scale = 10.0**digits
    most = 10.0 ** (whole - digits) - 1.0 / scale
    front = np.floor(value)
    rounded = float(front + np.rint((value - front) * scale) / scale)
    if abs(rounded) <= most:
        return rounded
    if not clips:
        raise ValueError(value)
    return most if rounded > 0 else -most


def real_literal_text(value: float) -> str:
    """Return the text in which a text column with room for all digits stores a double. Raise
    ValueError if the text is not known."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, power = "".join(map(str, digits)), int(exponent) + len(digits)
    if not any(digits):
        return "0"
    if power < _EXPONENT_LEAST:
        raise ValueError(value)
    if power <= _EXPONENT_FROM:
        return f"{Decimal(repr(value)).normalize():f}"
    point = "." if len(text) > 1 else ""
    return f"{'-' * sign}{text[0]}{point}{text[1:]}e{power - 1}"

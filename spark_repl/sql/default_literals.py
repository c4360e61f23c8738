"""Normalise DEFAULT literals to the form that the column stores, and find the members of ENUM and
SET that a literal names.

The server has accepted the literal, so it is valid. What it means depends on the column and on the
session.
"""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from decimal import Context, Decimal
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

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
from .real_literal import REAL_DETAIL, real_digits, real_literal_text
from .session import TIME_TRUNCATE_FRACTIONAL
from .temporal_literals import SECOND, letters_of, moment_letters, moment_of, time_of

if TYPE_CHECKING:
    from ..tables.column import Column
    from .session import Session

_T = ColumnType
_MICROSECOND = datetime.timedelta(microseconds=1)
_START = datetime.datetime(1970, 1, 1)
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_TEXT = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?)\s*")
_PLAIN_NUMBER = re.compile("0|[1-9][0-9]*", re.ASCII)
_LONGLONG_BYTES = 8
_DIGITS = Context(prec=100)
"""more than any DECIMAL has"""
_TIMESTAMPS = (_T.TIMESTAMP, _T.TIMESTAMP_OLD)


def settled(said: str, column: Column, session: Session) -> str:
    """``settle``; ``said`` where it isn't known."""
    try:
        return settle(said, column, session)
    except ValueError:
        return said


def settle(said: str, column: Column, session: Session) -> str:
    """A literal of DEFAULT, as ``Column.default`` has it, as the column stores it: numbers with its
    digits, ENUM and SET by the names of the members, dates and TIME in the form that the server
    prints, TIMESTAMP with its distance from UTC, bytes in hexadecimal digits. Raises ValueError
    where it isn't known."""
    if said == "NULL":
        return said
    truncates = bool(session.sql_mode & TIME_TRUNCATE_FRACTIONAL)
    try:
        if column.type in DATE_TYPES:
            return _moment(said, column, session, truncates)
        if column.type in TIME_TYPES:
            return _time(said, column, truncates)
        return _value(said, column)
    except (ArithmeticError, KeyError) as error:  # KeyError: of a time zone
        raise ValueError(said) from error


def _value(said: str, column: Column) -> str:
    if column.type in CHARACTER_TYPES:
        if column.collation == BINARY:
            return _bytes(said, column)
        charset = charset_of(column.collation) if column.collation else "utf8mb4"
        return _text(said, column, collation(charset)[1])
    if column.type in (_T.ENUM, _T.SET):
        return _member(said, column)
    if column.type == _T.DECIMAL:
        return _decimal(said, column)
    if column.type in (_T.FLOAT, _T.DOUBLE):
        return _real(said, column)
    if column.type == _T.YEAR:
        return _year(said)
    if column.type == _T.BIT:
        return _bits(said)
    if column.type in NUMERIC_TYPES:
        return _integer(said)
    if column.type == _T.JSON and said.startswith("'"):
        return said  # a document in the server's form: no literal of DEFAULT is one
    raise ValueError(said)


def _member(said: str, column: Column) -> str:
    if not said.startswith(("'", "0x", "0b")) and not _PLAIN_NUMBER.fullmatch(said):
        raise ValueError(said)
    names = [letters_of(said)]
    if column.type == _T.SET:
        names = names[0].split(",") if names[0] else []
    # Only members of CHARACTER SET binary end with spaces.
    bare = (name if name in column.literals else name.rstrip(" ") for name in names)
    members = [member_of(name, column.literals) for name in bare]
    if any(one is None or has_twin_before(one, column.literals) for one in members):
        raise ValueError(said)
    return "'" + ",".join(one for one in column.literals if one in members)


def _moment(said: str, column: Column, session: Session, truncates: bool) -> str:
    micros, ahead = moment_of(moment_letters(said), truncates=truncates)
    is_date = column.type == _T.DATE
    if micros is None:
        return "'0000-00-00" if is_date else "'0000-00-00 00:00:00"
    if ahead is not None and is_date:
        raise ValueError(said)
    unit = 10 ** (6 - column.meta)
    micros = (micros + (0 if truncates else unit // 2)) // unit * unit
    zone = ""
    if column.type in _TIMESTAMPS:
        micros, zone = _utc(micros, ahead, session.time_zone), "+00:00"
    elif ahead is not None:
        micros = _clock(micros - ahead, session.time_zone)
    moment = _START + micros * _MICROSECOND
    text = moment.isoformat(" ", "microseconds")
    return f"'{text[: 10 if is_date else 20 + column.meta if column.meta else 19]}{zone}"


def _utc(micros: int, ahead: int | None, zone: str) -> int:
    """A moment of a clock that is so far ``ahead`` of UTC, or of the zone's; of two the first.
    Raises ValueError for one that the zone leaves out."""
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
    """Microseconds; None for a zone that has a name. Raises ValueError for the server's own."""
    if zone in ("", "SYSTEM"):
        raise ValueError(zone)
    if zone == "UTC":
        return 0
    if not (match := _OFFSET.fullmatch(zone)):
        return None
    size = (int(match[2]) * 60 + int(match[3])) * 60 * SECOND
    return -size if match[1] == "-" else size


def _time(said: str, column: Column, truncates: bool) -> str:
    micros = time_of(letters_of(said), truncates=truncates)
    unit = 10 ** (6 - column.meta)
    size = (abs(micros) + (0 if truncates else unit // 2)) // unit * unit
    seconds, fraction = divmod(size, SECOND)
    sign = "-" if micros < 0 and size else ""
    text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"'{text}" + (f".{fraction:06d}"[: 1 + column.meta] if column.meta else "")


def _integer(said: str) -> str:
    number = _number(said)
    if isinstance(number, float):
        if abs(number) >= 2.0**63:
            raise ValueError(said)
        return str(round(number))
    return str(_rounded(number, 0))


def _decimal(said: str, column: Column) -> str:
    number = _number(said)
    exact = Decimal(repr(number)) if isinstance(number, float) else number
    return f"{_rounded(exact, column.scale):f}"


def _real(said: str, column: Column) -> str:
    """Raises ValueError where it is not known whether the column has a number of digits."""
    value = float(_number(said))
    if column.detail is None and not value.is_integer():
        raise ValueError(said)
    has_digits = column.detail and REAL_DETAIL.search(column.detail)
    value = real_digits(value, column.detail or "") if has_digits else value
    return repr(value or abs(value))


def _bits(said: str) -> str:
    """A text's bytes are the bits."""
    if said.startswith("'"):
        return str(int.from_bytes(said[1:].encode(), "big"))
    number = _number(said)
    if number < 0:
        raise ValueError(said)
    return str(math.trunc(number) if isinstance(number, float) else _rounded(number, 0))


def _year(said: str) -> str:
    number, text = _number(said), said.removeprefix("'")
    year = math.trunc(number) if isinstance(number, float) else int(_rounded(number, 0))
    if year < 0 or (year == 0 and "-" in text):
        raise ValueError(said)
    if 0 < year < 100:
        return str(year + (2000 if year < 70 else 1900))
    return "2000" if year == 0 and said[:1] == "'" and len(text) != len("0000") else str(year)


def _text(said: str, column: Column, longest: int) -> str:
    """``longest``: bytes of a character. Raises ValueError for bytes that are no text in the
    column's character set, and for doubles whose text is not known."""
    charset = charset_of(column.collation) if column.collation else "utf8mb4"
    if said[:2] in ("0x", "0b"):
        try:
            text = to_text(_raw(said), charset)
        except DecodeError as error:
            raise ValueError(said) from error
    else:
        text = _letters(said, charset in WIDE)
    if column.type == _T.STRING:
        text = text.rstrip(" ")
    if column.type != _T.BLOB:
        most = column.meta // longest
        if text[most:].strip(" ") or (said[:1] != "'" and len(text) > most):
            raise ValueError(said)
        text = text[:most]
    return f"'{text}"


def _bytes(said: str, column: Column) -> str:
    raw = _raw(said) if said[:2] in ("0x", "0b") else _letters(said, False).encode()
    if column.type != _T.BLOB and len(raw) > column.meta:
        raise ValueError(said)
    return "0x" + (raw.ljust(column.meta, b"\0") if column.type == _T.STRING else raw).hex()


def _raw(said: str) -> bytes:
    base, digits = said[:2], said[2:]
    if base == "0x":
        return bytes.fromhex("0" * (len(digits) % 2) + digits)
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")


def _number(said: str) -> Decimal | float:
    """Exact, but for a double. Raises ValueError."""
    if said.startswith("'"):
        if not (match := _TEXT.fullmatch(said[1:])):
            raise ValueError(said)
        return Decimal(match[1])
    if said[:2] in ("0x", "0b"):
        raw = _raw(said).lstrip(b"\0")
        if len(raw) > _LONGLONG_BYTES:
            raise ValueError(said)
        return Decimal(int.from_bytes(raw, "big"))
    return float(said) if "e" in said.lower() else Decimal(said)


def _rounded(number: Decimal, scale: int) -> Decimal:
    made = number.quantize(Decimal(1).scaleb(-scale), "ROUND_HALF_UP", _DIGITS)
    return made or abs(made)


def _letters(said: str, wide: bool) -> str:
    if said.startswith("'"):
        return said[1:]
    if "e" not in said.lower():
        number = Decimal(said)
        return f"{number or abs(number):f}"
    if wide:
        raise ValueError(said)
    return real_literal_text(float(said))


def member_of(name: str, members: tuple[str, ...]) -> str | None:
    """The member that a name means which the server has taken for one; None: not known."""
    if name in members:
        return name
    same = [one for one in members if one.lower() == name.lower()]
    plain = len(same) == 1 and all(one.isascii() for one in (name, *members))
    return same[0] if plain else None


def has_twin_before(name: str, members: tuple[str, ...]) -> bool:
    """Whether a member before this one may be the same to its collation, and be meant then: a
    server that isn't strict takes such lists."""
    bare = _bare(name)
    return any(_bare(one) == bare for one in members[: members.index(name)])


def _bare(text: str) -> str:
    """Without case and marks."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in parts if not unicodedata.combining(one))

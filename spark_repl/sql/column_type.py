"""Read a column's SQL type, and convert it to MySQL's type code, metadata and literals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..binlog.charsets.charset import (
    REPLACEMENT,
    UTF8,
    charset_of,
    name_of,
    replaced_text,
    to_text,
)
from ..binlog.charsets.repertoire import with_question_marks
from ..errors import DecodeError, StatementError
from ..tables.column import ColumnType
from .charsets import ASSUMED, TURKISH, collation, padded

if TYPE_CHECKING:
    from .sql_tokens import Cursor

_T = ColumnType


@dataclass(frozen=True, slots=True)
class SqlType:
    """A column type as a statement writes it. ``text``: whether its bytes have a character set.
    ``length``: in characters, 0 if it is not written. ``literals``: members of ENUM and SET, as
    bytes if they are written as bytes (0xE4, b'1')."""

    code: ColumnType
    meta: int = 0
    length: int = 0
    text: bool = False
    unsigned: bool = False
    charset: str = ""
    literals: tuple[str | bytes, ...] = ()
    serial: bool = False
    detail: str = ""


_INTEGERS = {
    "TINYINT": _T.TINY, "INT1": _T.TINY, "SMALLINT": _T.SHORT, "INT2": _T.SHORT,
    "MEDIUMINT": _T.INT24, "INT3": _T.INT24, "MIDDLEINT": _T.INT24, "INT": _T.LONG,
    "INTEGER": _T.LONG, "INT4": _T.LONG, "BIGINT": _T.LONGLONG, "INT8": _T.LONGLONG,
}  # fmt: skip
_TEMPORAL = {"TIME": _T.TIME, "DATETIME": _T.DATETIME, "TIMESTAMP": _T.TIMESTAMP}
_BLOBS = {
    "TINYBLOB": 1, "BLOB": 2, "MEDIUMBLOB": 3, "LONGBLOB": 4,
    "TINYTEXT": 1, "TEXT": 2, "MEDIUMTEXT": 3, "LONGTEXT": 4,
}  # fmt: skip
_VARYING = "CHARACTER VARYING"
_GEOMETRY = (
    "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING",
    "MULTIPOLYGON", "GEOMETRYCOLLECTION", "GEOMCOLLECTION",
)  # fmt: skip


def collation_name(number: int) -> str:
    """Return a name by which ``collation`` finds the character set, and the collation if its number
    has to be known. Raise DecodeError."""
    names = {value: name for name, value in TURKISH.items()}
    return names.get(number) or name_of(number)


def members(kind: SqlType, charset: str, connection: str) -> tuple[str, ...]:
    """Return the members of an ENUM or SET whose character set or collation is ``charset``. The
    server replaces each character that the set lacks by ?, and removes trailing spaces. In the
    character set binary it stores the bytes that the ``connection`` sent ('': UTF-8). Bytes that
    are no character become U+FFFD, as in TABLE_MAP. Raise StatementError if the members are not
    known."""
    if not kind.literals:
        return ()
    name = charset_of(collation(charset)[0])
    try:
        texts = [_member(literal, name, connection) for literal in kind.literals]
    except DecodeError as error:
        raise StatementError(error.message) from error
    if charset == ASSUMED and any(text.endswith(" ") or REPLACEMENT in text for text in texts):
        raise StatementError("what members are depends on a character set that is not known")
    if name != "binary":
        return tuple(text.rstrip(" ") for text in texts)
    if connection not in ("", *UTF8) and not all(text.isascii() for text in texts):
        raise StatementError(f"members of CHARACTER SET binary are written in {connection}")
    return tuple(texts)


def _member(literal: str | bytes, charset: str, connection: str) -> str:
    """Return the text of a member, with its trailing spaces. Raise DecodeError."""
    if isinstance(literal, bytes):
        letters = "utf8mb4" if charset == "binary" else charset
        return replaced_text(padded(literal, charset), letters)
    if charset == "binary":
        return literal
    if connection == "binary" and charset not in UTF8:
        return to_text(literal.encode("utf-8", "surrogateescape"), charset)
    if literal.isascii() and charset != "swe7":
        return literal
    return with_question_marks(literal, charset)


def read(cursor: Cursor) -> SqlType:
    """Read a type with its length, UNSIGNED and ZEROFILL, without its character set."""
    begin = cursor.again()
    kind = _read(cursor)
    return replace(kind, detail=_detail(kind, begin.until(cursor)))


def _detail(kind: SqlType, words: Sequence[str]) -> str:
    """Return the part of the type's words that no other field has (``Column.detail``)."""
    parts = ["ZEROFILL"] if "ZEROFILL" in words else []
    inside = "".join(words[words.index("(") :]).partition(")")[0] if "(" in words else ""
    if (kind.code in (_T.FLOAT, _T.DOUBLE) and "," in inside) or kind.code in (_T.YEAR, _T.VECTOR):
        parts.append(inside[1:])
    return " ".join(filter(None, parts))


def _read(cursor: Cursor) -> SqlType:
    word = cursor.word(*_INTEGERS)
    if word:
        _length(cursor)
        return SqlType(_INTEGERS[word], unsigned=_unsigned(cursor))
    if cursor.word("BOOL", "BOOLEAN"):
        return SqlType(_T.TINY)
    if cursor.word("SERIAL"):
        return SqlType(_T.LONGLONG, unsigned=True, serial=True)
    if word := cursor.word(*_TEMPORAL):
        return SqlType(_TEMPORAL[word], _length(cursor))
    if cursor.word("DATE"):
        return SqlType(_T.DATE)
    if cursor.word("YEAR"):
        _length(cursor)
        _unsigned(cursor)
        return SqlType(_T.YEAR, unsigned=True)
    if cursor.word("JSON"):
        return SqlType(_T.JSON, 4)
    if cursor.word(*_GEOMETRY):
        return SqlType(_T.GEOMETRY, 4)
    if cursor.word("VECTOR"):
        return SqlType(_T.VECTOR, 4, _length(cursor))
    if cursor.word("BIT"):
        return SqlType(_T.BIT, _length(cursor) or 1)
    return _real(cursor) or _character(cursor)


def _length(cursor: Cursor, absent: int = 0) -> int:
    if not cursor.symbol("("):
        return absent
    length = cursor.number()
    cursor.expect(")")
    return length


def _unsigned(cursor: Cursor) -> bool:
    unsigned = False
    while word := cursor.word("UNSIGNED", "SIGNED", "ZEROFILL"):
        unsigned |= word != "SIGNED"
    return unsigned


def _real(cursor: Cursor) -> SqlType | None:
    word = cursor.word(
        "FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "REAL", "DECIMAL", "DEC", "NUMERIC", "FIXED"
    )
    if not word:
        return None
    if word == "DOUBLE":
        cursor.word("PRECISION")
    digits: list[int] = []
    if cursor.symbol("("):
        digits.append(cursor.number())
        if cursor.symbol(","):
            digits.append(cursor.number())
        cursor.expect(")")
    unsigned = _unsigned(cursor)
    if word in ("DECIMAL", "DEC", "NUMERIC", "FIXED"):
        precision, scale = ([*digits, 0] if digits else [10, 0])[:2]
        return SqlType(_T.DECIMAL, (precision or 10) << 8 | scale, unsigned=unsigned)
    # FLOAT(25) and up is a DOUBLE; FLOAT(25,2) is not.
    if word in ("FLOAT", "FLOAT4") and not (len(digits) == 1 and digits[0] > 24):
        return SqlType(_T.FLOAT, 4, unsigned=unsigned)
    return SqlType(_T.DOUBLE, 8, unsigned=unsigned)


def _character(cursor: Cursor) -> SqlType:
    start = cursor.rest()
    if word := cursor.word("ENUM", "SET"):
        return _choice(cursor, word)
    if word := cursor.word(*_BLOBS):
        length = _length(cursor) if word in ("BLOB", "TEXT") else 0
        text = word.endswith("TEXT")
        return SqlType(_T.BLOB, _BLOBS[word], length, text, charset="" if text else "binary")
    if cursor.word("LONG"):
        if cursor.word("VARBINARY"):
            return SqlType(_T.BLOB, 3, charset="binary")
        _varying(cursor, "LONG")
        return SqlType(_T.BLOB, 3, text=True)
    if word := cursor.word("BINARY", "VARBINARY"):
        code = _T.STRING if word == "BINARY" else _T.VARCHAR
        return SqlType(code, length=_length(cursor, 1), charset="binary")
    national = bool(cursor.word("NATIONAL")) or cursor.at("NCHAR", "NVARCHAR")
    word = cursor.word("CHAR", "CHARACTER", "NCHAR", "VARCHAR", "VARCHARACTER", "NVARCHAR")
    if not word:
        raise StatementError(f"the column type {start} is not understood")
    varying = "VAR" in word or _varying(cursor, word)
    charset = "utf8mb3" if national else ""
    length = _length(cursor, 1)
    return SqlType(_T.VARCHAR if varying else _T.STRING, length=length, text=True, charset=charset)


def _varying(cursor: Cursor, word: str) -> bool:
    if word == "LONG" and (cursor.at_phrase("CHAR VARYING") or cursor.at_phrase(_VARYING)):
        cursor.next()  # CHARACTER SET begins with one of these words as well
    return bool(cursor.word("VARYING", "VARCHAR", "VARCHARACTER"))


def _choice(cursor: Cursor, word: str) -> SqlType:
    literals: list[str | bytes] = []
    for part in cursor.parentheses().parts():
        raw = part.bytes_literal()
        literals.append(part.string() if raw is None else raw)
        if not part.at_end():
            raise StatementError(f"{word} literal {part.rest()} is not understood")
    if word == "ENUM":
        size = 1 if len(literals) < 256 else 2
    else:
        size = (len(literals) + 7) // 8
        size = size if size <= 4 else 8
    return SqlType(_T.ENUM if word == "ENUM" else _T.SET, size, text=True, literals=tuple(literals))


def meta(kind: SqlType, longest: int) -> int:
    """Return ``Column.meta`` for characters of at most ``longest`` bytes."""
    if kind.code in (_T.STRING, _T.VARCHAR):
        return kind.length * longest
    if kind.code == _T.BLOB and kind.length:
        return max(1, ((kind.length * longest).bit_length() + 7) // 8)
    return kind.meta

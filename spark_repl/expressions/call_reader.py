"""Read the operands of an expression: literals, columns, functions, CASE, CAST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..errors import NotComputed
from ..sql.charsets import WIDE
from ..sql.sql_tokens import NAME, NUMBER, STRING
from .syntax import Syntax

if TYPE_CHECKING:
    from ..sql.sql_tokens import Cursor

INTERVAL = "INTERVAL"
_UNITS = ("MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_SYNONYMS = {
    "SUBSTRING": "SUBSTR", "MID": "SUBSTR", "UCASE": "UPPER", "LCASE": "LOWER", "CEILING": "CEIL",
    "DAYOFMONTH": "DAY", "CHARACTER_LENGTH": "CHAR_LENGTH", "OCTET_LENGTH": "LENGTH",
    "POWER": "POW", "SHA": "SHA1", "ADDDATE": "DATE_ADD", "SUBDATE": "DATE_SUB",
}  # fmt: skip
# Words that begin a literal if a string follows; otherwise they are names.
_MOMENTS = ("DATE", "TIME", "TIMESTAMP")
_NO_ARGUMENTS = ("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME",
                 "LOCALTIMESTAMP", "CURRENT_USER", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP",
                 "DEFAULT", "EXISTS", "SELECT", "ROW", "MATCH", "INTERVAL")  # fmt: skip


class Inner(Protocol):
    """A parser of the expressions within an operand."""

    def expression(self) -> Syntax: ...
    def within(self, cursor: Cursor) -> Inner: ...
    def whole(self, cursor: Cursor) -> Syntax: ...
    def parts(self, cursor: Cursor) -> list[Syntax]: ...


def interval(inner: Inner, cursor: Cursor) -> tuple[Syntax, str]:
    """Read INTERVAL n unit. Raise NotComputed for any other unit."""
    cursor.expect(INTERVAL)
    amount = inner.expression()
    if not (unit := cursor.word(*_UNITS)):
        raise NotComputed(f"an interval of {cursor.rest()} is not computed here")
    return amount, unit


def call(inner: Inner, cursor: Cursor) -> Syntax:
    """Read a literal, a name, or a function with its arguments. Raise NotComputed for anything
    else."""
    token, following = cursor.next(), cursor.peek()
    if token.kind == NUMBER:
        return Syntax("number", words=(token.text,))
    if token.kind == STRING:
        return Syntax("string", words=(_joined(token.text, cursor), ""))
    if token.kind == NAME:
        return _name(token.text, cursor)
    word, opens = token.text, following is not None and following.raw == "("
    if word == "CASE":
        return _case(inner, cursor)
    if opens:
        return _function(inner, cursor, _SYNONYMS.get(word, word))
    if (literal := _literal(word, token.raw, cursor)) is not None:
        return literal
    if word in _NO_ARGUMENTS:
        raise NotComputed(f"{word} is not computed here")
    return _name(token.raw, cursor)


def _name(text: str, cursor: Cursor) -> Syntax:
    if cursor.at_symbol(".") or cursor.at_symbol("("):
        raise NotComputed(f"{text}{cursor.next().raw} is not understood")
    return Syntax("name", words=(text,))


def _literal(word: str, raw: str, cursor: Cursor) -> Syntax | None:
    if word in ("TRUE", "FALSE"):
        return Syntax("number", words=("1" if word == "TRUE" else "0",))
    if word == "NULL":
        return Syntax("null")
    digits = raw[2:]
    if raw[:2] in ("0x", "0b") and digits:
        return Syntax("hex", words=(_hexadecimal(raw[1], digits),))
    following = cursor.peek()
    if following is None or following.kind != STRING:
        return None
    if word in ("X", "B"):
        return Syntax("hex", words=(_hexadecimal(word.lower(), cursor.next().text),))
    if word in _MOMENTS:
        return Syntax("moment", words=(cursor.next().text, word))
    if word == "N" or word[0] == "_":
        charset = "utf8mb3" if word == "N" else raw[1:].lower()
        if charset in (*WIDE, "swe7"):
            raise NotComputed(f"a string behind {raw.lower()} is not computed here")
        return Syntax("string", words=(_joined(cursor.next().text, cursor), charset))
    return None


def _hexadecimal(kind: str, digits: str) -> str:
    try:
        value = int(digits or "0", 16 if kind == "x" else 2)
    except ValueError:
        raise NotComputed("a literal is no number") from None
    size = (len(digits) + 1) // 2 if kind == "x" else (len(digits) + 7) // 8
    return value.to_bytes(size, "big").hex()


def _joined(text: str, cursor: Cursor) -> str:
    while (more := cursor.peek()) is not None and more.kind == STRING:
        text += cursor.next().text
    return text


def _function(inner: Inner, cursor: Cursor, name: str) -> Syntax:
    within = cursor.parentheses()
    if cursor.at("OVER"):
        raise NotComputed(f"{name}() OVER is not computed here")
    reader = _SPECIAL.get(name)
    if reader is not None:
        return reader(inner, within, name)
    arguments = inner.parts(within)
    if name == "JSON_EXTRACT" and len(arguments) != 2:
        raise NotComputed("JSON_EXTRACT of several paths is not computed here")
    return Syntax(name, tuple(arguments))


def _case(inner: Inner, cursor: Cursor) -> Syntax:
    """Read CASE [x] WHEN a THEN b ... [ELSE c] END. The inputs are a, b, ..., c."""
    subject = None if cursor.at("WHEN") else inner.expression()
    inputs: list[Syntax] = []
    while cursor.word("WHEN"):
        when = inner.expression()
        cursor.expect("THEN")
        inputs += [Syntax("=", (subject, when)) if subject else when, inner.expression()]
    inputs.append(inner.expression() if cursor.word("ELSE") else Syntax("null"))
    cursor.expect("END")
    return Syntax("CASE", tuple(inputs))


def _cast(inner: Inner, cursor: Cursor, name: str) -> Syntax:
    reader = inner.within(cursor)
    value = reader.expression()
    if name == "CONVERT" and cursor.word("USING"):
        charset = cursor.next().raw.lower()
        return Syntax("CAST", (value,), ("CHAR", "", charset))
    cursor.expect("AS" if name == "CAST" else ",")
    kind = cursor.next().text
    if kind in ("NCHAR", "CHARACTER"):
        kind, charset = "CHAR", "utf8mb3" if kind == "NCHAR" else ""
    else:
        charset = ""
    numbers = []
    if cursor.at_symbol("("):
        numbers = [part.next().text for part in cursor.parentheses().parts()]
    cursor.word("INTEGER", "INT")
    if cursor.phrase("CHARACTER SET") or cursor.word("CHARSET"):
        charset = cursor.next().raw.lower()
    if not cursor.at_end():
        raise NotComputed(f"{name} is not understood from {cursor.rest()}")
    return Syntax("CAST", (value,), (kind, ",".join(numbers), charset))


def _trim(inner: Inner, cursor: Cursor, name: str) -> Syntax:
    side = cursor.word("BOTH", "LEADING", "TRAILING") or "BOTH"
    reader = inner.within(cursor)
    blank = Syntax("string", words=(" ", ""))
    if cursor.word("FROM"):
        return Syntax("TRIM", (reader.expression(), blank), (side,))
    first = reader.expression()
    if cursor.word("FROM"):
        return Syntax("TRIM", (reader.expression(), first), (side,))
    return Syntax("TRIM", (first, blank), (side,))


def _substr(inner: Inner, cursor: Cursor, name: str) -> Syntax:
    parts = cursor.again().parts()
    if len(parts) > 1:
        return Syntax(name, tuple(inner.whole(part) for part in parts))
    reader = inner.within(cursor)
    inputs = [reader.expression()]
    cursor.expect("FROM")
    inputs.append(reader.expression())
    if cursor.word("FOR"):
        inputs.append(reader.expression())
    return Syntax(name, tuple(inputs))


def _extract(inner: Inner, cursor: Cursor, name: str) -> Syntax:
    unit = cursor.word(*_UNITS)
    cursor.expect("FROM")
    if unit == "WEEK":
        raise NotComputed("EXTRACT(WEEK) is not computed here")
    return Syntax(unit, (inner.within(cursor).expression(),))


def _add(inner: Inner, cursor: Cursor, name: str) -> Syntax:
    first, *rest = cursor.parts()
    if len(rest) != 1:
        raise NotComputed(f"{name} is not understood")
    moment = inner.whole(first)
    if rest[0].at(INTERVAL):
        amount, unit = interval(inner.within(rest[0]), rest[0])
    else:
        amount, unit = inner.whole(rest[0]), "DAY"
    sign = "+" if name == "DATE_ADD" else "-"
    return Syntax(f"{sign} INTERVAL", (moment, amount), (unit,))


_SPECIAL = {
    "CAST": _cast, "CONVERT": _cast, "TRIM": _trim, "SUBSTR": _substr, "EXTRACT": _extract,
    "DATE_ADD": _add, "DATE_SUB": _add,
}  # fmt: skip

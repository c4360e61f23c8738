"""The DEFAULT clause of a column: a literal, CURRENT_TIMESTAMP or an expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..binlog.charsets.charset import UTF8, to_text
from ..errors import DecodeError, StatementError
from ..tables.column import Column, ColumnType
from .charsets import padded
from .sql_tokens import NAME, NUMBER, STRING

if TYPE_CHECKING:
    from .sql_tokens import Cursor

_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_DATE")
_UTF8 = {*UTF8, "utf8"}
_MOMENTS = ("DATE", "TIME", "TIMESTAMP")
_EMPTY = {"JSON_OBJECT": "'{}", "JSON_ARRAY": "'[]"}


@dataclass(frozen=True, slots=True)
class Default:
    """A DEFAULT clause. ``literal``: as in ``Column.default``, None if there is none. ``now``:
    whether it is CURRENT_TIMESTAMP. ``constant``: the literal that an expression evaluates to, None
    for any other expression. ``expression``: its words, as in ``Column.generated``, '' for none.
    ``charset``: the character set of the literal's or constant's string if it is not UTF-8.
    ``raw``: the hexadecimal digits of a literal that is written as such after an introducer.
    ``unknown``: why the value is not known, '' if it is known."""

    literal: str | None = None
    now: bool = False
    constant: str | None = None
    expression: str = ""
    charset: str = ""
    raw: str = ""
    unknown: str = ""

    @property
    def set_by_alter(self) -> str | None:
        """Return the literal that SET DEFAULT sets. Only there, parentheses around a literal are
        ignored; a literal with a sign is an expression."""
        is_literal = not self.expression.lstrip("( ").startswith(("-", "+", *_EMPTY))
        return self.constant if self.literal is None and is_literal else self.literal


NOT_KNOWN = Default()
"""of a TIMESTAMP whose default, and whether it takes NULL, depends on a setting of the session that
servers before 8.0 do not log"""


def read_default(cursor: Cursor) -> Default:
    """Read the value after DEFAULT or ON UPDATE: a literal, ( expression ) or CURRENT_TIMESTAMP(n).
    Raise StatementError for anything else."""
    if cursor.at_symbol("("):
        inner = cursor.parentheses()
        charset = inner.charset()
        return Default(constant=constant(inner.again()), expression=words(inner), charset=charset)
    if cursor.word(*_NOW):
        if cursor.at_symbol("("):
            cursor.parentheses()
        return Default(now=True)
    if (introduced := cursor.introduced_bytes()) is not None:
        return _of_bytes(*introduced)
    if cursor.at(*_MOMENTS) and (following := cursor.peek(1)) and following.kind == STRING:
        cursor.next()
        return Default(unknown=f"it is the literal {cursor.next().without_literal} of a moment")
    charset = cursor.charset()
    return Default(read_literal(cursor), charset=charset)


def _of_bytes(charset: str, raw: bytes) -> Default:
    """Return the default of bytes with an introducer: a string of that character set."""
    raw = padded(raw, charset)
    digits = f"0x{raw.hex()}"
    if charset == "binary":
        text = raw.decode("utf-8", "surrogateescape")
        return Default(f"'{text}", charset=charset, raw=digits)
    try:
        text = to_text(raw, "utf8mb3" if charset == "utf8" else charset)
    except DecodeError as error:
        # A binary column stores the bytes. Another one stores a letter of its own, or digits.
        return Default(charset=charset, raw=digits, unknown=error.message)
    return Default(f"'{text}", charset="" if charset in _UTF8 else charset, raw=digits)


def read_literal(cursor: Cursor) -> str:
    """Read a literal; return it as in ``Column.default``. Raise StatementError."""
    sign = "-" if cursor.symbol("-") else ""
    cursor.symbol("+")
    token = cursor.peek()
    if token and token.kind == NUMBER:
        return sign + cursor.next().text
    if word := cursor.word("TRUE", "FALSE", "NULL"):
        return {"TRUE": "1", "FALSE": "0"}.get(word, word)
    if token and token.raw[:2].lower() in ("0x", "0b"):
        return cursor.next().raw.lower()
    word = cursor.word("X", "B")
    text = cursor.string()
    return f"0{word.lower()}{text.lower()}" if word else f"'{text}"


def words(inner: Cursor) -> str:
    """Return the words of an expression, with backticks around quoted names."""
    texts = []
    while not inner.at_end():
        token = inner.next()
        quoted = "`" + token.text.replace("`", "``") + "`"
        texts.append(quoted if token.kind == NAME else token.raw)
    return " ".join(texts)


def constant(inner: Cursor) -> str | None:
    """Return the literal that an expression evaluates to; None for any other expression."""
    while inner.at_symbol("("):
        outer, inner = inner, inner.parentheses()
        if not outer.at_end():
            return None
    if (word := inner.word(*_EMPTY)) and inner.symbol("(") and inner.symbol(")") and inner.at_end():
        return _EMPTY[word]
    try:
        text = read_literal(inner)
    except StatementError:
        return None
    return text if inner.at_end() else None


_DATE_EXPRESSION = re.compile(r"(?:CURRENT_DATE(?: \( \))?|CURDATE \( \))", re.IGNORECASE)
_NOW_EXPRESSION = re.compile(
    r"(?:NOW(?= \()|CURRENT_TIMESTAMP|LOCALTIMESTAMP|LOCALTIME)(?: \( (?:(\d) )?\))?",
    re.IGNORECASE,
)
_WITH_TIME = (ColumnType.DATETIME, ColumnType.TIMESTAMP)


def is_moment(expression: str, column: Column) -> bool:
    """Return whether the value of a new column's DEFAULT ( expression ) is the time of the
    statement in the column's form: the session's date for a DATE, NOW(n) for a column of n digits.
    ``expression``: its words, as in ``Default``."""
    while expression.startswith("( ") and expression.endswith(" )"):
        expression = expression[2:-2]
    if column.type == ColumnType.DATE:
        return bool(_DATE_EXPRESSION.fullmatch(expression))
    now = _NOW_EXPRESSION.fullmatch(expression) if column.type in _WITH_TIME else None
    return now is not None and int(now[1] or 0) == column.meta

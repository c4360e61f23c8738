"""What stands behind DEFAULT: a literal, CURRENT_TIMESTAMP, an expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import StatementError
from .sql_tokens import NUMBER

if TYPE_CHECKING:
    from .sql_tokens import Cursor

_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_DATE")
_EMPTY = {"JSON_OBJECT": "'{}", "JSON_ARRAY": "'[]"}


@dataclass(frozen=True, slots=True)
class Default:
    """``literal`` as ``Column.default`` has it, None for what is none; ``now``: CURRENT_TIMESTAMP;
    ``constant``: the literal that an expression comes to, None for all others."""

    literal: str | None = None
    now: bool = False
    constant: str | None = None


def read_default(cursor: Cursor) -> Default:
    """Takes the value behind DEFAULT or ON UPDATE: literal, ( expression ), CURRENT_TIMESTAMP(n).
    Raises StatementError for anything else."""
    if cursor.at_mark("("):
        return Default(constant=constant(cursor.parentheses()))
    if cursor.word(*_NOW):
        if cursor.at_mark("("):
            cursor.parentheses()
        return Default(now=True)
    return Default(read_literal(cursor))


def read_literal(cursor: Cursor) -> str:
    """Takes a literal; returns it as ``Column.default`` has it. Raises StatementError."""
    sign = "-" if cursor.mark("-") else ""
    cursor.mark("+")
    token = cursor.peek()
    if token and token.kind == NUMBER:
        return sign + cursor.next().text
    if word := cursor.word("TRUE", "FALSE", "NULL"):
        return {"TRUE": "1", "FALSE": "0"}.get(word, word)
    if token and token.raw[:2].lower() in ("0x", "0b"):
        return cursor.next().raw.lower()
    word = cursor.word("X", "B", "DATE", "TIME", "TIMESTAMP")
    text = cursor.string()
    return f"0{word.lower()}{text.lower()}" if word in ("X", "B") else f"'{text}"


def constant(inner: Cursor) -> str | None:
    """The literal that an expression comes to; None for what isn't one."""
    while inner.at_mark("("):
        outer, inner = inner, inner.parentheses()
        if not outer.done():
            return None
    if (word := inner.word(*_EMPTY)) and inner.mark("(") and inner.mark(")") and inner.done():
        return _EMPTY[word]
    try:
        text = read_literal(inner)
    except StatementError:
        return None
    return text if inner.done() else None

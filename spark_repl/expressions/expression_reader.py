"""Read the words of an expression into Syntax, by MySQL's grammar and precedence of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import NotComputed, StatementError
from ..sql.sql_tokens import (
    ANSI_QUOTES,
    NAME,
    NO_BACKSLASH_ESCAPES,
    NUMBER,
    STRING,
    WORD,
    Cursor,
    tokens,
)
from .call_reader import INTERVAL, call, interval
from .syntax import Syntax

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PIPES_AS_CONCAT, HIGH_NOT_PRECEDENCE = 1 << 1, 1 << 29
_COMPARISONS = ("<=>", "<=", ">=", "<>", "!=", "=", "<", ">")
_BITS = (("|",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"), ("^",))
"""by precedence, the lowest first"""
_SUMS, _PRODUCTS = 3, 4


def read_expression(text: str, sql_mode: int | None) -> Syntax:
    """Parse ``text``, the content of the parentheses after AS or DEFAULT. ``sql_mode`` is the mode
    of the session that wrote it. If it is None (not known), the text must mean the same in every
    mode. Raise NotComputed if it does not, or if it is not understood."""
    if sql_mode is not None:
        return _read(text, sql_mode)
    plain = _read(text, 0)
    for mode in (PIPES_AS_CONCAT | HIGH_NOT_PRECEDENCE, ANSI_QUOTES, NO_BACKSLASH_ESCAPES):
        if _read(text, mode) != plain:
            raise NotComputed("what it means depends on an sql_mode that is not known")
    return plain


def _read(text: str, sql_mode: int) -> Syntax:
    try:
        cursor = Cursor(tokens(text, sql_mode))
        syntax = _Reader(cursor, sql_mode).expression()
    except StatementError as error:
        raise NotComputed(error.message) from error
    if not cursor.at_end():
        raise NotComputed(f"it is not understood from {cursor.rest()}")
    return syntax


class _Reader:
    """A reader of an expression from a cursor. Its methods raise StatementError and NotComputed."""

    def __init__(self, cursor: Cursor, sql_mode: int) -> None:
        self._cursor, self._mode = cursor, sql_mode

    def within(self, cursor: Cursor) -> _Reader:
        return _Reader(cursor, self._mode)

    def parts(self, cursor: Cursor) -> list[Syntax]:
        """Return the expressions between commas."""
        return [] if cursor.at_end() else [self.whole(part) for part in cursor.parts()]

    def whole(self, cursor: Cursor) -> Syntax:
        syntax = self.within(cursor).expression()
        if not cursor.at_end():
            raise NotComputed(f"it is not understood from {cursor.rest()}")
        return syntax

    def expression(self) -> Syntax:
        concat = bool(self._mode & PIPES_AS_CONCAT)
        return self._chain(self._xor, "OR", ("OR",), () if concat else ("||",))

    def _xor(self) -> Syntax:
        return self._chain(self._and, "XOR", ("XOR",), ())

    def _and(self) -> Syntax:
        return self._chain(self._not, "AND", ("AND",), ("&&",))

    def _chain(
        self, inner: Callable[[], Syntax], name: str, words: Sequence[str], marks: Sequence[str]
    ) -> Syntax:
        left = inner()
        while self._cursor.word(*words) or self._marks(marks):
            left = Syntax(name, (left, inner()))
        return left

    def _not(self) -> Syntax:
        if not self._mode & HIGH_NOT_PRECEDENCE and self._cursor.word("NOT"):
            return Syntax("NOT", (self._not(),))
        return self._is()

    def _is(self) -> Syntax:
        syntax = self._comparison()
        while self._cursor.word("IS"):
            negated = bool(self._cursor.word("NOT"))
            what = self._cursor.word("NULL", "TRUE", "FALSE", "UNKNOWN")
            if not what:
                raise NotComputed(f"IS is not understood before {self._cursor.rest()}")
            syntax = Syntax("IS NULL" if what in ("NULL", "UNKNOWN") else f"IS {what}", (syntax,))
            syntax = Syntax("NOT", (syntax,)) if negated else syntax
        return syntax

    def _comparison(self) -> Syntax:
        left = self._predicate()
        while operator := self._marks(_COMPARISONS):
            left = Syntax("<>" if operator == "!=" else operator, (left, self._predicate()))
        return left

    def _predicate(self) -> Syntax:
        syntax = self._bits(0)
        cursor = self._cursor
        negated = bool(cursor.word("NOT"))
        if cursor.word("IN"):
            syntax = Syntax("IN", (syntax, *self.parts(cursor.parentheses())))
        elif cursor.word("BETWEEN"):
            low = self._bits(0)
            cursor.expect("AND")
            syntax = Syntax("BETWEEN", (syntax, low, self._predicate()))
        elif cursor.word("LIKE"):
            pattern = self._unary()
            escape = (self._unary(),) if cursor.word("ESCAPE") else ()
            syntax = Syntax("LIKE", (syntax, pattern, *escape))
        elif negated or cursor.at("REGEXP", "RLIKE", "MEMBER", "SOUNDS"):
            raise NotComputed(f"{cursor.rest().split()[0]} is not computed here")
        return Syntax("NOT", (syntax,)) if negated else syntax

    def _bits(self, level: int) -> Syntax:
        if level == len(_BITS):
            return self._concatenation()
        left = self._first_interval() if level == _SUMS else self._bits(level + 1)
        while operator := self._operator(level):
            if level == _SUMS and self._cursor.at(INTERVAL):
                amount, unit = interval(self, self._cursor)
                left = Syntax(f"{operator} INTERVAL", (left, amount), (unit,))
            else:
                left = Syntax(operator, (left, self._bits(level + 1)))
        return left

    def _first_interval(self) -> Syntax:
        """Read INTERVAL n unit + moment, or any other operand."""
        following = self._cursor.peek(1)
        if not self._cursor.at(INTERVAL) or (following and following.raw == "("):
            return self._bits(_SUMS + 1)
        amount, unit = interval(self, self._cursor)
        self._cursor.expect("+")
        return Syntax("+ INTERVAL", (self._bits(_SUMS + 1), amount), (unit,))

    def _operator(self, level: int) -> str:
        if level == _PRODUCTS and (word := self._cursor.word("DIV", "MOD")):
            return word
        operator = self._marks(_BITS[level], unlike=("||", "&&", "->"))
        return "MOD" if operator == "%" else operator

    def _concatenation(self) -> Syntax:
        left = self._unary()
        while self._mode & PIPES_AS_CONCAT and self._marks(("||",)):
            left = Syntax("CONCAT", (left, self._unary()))
        return left

    def _unary(self) -> Syntax:
        cursor = self._cursor
        if cursor.symbol("-"):
            return Syntax("NEGATE", (self._unary(),))
        if cursor.symbol("+"):
            return self._unary()
        if cursor.symbol("~"):
            return Syntax("~", (self._unary(),))
        if cursor.symbol("!") or (self._mode & HIGH_NOT_PRECEDENCE and cursor.word("NOT")):
            return Syntax("NOT", (self._unary(),))
        if cursor.word("BINARY"):
            return Syntax("CAST", (self._unary(),), ("BINARY", "", ""))
        return self._primary()

    def _primary(self) -> Syntax:
        cursor = self._cursor
        if cursor.at_symbol("("):
            return self.whole(cursor.parentheses())
        token = cursor.peek()
        if token is None or token.kind not in (NAME, NUMBER, STRING, WORD):
            raise NotComputed(f"it is not understood from {cursor.rest()}")
        syntax = call(self, cursor)
        if cursor.at("COLLATE"):
            raise NotComputed("COLLATE is not computed here")
        while arrow := self._marks(("->>", "->")):
            syntax = Syntax("JSON_EXTRACT", (syntax, Syntax("string", words=(cursor.string(), ""))))
            syntax = Syntax("JSON_UNQUOTE", (syntax,)) if arrow == "->>" else syntax
        return syntax

    def _marks(self, among: Sequence[str], unlike: Sequence[str] = ()) -> str:
        """Consume one of these operators, each of one or more marks, if it comes next."""
        if any(self._at(symbol) for symbol in unlike):
            return ""
        for symbol in among:
            if self._at(symbol):
                for _ in symbol:
                    self._cursor.next()
                return symbol
        return ""

    def _at(self, marks: str) -> bool:
        following = [self._cursor.peek(i) for i in range(len(marks))]
        return all(t is not None and t.raw == m for t, m in zip(following, marks, strict=True))

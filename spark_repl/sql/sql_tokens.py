"""Tokens of one logged SQL statement, and a cursor over them.

The grammar covers only what the classification of statements and CREATE TABLE need. Version
comments (``/*!80016 ... */``) count as SQL, as they did on the source. Other comments are skipped.

All readers of statements and expressions use the cursor. Raises StatementError at the first token
that the caller does not expect. Design: docs/design/ddl-parsing.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..binlog.charsets.charset import LETTER_BACKSLASH
from ..errors import StatementError
from ..tables.table_name import table_name
from .charsets import NAMES

# Bits of sql_mode.
REAL_AS_FLOAT, ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 0, 1 << 2, 1 << 20

WORD, NAME, STRING, NUMBER, SYMBOL = "word", "name", "string", "number", "mark"

_SPACE = re.compile(r"(?:\s|#[^\n]*|--(?=[\s\x00-\x1f]|$)[^\n]*)+")
_NUMBER = re.compile(r"(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w$])")
_WORD = re.compile(r"[\w$\u0080-\U0010ffff]+")
_HEX, _BITS = re.compile("[0-9A-Fa-f]+"), re.compile("[01]+")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")
_VERSION = re.compile(r"/\*!(\d{5,6})?")
_QUOTED = {
    "`": re.compile(r"`((?:[^`]|``)*)`"),
    "'": re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL),
    '"': re.compile(r'"((?:[^"\\]|""|\\.)*)"', re.DOTALL),
}
_PLAIN = {q: re.compile(f"{q}((?:[^{q}]|{q}{q})*){q}") for q in "'\""}
"""strings in which a backslash is a letter"""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
# No server has executed the content of a comment for this version or a later one.
_NO_VERSION = 99_999


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a statement. ``text``: in upper case for words, without quotes for names and
    strings. ``charset``: the character set of a string if the server stores it in one other than
    UTF-8."""

    kind: str
    text: str
    raw: str
    charset: str = ""

    @property
    def without_literal(self) -> str:
        """Return the token's text for messages, with ? for a literal, because its value may be
        hidden."""
        literal = self.kind in (STRING, NUMBER) or self.text[:2] in ("0X", "0B")
        return "?" if literal else self.raw


def tokens(statement: str, sql_mode: int = 0) -> list[Token]:
    """Return the tokens of ``statement``. ``sql_mode``: the session's, which decides about quotes
    and backslashes. Raise StatementError if a quote or a comment has no end."""
    out: list[Token] = []
    at, inside = 0, False
    while at < len(statement):
        if space := _SPACE.match(statement, at):
            at = space.end()
        elif statement.startswith("/*", at):
            version = _VERSION.match(statement, at)
            if version and not inside and int(version[1] or 0) < _NO_VERSION:
                at, inside = version.end(), True
            else:
                at = _comment_end(statement, at)
        elif inside and statement.startswith("*/", at):
            at, inside = at + 2, False
        else:
            token, at = _token(statement, at, sql_mode)
            if token.text == "REAL" and sql_mode & REAL_AS_FLOAT and _is_type(token, out):
                token = Token(WORD, "FLOAT", "FLOAT")
            out.append(_lettered(token, sql_mode) if LETTER_BACKSLASH in token.raw else token)
    if inside:
        raise StatementError("a comment in the statement has no end")
    return out


def _is_type(token: Token, before: list[Token]) -> bool:
    """Return whether the token is a type. A reserved word after a point is a name."""
    return token.kind == WORD and not (before and before[-1].text == ".")


def _comment_end(statement: str, at: int) -> int:
    """Return the end of the comment that starts at ``at``. A version comment may contain another
    comment."""
    versioned = statement.startswith("/*!", at)
    end = statement.find("*/", at + 2)
    inner = statement.find("/*", at + 2)
    while versioned and 0 <= inner < end:
        after = statement.find("*/", inner + 2)
        end, inner = statement.find("*/", after + 2), statement.find("/*", after + 2)
    if end == -1:
        raise StatementError("a comment in the statement has no end")
    return end + 2


def _token(statement: str, at: int, sql_mode: int) -> tuple[Token, int]:
    symbol = statement[at]
    if symbol in _QUOTED:
        names = symbol == "`" or (symbol == '"' and bool(sql_mode & ANSI_QUOTES))
        plain = symbol != "`" and (names or bool(sql_mode & NO_BACKSLASH_ESCAPES))
        match = (_PLAIN if plain else _QUOTED)[symbol].match(statement, at)
        if not match:
            raise StatementError(f"a {symbol} in the statement is not closed")
        text = match[1].replace(symbol * 2, symbol)
        if not (names or plain):
            text = _ESCAPE.sub(_unescape, text)
        return Token(NAME if names else STRING, text, match[0]), match.end()
    if match := _NUMBER.match(statement, at):
        return Token(NUMBER, match[0], match[0]), match.end()
    if match := _WORD.match(statement, at):
        return Token(WORD, match[0].upper(), match[0]), match.end()
    return Token(SYMBOL, symbol, symbol), at + 1


def _lettered(token: Token, sql_mode: int) -> Token:
    """Return the token with its literal backslashes. ``raw`` doubles them if a backslash escapes,
    so that it can be read again."""
    escaped = token.kind == STRING and not sql_mode & NO_BACKSLASH_ESCAPES
    raw = token.raw.replace(LETTER_BACKSLASH, "\\\\" if escaped else "\\")
    return Token(token.kind, token.text.replace(LETTER_BACKSLASH, "\\"), raw)


def _unescape(match: re.Match[str]) -> str:
    char = match[1]
    return "\\" + char if char in "%_" else _ESCAPED.get(char, char)


class Cursor:
    """Reads tokens from left to right. Methods that expect a token raise StatementError if another
    one comes next."""

    def __init__(self, items: list[Token]) -> None:
        self._items = items
        self._at = 0

    def again(self) -> Cursor:
        """Return a second cursor over the remaining tokens."""
        return Cursor(self._items[self._at :])

    def until(self, later: Cursor) -> list[str]:
        """Return the tokens before ``later``, a cursor over the same tokens, with words in upper
        case."""
        return [token.text for token in self._items[: len(self._items) - len(later.again()._items)]]

    def peek(self, ahead: int = 0) -> Token | None:
        at = self._at + ahead
        return self._items[at] if at < len(self._items) else None

    def next(self) -> Token:
        token = self.peek()
        if token is None:
            raise StatementError("the statement ends too early")
        self._at += 1
        return token

    def charset(self) -> str:
        """Return the character set of the next string, by its introducer or its token; '' for
        UTF-8."""
        left = self._items[self._at :]
        at = next((i for i, token in enumerate(left) if token.kind == STRING), -1)
        name = left[at - 1].text.lower() if at > 0 and left[at - 1].kind == WORD else ""
        if name[:1] == "_" and name[1:] in NAMES and not name.startswith("_utf8"):
            return name[1:]
        return left[at].charset if at >= 0 else ""

    def at_end(self) -> bool:
        return self._at >= len(self._items)

    def rest(self, *, literals: bool = False) -> str:
        """Return the next few words for messages. ``literals``: whether to show literals, which is
        allowed if no mask can concern them."""
        words = self._items[self._at : self._at + 4]
        return " ".join(t.raw if literals else t.without_literal for t in words) or "its end"

    def at(self, *words: str) -> bool:
        """Return whether the next token is one of these unquoted words."""
        token = self.peek()
        return token is not None and token.kind == WORD and token.text in words

    def word(self, *words: str) -> str:
        """Consume and return the next token if it is one of these unquoted words; else return
        ''."""
        return self.next().text if self.at(*words) else ""

    def at_phrase(self, text: str) -> bool:
        """Return whether all of these words come next."""
        wanted = text.split()
        following = self._items[self._at : self._at + len(wanted)]
        return [t.text for t in following if t.kind == WORD] == wanted

    def phrase(self, text: str) -> bool:
        """Consume these words if all of them come next."""
        if not self.at_phrase(text):
            return False
        self._at += len(text.split())
        return True

    def at_symbol(self, symbol: str) -> bool:
        token = self.peek()
        return token is not None and token.kind == SYMBOL and token.text == symbol

    def symbol(self, symbol: str) -> bool:
        """Consume the next token if it is this symbol; return whether it was."""
        if self.at_symbol(symbol):
            self._at += 1
            return True
        return False

    def expect(self, what: str) -> None:
        """Consume this symbol or unquoted word. Raise StatementError if it does not come next."""
        if not (self.symbol(what) or self.word(what)):
            raise StatementError(f"{what} expected before {self.rest()}")

    def name(self) -> str:
        """Consume a name. Characters beyond the basic plane become ?, as on the server (identifiers
        are utf8mb3 there)."""
        return _BEYOND.sub("?", self.identifier())

    def column(self) -> str:
        """Consume a column's name. Servers before 8.0 accept its table, and database, before it."""
        self.symbol(".")
        name = self.name()
        while self.symbol("."):
            name = self.name()
        return name

    def identifier(self) -> str:
        """Consume a name as it is written. Accept double quotes if sql_mode is not known."""
        token = self.next()
        if token.kind == WORD:
            return token.raw
        if token.kind == NAME or token.raw[0] == '"':
            return token.text
        raise StatementError(f"a name expected, not {token.without_literal}")

    def table(self, database: str) -> str:
        """Consume a table's name; return it as ``db.table``, in ``database`` if it names none."""
        first = "" if self.symbol(".") else self.name()
        if first and not self.symbol("."):
            if not database:
                raise StatementError(f"table {first} is named without a database")
            return table_name(database, first)
        second = self.name()
        return table_name(first or database, second)

    def number(self) -> int:
        token = self.next()
        if token.kind != NUMBER or not token.text.isdigit() or len(token.text) > 18:
            raise StatementError(f"a number expected, not {token.without_literal}")
        return int(token.text)

    def string(self) -> str:
        """Consume a string literal. Adjacent literals are one string."""
        token = self.next()
        if token.kind == WORD and (token.text == "N" or token.text[0] == "_"):
            token = self.next()
        if token.kind != STRING:
            raise StatementError(f"a string expected, not {token.without_literal}")
        text = token.text
        while (more := self.peek()) is not None and more.kind == STRING:
            text += self.next().text
        return text

    def bytes_literal(self) -> bytes | None:
        """Consume a hexadecimal or bit literal, if one comes next."""
        token, following = self.peek(), self.peek(1)
        if token is None or token.kind != WORD:
            return None
        base, digits = token.text[:2], token.text[2:]
        apart = token.text in ("X", "B") and following is not None and following.kind == STRING
        if apart and following is not None:
            base, digits = f"0{token.text}", following.text
        pattern, bits = {"0X": (_HEX, 4), "0B": (_BITS, 1)}.get(base, (_HEX, 0))
        if not bits or not pattern.fullmatch(digits):
            return None
        self._at += 1 + apart
        return int(digits, 1 << bits).to_bytes((len(digits) * bits + 7) // 8, "big")

    def introduced_bytes(self) -> tuple[str, bytes] | None:
        """Consume an introducer and a hexadecimal or bit literal (_gbk x'D6D0'), if they come next.
        Return the character set and the bytes."""
        token = self.peek()
        name = token.text.lower() if token is not None and token.kind == WORD else ""
        following = Cursor(self._items[self._at + 1 :])
        raw = following.bytes_literal() if name[:1] == "_" and name[1:] in NAMES else None
        if raw is None:
            return None
        self._at += 1 + following._at
        return name[1:], raw

    def parentheses(self) -> Cursor:
        """Consume ``( ... )`` with any content; return a cursor over the content."""
        self.expect("(")
        start, depth = self._at, 1
        while depth:
            token = self.next()
            if token.kind == SYMBOL:
                depth += (token.text == "(") - (token.text == ")")
        return Cursor(self._items[start : self._at - 1])

    def parts(self) -> list[Cursor]:
        """Return a cursor over each part between commas outside of parentheses."""
        out: list[Cursor] = []
        start = self._at
        while not self.at_end():
            if self.at_symbol("("):
                self.parentheses()
            elif self.next().raw == ",":
                out.append(Cursor(self._items[start : self._at - 1]))
                start = self._at
        return [*out, Cursor(self._items[start:])]

"""Strings of a statement as the server reads them: the client's text in the connection's character
set, or the client's bytes in that of an introducer (``_latin1'...'``, ``N'...'``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..binlog.charsets.charset import UTF8, charset_of, to_text
from ..binlog.charsets.repertoire import bytes_of, with_question_marks
from ..errors import DecodeError, StatementError
from ..tables.column import CHARACTER_TYPES, ColumnType
from .charsets import NAMES, WIDE
from .sql_tokens import NO_BACKSLASH_ESCAPES, STRING, WORD, Token

if TYPE_CHECKING:
    from ..tables.column import Column
    from .column_clause import ColumnClause
    from .default_clause import Default
    from .session import Session

_BINARY, _NOT_KNOWN = "binary", "?"
_OF_BYTES = CHARACTER_TYPES | {ColumnType.BIT}
"""types whose columns store a string's bytes"""
_OTHER_ASCII = WIDE | {"swe7"}
"""character sets in which ASCII characters have other bytes"""
_SAME_BYTES = {"utf8mb4", "utf8mb3", _BINARY}


def as_read(items: list[Token], session: Session) -> list[Token]:
    """Return the tokens of a statement in the client's character set, with strings in the form that
    the server stores. Raise StatementError if this form is not known."""
    read, introducer = list[Token](), ""
    for token in items:
        if token.kind != STRING:
            introducer = _introducer(token)
            read.append(token)
        elif not token.text.isascii() or (not introducer and session.connection in _OTHER_ASCII):
            read.append(_string(token, introducer, session))
        else:
            read.append(_digits(token) if introducer in _OTHER_ASCII else token)
    return read


def _digits(token: Token) -> Token:
    """Return the string as a literal in hexadecimal digits, which it is after an introducer."""
    return _literal_of(token.text.encode()) if token.text else token


def _literal_of(raw: bytes) -> Token:
    """Return the literal in hexadecimal digits."""
    return Token(WORD, f"0X{raw.hex().upper()}", f"0x{raw.hex()}")


def _introducer(token: Token) -> str:
    """Return the character set that the token gives to the string after it; '' for none."""
    name = token.text.lower() if token.kind == WORD else ""
    name = "_utf8mb3" if name in ("n", "_utf8") else name
    return name[1:] if name[:1] == "_" and name[1:] in NAMES else ""


def _string(token: Token, introducer: str, session: Session) -> Token:
    client, connection = session.client or "utf8mb4", session.connection or "utf8mb4"
    charset, text = introducer or connection, token.text
    is_known = client in UTF8 or client == _BINARY
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        # Bytes that are no text: only a binary column accepts them.
        as_binary = is_known and (charset in UTF8 or charset == _BINARY)
        return replace(token, charset=_BINARY if as_binary else _NOT_KNOWN)
    if introducer and not _is_text(text, client, charset):
        return _literal_of(_bytes(text, client))
    if introducer or client == _BINARY:
        text = _taken(text, client, charset)
    elif client != charset and charset != _BINARY:
        text = _sent(text, charset)
    elif charset == _BINARY:
        text = _taken(text, client, _BINARY)
    raw = token.raw if text == token.text else _quoted(text, session)
    return Token(STRING, text, raw, "" if charset in UTF8 else charset)


def _taken(text: str, client: str, charset: str) -> str:
    """Return the client's bytes, read in another character set."""
    if client == charset or {client, charset} <= _SAME_BYTES:
        return text
    raw = _bytes(text, client)
    if charset == _BINARY:
        return raw.decode("utf-8", "surrogateescape")
    try:
        return to_text(raw, charset)
    except DecodeError as error:
        raise StatementError(error.message) from error


def _is_text(text: str, client: str, charset: str) -> bool:
    """Return whether the client's bytes are text in another character set. Raise StatementError if
    the bytes are not known."""
    if charset != _BINARY:
        try:
            to_text(_bytes(text, client), charset)
        except DecodeError:
            return False
    return True


def _sent(text: str, charset: str) -> str:
    """Return the client's text, with ? for each letter that the connection's character set
    lacks."""
    try:
        return with_question_marks(text, charset)
    except DecodeError as error:
        raise StatementError(error.message) from error


def _bytes(text: str, charset: str) -> bytes:
    if charset in UTF8 or charset == _BINARY:
        return text.encode("utf-8", "surrogateescape")
    if charset == _NOT_KNOWN:
        raise StatementError("the statement is not text in its client's character set")
    try:
        return bytes_of(text, charset)
    except DecodeError as error:
        raise StatementError(error.message) from error


def _quoted(text: str, session: Session) -> str:
    plain = bool(session.sql_mode & NO_BACKSLASH_ESCAPES)
    text = text if plain else text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'"


def in_column(clause: ColumnClause, charset: str) -> ColumnClause:
    """Return the column with this character set or collation, and its default converted to it."""
    kind = clause.type.code
    if kind not in _OF_BYTES or clause.default is None:
        return clause
    is_bit = kind == ColumnType.BIT
    name = _BINARY if is_bit else (clause.charset or charset).lower().partition("_")[0]
    return replace(clause, default=default_in(clause.default, name))


def in_own_charset(default: Default, column: Column) -> Default:
    """Return the default in the character set that an existing column has."""
    if column.type == ColumnType.BIT:
        return default_in(default, _BINARY)
    return default_in(default, charset_of(column.collation) if column.collation else "")


def default_in(default: Default, charset: str) -> Default:
    """Return the default of a column of this character set; '' for a column without one."""
    if charset == _BINARY and default.raw:
        return replace(default, literal=default.raw, unknown="")
    try:
        return _in_charset(default, charset)
    except StatementError as error:
        return replace(default, literal=None, constant=None, unknown=error.message)


def _in_charset(default: Default, charset: str) -> Default:
    """Return the default in the letters of this character set. Raise StatementError if they are
    not known."""
    text = default.constant if default.literal is None else default.literal
    if not (charset and default.charset) or text is None:
        return default
    if default.charset == _BINARY and charset in WIDE:
        raise StatementError(f"what a column of {charset} stores of bytes is not known")
    if text.isascii() and default.charset not in _OTHER_ASCII:
        return default
    if charset == _BINARY:
        text = f"0x{_bytes(text.removeprefix(chr(39)), default.charset).hex()}"
    elif default.charset == _BINARY and charset not in UTF8:
        text = f"'{_taken(text.removeprefix(chr(39)), 'utf8mb4', charset)}"
    if default.literal is None:
        return replace(default, constant=text)
    return replace(default, literal=text)

"""What a Query event's status variables say about its statement: how the text is to be read."""

from __future__ import annotations

from ..errors import DecodeError
from .charset import charset_of, to_text

ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
_SQL_MODE, _CHARSET = 1, 4
# Bytes of the variables that stand in front of those (mysql.md 1.9); others are not read.
_SIZES = {0: 4, _SQL_MODE: 8, 3: 4, _CHARSET: 6}
_CATALOG_WITH_END, _CATALOG = 2, 6


def sql_mode(status: bytes) -> int:
    """The session's sql_mode; 0 when the event does not say."""
    return int.from_bytes(_variables(status).get(_SQL_MODE, b""), "little")


def statement_text(statement: bytes, status: bytes) -> str:
    """``statement`` in the client's character set; as UTF-8, whose faulty bytes become surrogates,
    when that is not known or the bytes are none of it (literals may be binary)."""
    collation = int.from_bytes(_variables(status).get(_CHARSET, b"")[:2], "little")
    try:
        charset = charset_of(collation) if collation else "binary"
        if charset != "binary":
            return to_text(statement, charset)
    except DecodeError:
        pass
    return statement.decode("utf-8", "surrogateescape")


def _variables(status: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at + 1 < len(status):
        code = status[at]
        if code in (_CATALOG, _CATALOG_WITH_END):
            size = 1 + status[at + 1] + (code == _CATALOG_WITH_END)
        elif code in _SIZES:
            size = _SIZES[code]
        else:
            break
        found[code] = status[at + 1 : at + 1 + size]
        at += 1 + size
    return found

"""What a Query event's status variables say about its statement: how the text is to be read."""

from __future__ import annotations

from ...errors import DecodeError
from ..charsets.charset import LETTER_BACKSLASH, charset_of, to_text

_CATALOG_WITH_END, _TIME_ZONE, _CATALOG, _INVOKER, _DATABASES = 2, 5, 6, 11, 12
_SQL_MODE, _CHARSET, _XID, _UTF8MB4 = 1, 4, 17, 18
_MICROSECONDS, _TIMESTAMPS = 13, 16
# Bytes of the variables of fixed size (MySQL source, libs/mysql/binlog/event/statement_events.h).
_SIZES = {
    0: 4, _SQL_MODE: 8, 3: 4, _CHARSET: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, _XID: 8,
    _UTF8MB4: 2, 19: 1, 20: 1, 21: 1,
}  # fmt: skip
_TOO_MANY = 254


def sql_mode(status: bytes) -> int:
    """The session's sql_mode; 0 when the event does not say."""
    return int.from_bytes(_variables(status).get(_SQL_MODE, b""), "little")


def statement_text(statement: bytes, status: bytes) -> str:
    """``statement`` in the client's character set; as UTF-8, whose faulty bytes become surrogates,
    when that is not known or the bytes are none of it (literals may be binary). A backslash that is
    one of two bytes is LETTER_BACKSLASH."""
    collation = int.from_bytes(_variables(status).get(_CHARSET, b"")[:2], "little")
    try:
        charset = charset_of(collation) if collation else "binary"
        if charset != "binary":
            return to_text(statement, charset, backslash=LETTER_BACKSLASH)
    except DecodeError:
        pass
    return statement.decode("utf-8", "surrogateescape")


def character_sets(status: bytes) -> tuple[str, str]:
    """character_set_client and character_set_connection; '' where the event does not say, or one
    that is not known."""
    numbers = _variables(status).get(_CHARSET, b"")
    return _set_of(numbers[:2]), _set_of(numbers[2:4])


def _set_of(number: bytes) -> str:
    try:
        return charset_of(int.from_bytes(number, "little")) if any(number) else ""
    except DecodeError:
        return ""


def utf8mb4_collation(status: bytes) -> int:
    """Number of the collation that utf8mb4 means without one; 0 when the event does not say."""
    return int.from_bytes(_variables(status).get(_UTF8MB4, b""), "little")


def made_nothing(status: bytes) -> bool:
    """Whether a CREATE TABLE IF NOT EXISTS found the table there. Servers since 8.0 mark what they
    do to tables of transactional engines with the transaction's number."""
    variables = _variables(status)
    return _UTF8MB4 in variables and _XID not in variables


def microseconds(status: bytes) -> int:
    """The fraction of the second in which the statement began."""
    return int.from_bytes(_variables(status).get(_MICROSECONDS, b""), "little")


def time_zone(status: bytes) -> str:
    """The session's time_zone; '' when the event does not say."""
    return _variables(status).get(_TIME_ZONE, b"\0")[1:].decode("utf-8", "replace")


def server_collation(status: bytes) -> int:
    """Number of collation_server, which a database without CHARACTER SET gets; 0 when the event
    does not say."""
    return int.from_bytes(_variables(status).get(_CHARSET, b"")[4:6], "little")


def explicit_timestamps(status: bytes) -> bool | None:
    """explicit_defaults_for_timestamp; None when the event does not say."""
    value = _variables(status).get(_TIMESTAMPS)
    return bool(value[0]) if value else None


def _variables(status: bytes) -> dict[int, bytes]:
    variables: dict[int, bytes] = {}
    at = 0
    while at + 1 < len(status):
        size = _size(status, at)
        if size is None:
            break
        variables[status[at]] = status[at + 1 : at + 1 + size]
        at += 1 + size
    return variables


def _size(status: bytes, at: int) -> int | None:
    """Bytes behind the code at ``at``; None for a variable that isn't known, or is cut."""
    code, first = status[at], status[at + 1]
    if code in (_CATALOG, _CATALOG_WITH_END, _TIME_ZONE):
        return 1 + first + (code == _CATALOG_WITH_END)
    if code == _INVOKER:
        host = at + 2 + first
        return 2 + first + status[host] if host < len(status) else None
    if code == _DATABASES:
        end = at + 1
        for _ in range(0 if first == _TOO_MANY else first):
            end = status.find(0, end + 1)
            if end < 0:
                return None
        return end - at
    return _SIZES.get(code)

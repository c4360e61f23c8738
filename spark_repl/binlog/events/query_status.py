"""The status variables of a Query event: the session's settings that decide how its statement is
read."""

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
    """Return the session's sql_mode; 0 if the event does not contain it."""
    return int.from_bytes(_variables(status).get(_SQL_MODE, b""), "little")


def statement_text(statement: bytes, status: bytes) -> str:
    """Decode ``statement`` in the client's character set. Decode it as UTF-8, with surrogates for
    invalid bytes, if the set is unknown or the bytes are invalid in it (literals may be binary). A
    two-byte backslash becomes LETTER_BACKSLASH."""
    collation = int.from_bytes(_variables(status).get(_CHARSET, b"")[:2], "little")
    try:
        charset = charset_of(collation) if collation else "binary"
        if charset != "binary":
            return to_text(statement, charset, backslash=LETTER_BACKSLASH)
    except DecodeError:
        pass
    return statement.decode("utf-8", "surrogateescape")


def character_sets(status: bytes) -> tuple[str, str]:
    """Return character_set_client and character_set_connection. Each is '' if the event does not
    contain it, or if MySQL 9.7 lacks it."""
    numbers = _variables(status).get(_CHARSET, b"")
    return _set_of(numbers[:2]), _set_of(numbers[2:4])


def _set_of(number: bytes) -> str:
    try:
        return charset_of(int.from_bytes(number, "little")) if any(number) else ""
    except DecodeError:
        return ""


def utf8mb4_collation(status: bytes) -> int:
    """Return the id of the default collation of utf8mb4; 0 if the event does not contain it."""
    return int.from_bytes(_variables(status).get(_UTF8MB4, b""), "little")


def made_nothing(status: bytes) -> bool:
    """Return whether a CREATE TABLE IF NOT EXISTS found an existing table. Servers since 8.0 add
    the transaction's number to the event of a statement that changed a table of a transactional
    engine."""
    variables = _variables(status)
    return _UTF8MB4 in variables and _XID not in variables


def microseconds(status: bytes) -> int:
    """Return the fraction of the second in which the statement began, in microseconds."""
    return int.from_bytes(_variables(status).get(_MICROSECONDS, b""), "little")


def time_zone(status: bytes) -> str:
    """Return the session's time_zone; '' if the event does not contain it."""
    return _variables(status).get(_TIME_ZONE, b"\0")[1:].decode("utf-8", "replace")


def server_collation(status: bytes) -> int:
    """Return the id of collation_server, which a database without CHARACTER SET gets; 0 if the
    event does not contain it."""
    return int.from_bytes(_variables(status).get(_CHARSET, b"")[4:6], "little")


def explicit_timestamps(status: bytes) -> bool | None:
    """Return explicit_defaults_for_timestamp; None if the event does not contain it."""
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
    """Return the bytes of the variable's value, which follows the code at ``at``. Return None for
    an unknown or truncated variable."""
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

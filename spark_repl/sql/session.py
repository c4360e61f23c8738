"""Session: what a statement's event says about the session that ran it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..tables.case_folding import fold

if TYPE_CHECKING:
    from ..binlog.events.event import Query

# Bits of sql_mode that change stored values.
STRICT = 1 << 21 | 1 << 22
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES"""
TIME_TRUNCATE_FRACTIONAL = 1 << 32
PAD_CHAR_TO_FULL_LENGTH = 1 << 31


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a logged statement.

    ``at``: NOW(6) in microseconds since 1970 (UTC). ``time_zone``: as the server prints it
    (``+02:00``, ``Europe/Berlin``, ``SYSTEM``), '' if the event does not contain it.

    ``charsets``: the known character set or collation of each database, with names in lower case if
    the source ``folds`` them. ``server_collation``: the number of the default collation for
    databases, 0 if the event does not contain it. ``utf8mb4_collation``: the number of the default
    collation of utf8mb4, 0 likewise. ``client``, ``connection``: the character sets of these
    variables, '' for UTF-8.

    ``explicit_timestamps``: explicit_defaults_for_timestamp, None if the event does not contain it.
    ``inline_keys``: whether the server creates foreign keys from REFERENCES among a column's
    attributes (9.0 and later). ``quotients``: whether it rounds quotients of exact numbers as 9.7
    does. ``keeps_row_id``: whether it keeps an invisible my_row_id first (8.0.30 and later).
    """

    database: str = ""
    sql_mode: int = 0
    at: int = 0
    time_zone: str = ""
    explicit_timestamps: bool | None = None
    utf8mb4_collation: int = 0
    inline_keys: bool = True
    quotients: bool = True
    keeps_row_id: bool = True
    client: str = ""
    connection: str = ""
    server_collation: int = 0
    charsets: Mapping[str, str] = field(default_factory=dict, compare=False)
    folds: bool = False

    @classmethod
    def of(cls, query: Query, system_time_zone: str = "") -> Session:
        """Return the session of a logged statement. The server's SYSTEM zone may be unknown."""
        zone, (client, connection) = query.time_zone, query.character_sets
        return cls(
            query.database,
            query.sql_mode,
            query.at,
            system_time_zone if zone == "SYSTEM" and system_time_zone else zone,
            query.explicit_timestamps,
            query.utf8mb4_collation,
            client=client,
            connection=connection,
            server_collation=query.server_collation,
        )

    def charset_of(self, database: str) -> str:
        """Return the database's character set or collation; '' if it is not known."""
        return self.charsets.get(fold(database) if self.folds else database, "")

    @property
    def is_strict(self) -> bool:
        """Return whether values that do not fit are errors (STRICT_TRANS_TABLES,
        STRICT_ALL_TABLES)."""
        return bool(self.sql_mode & STRICT)

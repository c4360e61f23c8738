"""Session: what a statement's event says of the session that ran it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..binlog.events.event import Query

STRICT = 1 << 21 | 1 << 22
"""in ``sql_mode``: STRICT_TRANS_TABLES and STRICT_ALL_TABLES"""
TIME_TRUNCATE_FRACTIONAL = 1 << 32


@dataclass(frozen=True, slots=True)
class Session:
    """``at``: what NOW(6) was, in microseconds since 1970 (UTC); ``time_zone``: as the server
    prints it (``+02:00``, ``Europe/Berlin``, ``SYSTEM``), '' where the event does not say.
    ``collation``: number of the default database's collation, 0 where it does not say.
    ``utf8mb4_collation``: number of what utf8mb4 means without one, 0 likewise.
    ``explicit_timestamps``: explicit_defaults_for_timestamp, None where it does not say.
    ``inline_keys``: whether its server makes foreign keys of REFERENCES among a column's attributes
    (9.0 and later); ``quotients``: whether it rounds those of exact numbers as 9.7 does.
    ``client``, ``connection``: the character sets of these names, '' for UTF-8.
    """

    database: str = ""
    sql_mode: int = 0
    at: int = 0
    time_zone: str = ""
    collation: int = 0
    explicit_timestamps: bool | None = None
    utf8mb4_collation: int = 0
    inline_keys: bool = True
    quotients: bool = True
    client: str = ""
    connection: str = ""

    @classmethod
    def of(cls, query: Query, system_time_zone: str = "") -> Session:
        """The session of a logged statement, on a server whose SYSTEM zone is known, or not."""
        zone, (client, connection) = query.time_zone, query.character_sets
        return cls(
            query.database,
            query.sql_mode,
            query.at,
            system_time_zone if zone == "SYSTEM" and system_time_zone else zone,
            query.collation,
            query.explicit_timestamps,
            query.utf8mb4_collation,
            client=client,
            connection=connection,
        )

    @property
    def is_strict(self) -> bool:
        """Whether values that don't fit are errors (STRICT_TRANS_TABLES, STRICT_ALL_TABLES)."""
        return bool(self.sql_mode & STRICT)

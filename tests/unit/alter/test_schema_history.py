"""SchemaHistory: what the statements of a log say of its tables' columns."""

from __future__ import annotations

import struct

import pytest

from spark_repl.alter.schema_history import SchemaHistory
from spark_repl.binlog.events.event import Query

_LATIN1, _LATIN2, _UTF8MB4 = 8, 9, 255
SERVER = b"\x04" + struct.pack("<HHH", _UTF8MB4, _UTF8MB4, _LATIN2)
"""status variables: collation_server is latin2's"""
MADE_NOTHING = b"\x12\xff\0"
"""status variables of a server since 8.0, without the transaction's number"""


def definition_after(*statements: tuple[str, bytes]) -> tuple[str, int]:
    """(character set of l.a, collation of its column v)."""
    history = SchemaHistory()
    for text, status in [*statements, ("CREATE TABLE l.a (v VARCHAR(9))", b"")]:
        history.see(Query(1, 0, 0, "t", text.encode(), status))
    made = history.definitions["l.a"]
    return made.charset, made.columns[0].collation


@pytest.mark.parametrize(
    ("statements", "want"),
    [
        ([("CREATE DATABASE l CHARACTER SET latin1", b"")], ("latin1", _LATIN1)),
        ([("CREATE DATABASE l", SERVER)], ("latin2_9", _LATIN2)),
        (
            [("CREATE DATABASE l", SERVER), ("ALTER DATABASE l COLLATE latin1_bin", b"")],
            ("latin1_bin", _LATIN1),
        ),
        (
            [
                ("CREATE DATABASE l CHARACTER SET latin1", b""),
                ("CREATE DATABASE IF NOT EXISTS l CHARACTER SET latin2", MADE_NOTHING),
            ],
            ("latin1", _LATIN1),
        ),
        ([("CREATE DATABASE m CHARACTER SET latin1", b"")], ("utf8mb4_", _UTF8MB4)),
        (
            [("CREATE DATABASE l CHARACTER SET latin1", b""), ("DROP DATABASE l", b"")],
            ("utf8mb4_", _UTF8MB4),
        ),
    ],
)
def test_a_table_has_its_databases_character_set(
    statements: list[tuple[str, bytes]], want: tuple[str, int]
) -> None:
    assert definition_after(*statements) == want


def test_a_database_that_failed_to_change_keeps_its_character_set() -> None:
    history = SchemaHistory({}, {"l": "latin1"})
    for text in ("ALTER DATABASE l CHARACTER SET latin2", "DROP DATABASE l"):
        history.see(Query(1, 0, 3664, "t", text.encode(), b""))
    assert history.charsets == {"l": "latin1"}

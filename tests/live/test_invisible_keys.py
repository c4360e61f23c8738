"""Tables with generated invisible primary keys, on a server that gives one to every table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.live.following import Following
from tests.support.live.server import Server
from tests.support.local_delta import cuts, read

ROW_ID = "my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE"
_NUMBER = "c BIGINT UNSIGNED NOT NULL DEFAULT 7 FIRST"
_ROWS = "INSERT INTO k.{} (a, b) VALUES (1, 'q'), (2, 'r')"

_COLUMNS = "a INT, b VARCHAR(5)"
_HAND = f"({ROW_ID} PRIMARY KEY, {_COLUMNS})"
_ADD = f"ADD {_NUMBER}"

# name: what makes it, what changes it, a row with a value for each column that INSERT asks for
_TABLES = {
    "added": (f"({_COLUMNS})", _ADD, "90, 3, 's'"),
    "moved": (f"({_COLUMNS})", "MODIFY b VARCHAR(9) FIRST", "'s', 3"),
    "changed": (f"({_COLUMNS})", f"CHANGE b bb VARCHAR(5) FIRST, {_ADD}", "1, 's', 3"),
    "shown": (f"({_COLUMNS})", f"{_ADD}, ALTER my_row_id SET VISIBLE", "9, 1, 3, 's'"),
    "dropped": (f"({_COLUMNS})", f"DROP my_row_id, {_ADD}", "9, 3, 's'"),
    "keyed": (f"({_COLUMNS})", f"DROP my_row_id, ADD PRIMARY KEY (a), {_ADD}", "9, 3, 's'"),
    "named": (f"({_COLUMNS})", f"DROP my_row_id, {_ADD}, RENAME COLUMN a TO my_row_id", "4,9,'s'"),
    "written": (_HAND, _ADD, "90, 3, 's'"),
    "visible": (_HAND.replace("INV", "V"), _ADD, "90, 60, 3, 's'"),
    "liked": ("LIKE k.added", f"MODIFY b VARCHAR(5) FIRST, {_ADD}", "90, 's', 3"),
    "chosen": ("SELECT a, b FROM k.added", _ADD, "90, 3, 's'"),
    "isam": (f"{_HAND} ENGINE=MyISAM", _ADD, "90, 3, 's'"),
    "parts": (f"{_HAND} PARTITION BY KEY () PARTITIONS 2", _ADD, "90, 3, 's'"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_columns_and_values_are_the_servers(
    make_server: Callable[..., Server], tmp_path: Path, metadata: str
) -> None:
    server = make_server(f"--binlog-row-metadata={metadata}")
    with Following(server, tmp_path) as following:
        server.query("SET GLOBAL sql_generate_invisible_primary_key = ON", "CREATE DATABASE k")
        for name, (made, _, _) in _TABLES.items():
            server.query(f"CREATE TABLE k.{name} {made}", _ROWS.format(name))
        server.query("SET GLOBAL sql_generate_invisible_primary_key = OFF")
        for name, (_, actions, values) in _TABLES.items():
            server.query(
                f"ALTER TABLE k.{name} {actions}",
                f"INSERT INTO k.{name} VALUES ({values})",
                f"UPDATE k.{name} SET c = 8 WHERE c = 9" if "c BIGINT" in actions else "DO 1",
                f"DELETE FROM k.{name} LIMIT 1",
            )
        server.query(
            "CREATE TABLE k.engines LIKE k.written", "ALTER TABLE k.engines ENGINE=MyISAM",
            "INSERT INTO k.engines VALUES (1, 2, 'x')", "ALTER TABLE k.engines ENGINE=InnoDB",
            "ALTER TABLE k.engines ADD d BIGINT UNSIGNED NOT NULL DEFAULT 7 FIRST",
            "INSERT INTO k.engines VALUES (60, 61, 2, 'x')",
        )  # fmt: skip
        following.catch_up()
        found = following.verify()
        assert len(found.tables) == len(_TABLES) + 1, found
        assert not found.total("differing"), found
    shown, target = cuts(tmp_path / "lake")[-1].tables, tmp_path / "lake"
    for name in (*_TABLES, "engines"):
        at = shown[f"k.{name}"]
        columns = server.query(
            "SELECT GROUP_CONCAT(column_name ORDER BY ordinal_position) FROM"
            f" information_schema.columns WHERE table_schema = 'k' AND table_name = '{name}'"
        )
        assert ",".join(read(f"{target}/{at.path}", at.version).column_names) == columns[0][0]

"""``to`` of ``[[tables]]`` beside a live server: rows of the log, rows that are read from the
source, and statements, also those that name what the server has named."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.copy.source_tables import list_tables
from spark_repl.copy.survey import survey
from spark_repl.errors import SchemaError
from spark_repl.rules.replication_filters import ReplicationFilters
from spark_repl.source.connection import DumpConnection
from tests.support.live.following import Following
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.local_delta import last_shown

RULES = [
    {"match": "t.child", "to": "lake.kind", "mask": {"s": "constant:-"}},
    {"match": "t.%", "to": "lake.t_%"},
]


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.query(
        "DROP DATABASE IF EXISTS t", "DROP DATABASE IF EXISTS lake",
        "RESET BINARY LOGS AND GTIDS", "CREATE DATABASE t",
        "CREATE TABLE t.parent (id INT PRIMARY KEY)",
        "CREATE TABLE t.child (id INT PRIMARY KEY, p INT, s VARCHAR(9), FOREIGN KEY (p) REFERENCES"
        " t.parent (id) ON DELETE CASCADE)",
    )  # fmt: skip
    return shared_server


def test_routed_tables_end_as_on_the_server(server: Server, tmp_path: Path) -> None:
    with Following(server, tmp_path, tables=RULES) as following:
        server.query(
            "INSERT INTO t.parent VALUES (1), (2), (3)",
            "INSERT INTO t.child VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')",
            "DELETE FROM t.parent WHERE id = 1",
        )
        following.catch_up()
        found = following.verify()
        clean = {"ranges": 1, "differing": 0, "undecided": 0}
        assert found.tables == {
            "lake.kind": {"rows": 2, **clean}, "lake.t_parent": {"rows": 2, **clean},
        }  # fmt: skip
        server.query(
            "ALTER TABLE t.child DROP FOREIGN KEY child_ibfk_1", "DELETE FROM t.parent",
            "USE t", "CREATE TABLE log LIKE child", "INSERT INTO log SELECT * FROM child",
            "RENAME TABLE log TO log2", "ALTER TABLE t.child ADD w INT DEFAULT 5",
        )  # fmt: skip
        following.catch_up()
        found = following.verify("lake.kind")
        assert found.tables == {"lake.kind": {"rows": 2, **clean}}
        target = Path(following.config.target.path)
        # Only a rule's own tables are masked: log2 is another one's.
        assert last_shown(target) == {
            "lake.kind": [(2, 2, "-", 5), (3, 3, "-", 5)], "lake.t_parent": [],
            "lake.t_log2": [(2, 2, "b"), (3, 3, "c")],
        }  # fmt: skip
        server.query("DROP DATABASE t")
        following.catch_up()
        assert last_shown(target) == {}


def test_a_copy_reads_tables_by_their_routes(server: Server, tmp_path: Path) -> None:
    plain = config_for(server, tmp_path).to_mapping()
    config = Config.from_mapping({**plain, "tables": RULES})
    connection = DumpConnection(config.source)
    try:
        tables = list_tables(connection.rows, (), ReplicationFilters.of(config))
        named = {table.definition.name: table.definition for table in tables}
        assert {name: one.source_name for name, one in named.items()} == {
            "lake.kind": "t.child", "lake.t_parent": "t.parent",
        }  # fmt: skip
        (key,) = named["lake.kind"].foreign_keys or ()
        assert (key.name, key.parent) == ("kind_ibfk_1", "lake.t_parent")
        server.query(
            "CREATE DATABASE lake", "CREATE TABLE lake.kind (id INT PRIMARY KEY)",
            "CREATE TABLE lake.t_parent (id INT PRIMARY KEY)",
        )  # fmt: skip
        with pytest.raises(SchemaError, match=r"(?s)t\.child and lake\.kind .* lake\.t_parent"):
            list_tables(connection.rows, (), ReplicationFilters.of(config))
        said = [finding.what for finding in survey(config).findings]
        assert sum("would share" in text for text in said) == 2
    finally:
        connection.close()
        server.query("DROP DATABASE IF EXISTS lake")

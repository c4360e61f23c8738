"""Foreign keys on real servers: what they log of a cascade is applied, all else is refused."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from spark_repl.delta.store.delta_rs_read import read
from spark_repl.errors import DecodeError, SparkReplError
from tests.support.live.server import Server, copy_of
from tests.support.local_delta import run

TABLES = {
    "parent": "id INT PRIMARY KEY, k INT UNIQUE, v INT",
    "cascade_": "id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id)"
    " ON DELETE CASCADE ON UPDATE SET NULL",
    "grandchild": "id INT PRIMARY KEY, p INT REFERENCES cascade_ (id) ON DELETE CASCADE",
    "by_unique": "id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (k)"
    " ON DELETE SET NULL ON UPDATE CASCADE",
    "master": "id INT PRIMARY KEY, p INT",
    "restricted": "id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES master (id)",
    "tree": "id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES tree (id) ON DELETE CASCADE",
}
FIRST = [
    "INSERT INTO parent VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, NULL, 0)",
    "INSERT INTO cascade_ VALUES (1, 1), (2, 1), (3, 2)",
    "INSERT INTO grandchild VALUES (1, 1), (2, 3)",
    "INSERT INTO by_unique VALUES (1, 3), (2, NULL)",
    "INSERT INTO master VALUES (1, 0), (2, 0), (3, 0)",
    "INSERT INTO restricted VALUES (1, 1)",
    "INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)",
]
CASCADING = [
    "DELETE FROM parent WHERE id = 1",
    "DELETE FROM cascade_ WHERE id = 1",
    "UPDATE parent SET id = 20 WHERE id = 2",
    "UPDATE parent SET k = 33 WHERE id = 3",
    "REPLACE INTO parent VALUES (2, 22, 0)",
    "INSERT INTO parent VALUES (3, 3, 0) ON DUPLICATE KEY UPDATE k = 34",
    "DELETE parent, master FROM parent JOIN master ON master.id = parent.id WHERE parent.id = 2",
    "DELETE FROM tree WHERE id = 1",
]
HARMLESS = [
    "UPDATE parent SET v = v + 1",
    "UPDATE cascade_ SET p = 3",
    "DELETE FROM grandchild",
    "DELETE FROM by_unique WHERE id = 2",
    "DELETE FROM master WHERE id = 3",
    "UPDATE master SET id = 30, p = 1 WHERE id = 3",
    "DELETE FROM restricted",
    "REPLACE INTO master VALUES (2, 7)",
    "DELETE master FROM master LEFT JOIN parent ON parent.id = master.id WHERE master.id = 3",
    "SET foreign_key_checks = 0; DELETE FROM parent; SET foreign_key_checks = 1",
]


@pytest.fixture(scope="module")
def servers(template: Server, tmp_path_factory: pytest.TempPathFactory):
    found = {}
    for number, native in enumerate(("OFF", "ON")):
        data = tmp_path_factory.mktemp(native) / "data"
        option = f"--innodb-native-foreign-keys={native}"
        found[native] = copy_of(template, data, 120 + number, option).start()
    yield found
    for server in found.values():
        server.stop()


def fill(server: Server, *, before_the_log: bool = False) -> None:
    makes = [f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()]
    server.query("DROP DATABASE IF EXISTS t", "RESET BINARY LOGS AND GTIDS")
    server.query("CREATE DATABASE t", "USE t", *makes, *FIRST)
    if before_the_log:
        server.query("RESET BINARY LOGS AND GTIDS")


def execute(server: Server, statement: str) -> None:
    server.query("USE t", *statement.split("; "))


def outcome(server: Server, folder: Path, cascades: str = "emulate") -> SparkReplError | None:
    """What stops the applier; without an error every table is as the server's."""
    log, lake = folder / "log", folder / cascades
    log.mkdir(exist_ok=True)
    server.query("FLUSH BINARY LOGS")
    for path in sorted(server.data.glob("binlog.0*"))[:-1]:
        shutil.copy(path, log)
    try:
        run(log, lake, ddl={"cascades": cascades})
    except SparkReplError as error:
        return error
    for name in TABLES:
        wanted = sorted(server.query(f"SELECT * FROM t.{name}"), key=str)
        found = read(str(lake / "t" / name)).to_pylist()
        assert sorted((tuple(row.values()) for row in found), key=str) == wanted, name
    return None


@pytest.mark.parametrize("statement", CASCADING)
def test_a_cascade_is_applied_or_by_choice_refused(servers, tmp_path: Path, statement: str) -> None:
    for native, server in servers.items():
        fill(server)
        execute(server, statement)
        folder = tmp_path / native
        folder.mkdir()
        assert outcome(server, folder) is None
        if native == "ON":
            error = outcome(server, folder, "refuse")
            assert isinstance(error, DecodeError) and "foreign key" in error.message
            assert error.gtid and error.position and error.table


@pytest.mark.parametrize("native", ["OFF", "ON"])
def test_changes_that_cascade_nowhere_are_applied(servers, tmp_path: Path, native: str) -> None:
    server = servers[native]
    fill(server)
    for statement in HARMLESS:
        execute(server, statement)
    assert outcome(server, tmp_path) is None


def test_a_log_from_mid_history_is_refused_at_the_first_change_of_a_parent(
    servers, tmp_path: Path
) -> None:
    server = servers["ON"]
    fill(server, before_the_log=True)
    execute(server, "INSERT INTO parent VALUES (9, 9, 0); INSERT INTO cascade_ VALUES (9, 9)")
    execute(server, "DELETE FROM parent WHERE id = 9")
    error = outcome(server, tmp_path)
    assert error is not None and error.table == "t.parent"
    assert error.hint is not None and "without_cascades" in error.hint


@pytest.mark.parametrize("seed", range(4))
def test_tables_never_differ_in_silence(servers, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    chosen = rng.sample(CASCADING + 2 * HARMLESS, 6)
    for native, server in servers.items():
        fill(server)
        for statement in chosen:
            # A statement may find what another one has changed.
            with suppress(pymysql.err.IntegrityError):
                execute(server, statement)
        folder = tmp_path / native
        folder.mkdir()
        assert outcome(server, folder) is None

"""A server's names break out of nothing: paths, SQL, metrics, status. On a real server, by its log
and by the statements that a copy asks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.cli.main import main
from spark_repl.control.table.layout import Layout
from spark_repl.copy.source_tables import chunk_ends, list_tables, quoted
from spark_repl.copy.survey import ERROR, survey
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.observe.status.status import status
from spark_repl.source.connection import DumpConnection
from spark_repl.tables.target_table import TargetTable
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.local_delta import cuts, run

# A name of MySQL has 64 characters of the basic plane at most, and no blank at its end.
NAMES = (
    "..", "../../out", "/etc/x", "a.b", "`; DROP DATABASE `x", "it's \"", "{x}<script>", "\\",
    "%2e%2e", "_repl", "x\ny", 'a"} 1\nb{c="', "$(id)", "試" * 40, "x" * 64,
)  # fmt: skip
KEY = "id`\nk"


@pytest.fixture(scope="module")
def hostile(shared_server: Server) -> Server:
    """A database of each name with a table of two of the names, and columns of all."""
    shared_server.query("RESET BINARY LOGS AND GTIDS")
    for number, name in enumerate(NAMES):
        tables = {NAMES[(number + step) % len(NAMES)] for step in (0, 4)}
        columns = ", ".join(f"{quoted(c)} VARCHAR(99)" for c in NAMES)
        values = ", ".join("%s" for _ in NAMES)
        shared_server.query(f"CREATE DATABASE {quoted(name)}")
        connection = shared_server.connect(charset="utf8mb4")
        with connection, connection.cursor() as cursor:
            for table in tables:
                full = f"{quoted(name)}.{quoted(table)}"
                cursor.execute(f"CREATE TABLE {full} ({quoted(KEY)} INT PRIMARY KEY, {columns})")
                cursor.execute(f"INSERT INTO {full.replace('%', '%%')} VALUES (1, {values})", NAMES)
                cursor.execute(f"CREATE INDEX {quoted(table)} ON {full} ({quoted(table)})")
    return shared_server


def outside(folder: Path, target: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if not path.is_relative_to(target)}


@pytest.mark.slow
def test_hostile_names_are_applied_below_the_target(
    hostile: Server, tmp_path: Path, capsys: Any
) -> None:
    log, target = tmp_path / "log", tmp_path / "deep" / "below" / "lake"
    log.mkdir()
    target.mkdir(parents=True)
    for path in hostile.data.glob("binlog.0*"):
        shutil.copy(path, log)
    before = outside(tmp_path, target)
    assert run(log, target)
    assert outside(tmp_path, target) == before
    cut = cuts(target)[-1]
    assert len(cut.tables) == 2 * len(NAMES) and len(
        {t.path for t in cut.tables.values()}
    ) == 2 * len(NAMES)
    for table in cut.tables.values():
        folder = Layout(str(target)).table(table.path)
        assert Path(folder).is_relative_to(target), "a name that begins with a dot, too"
        found: pa.Table = read(folder, table.version)
        assert found.column_names == [KEY, *NAMES]
        assert found.to_pylist() == [{KEY: 1} | dict(zip(NAMES, NAMES, strict=True))]
    assert set(status(str(target))["tables"]) == set(cut.tables)
    assert main(["status", "--target", str(target), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])["tables"]) == set(cut.tables)
    assert main(["status", "--target", str(target), "--metrics"]) == 0
    for line in capsys.readouterr().out.splitlines():
        assert line.startswith(("# ", "spark_repl_")), line
    assert main(["status", "--target", str(target)]) == 0
    assert main(["cut", "show", "--target", str(target)]) == 0


def test_a_copy_asks_only_for_tables_with_hostile_names(hostile: Server, tmp_path: Path) -> None:
    config = config_for(hostile, tmp_path)
    connection = DumpConnection(config.source)
    try:
        listed = list_tables(connection.rows)
        assert len(listed) == 2 * len(NAMES)
        made = [
            chunk_ends(connection.rows, table, TargetTable.mirror_of(table.definition))
            for table in listed
        ]
        assert made == [()] * len(listed)
    finally:
        connection.close()
    found = survey(config)
    assert [f for f in found.findings if f.level == ERROR] == [] and found.tables == 2 * len(NAMES)


def test_a_dot_in_a_name_keeps_tables_apart(shared_server: Server, tmp_path: Path) -> None:
    """`a.b`.c and a.`b.c`, also where one is altered, renamed and dropped with its database."""
    shared_server.query(
        "RESET BINARY LOGS AND GTIDS", "CREATE DATABASE `d.b`", "CREATE DATABASE d",
        "CREATE TABLE `d.b`.c (i INT PRIMARY KEY)", "CREATE TABLE d.`b.c` (v VARCHAR(9))",
        "INSERT INTO `d.b`.c VALUES (1), (2)", "INSERT INTO d.`b.c` VALUES ('x')",
        "ALTER TABLE `d.b`.c ADD COLUMN n INT DEFAULT 5",
    )  # fmt: skip
    connection = DumpConnection(config_for(shared_server, tmp_path).source)
    try:
        listed = list_tables(connection.rows, ("d@002eb.c", "d.b.c"))
    finally:
        connection.close()
    assert {(t.definition.database, t.definition.table) for t in listed} == {
        ("d.b", "c"), ("d", "b.c")
    }  # fmt: skip
    log, target = tmp_path / "log", tmp_path / "lake"
    log.mkdir()

    def tables() -> dict[str, list[dict[str, Any]]]:
        shared_server.query("FLUSH BINARY LOGS")
        for path in sorted(shared_server.data.glob("binlog.0*"))[:-1]:
            shutil.copy(path, log)
        run(log, target)
        cut = cuts(target)[-1].tables
        folders = {name: Layout(str(target)).table(table.path) for name, table in cut.items()}
        return {name: read(path).to_pylist() for name, path in folders.items()}

    first = [{"i": 1, "n": 5}, {"i": 2, "n": 5}]
    assert tables() == {"d@002eb.c": first, "d.b.c": [{"v": "x"}]}
    shared_server.query("RENAME TABLE `d.b`.c TO d.c, d.`b.c` TO `d.b`.c")
    assert tables() == {"d.c": first, "d@002eb.c": [{"v": "x"}]}
    shared_server.query("CREATE TABLE d.`b.c` LIKE d.c", "DROP DATABASE `d.b`")
    assert tables() == {"d.c": first, "d.b.c": []}
    shared_server.query("DROP DATABASE d")
    assert tables() == {}

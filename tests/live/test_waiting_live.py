"""``run`` after a statement whose effect on rows the log does not determine: the table is copied
while the others continue, also if processes are killed and the table changes meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from spark_repl import Replica
from spark_repl.config import Config
from spark_repl.control.records.copies import Copy, last_copy
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy import source_tables
from spark_repl.copy.copy_plan import plan_copy
from spark_repl.copy.first_copy import FirstCopy
from spark_repl.copy.recopy import ask
from spark_repl.errors import NoTableError, SourceError
from spark_repl.observe.status.status import status
from spark_repl.runtime.workers import Workers
from spark_repl.service.receiving import executed_of
from tests.support.live.receiving import Running, config_for
from tests.support.live.server import Clients, Server
from tests.support.local_delta import apply_without_stream

from .test_run import Run, check_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_repl.tables.source_table import SourceTable

_WAIT_S = 500.0  # against a run that hangs: two busy cores take 3 minutes for all of it
_PAUSE_S = 0.1
_TABLES = ["t.num", "t.part", "t.other", "t.gen", "t.plain"]
_ROWS = (
    "INSERT IGNORE INTO t.{0} (id, n) WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1"
    " FROM r WHERE i < 400) SELECT {1} + i * 2, i FROM r"
)


class Changes(Clients):
    """Rows of all tables come, change and go, whatever columns they have now."""

    def _make_tables(self) -> None:
        if self.server.query("SHOW DATABASES LIKE 't'"):
            return
        columns = "(id INT PRIMARY KEY, n INT)"
        parts = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (1000), PARTITION q VALUES"
        self.server.query(
            "CREATE DATABASE t",
            *(f"CREATE TABLE t.{name} {columns}" for name in ("num", "gen", "plain", "other")),
            f"CREATE TABLE t.part {columns} {parts} LESS THAN MAXVALUE)",
            *(_ROWS.format(name, 0) for name in ("num", "gen", "plain", "part")),
            _ROWS.format("part", 1000), "INSERT INTO t.other VALUES (3, 3), (5, 5)",
        )  # fmt: skip

    def _client(self, rng: random.Random, number: int) -> None:
        while not self._stop.wait(_PAUSE_S):
            with suppress(pymysql.err.MySQLError, OSError), self.server.connect() as link:
                cursor = link.cursor()
                while not self._stop.wait(_PAUSE_S):
                    table = rng.choice(_TABLES)
                    key = rng.randrange(1100 if table == "t.part" else 900)
                    cursor.execute(f"DELETE FROM {table} WHERE id = %s", (key + 2,))
                    cursor.execute(
                        f"INSERT INTO {table} (id, n) VALUES (%s, 7) ON DUPLICATE KEY UPDATE"
                        " n = n + 1", (key,),
                    )  # fmt: skip
                    self.transactions += 1


def _copy(config: Config) -> Copy | None:
    with suppress(Exception):
        return last_copy(Control(Layout(config.target.path).control))
    return None


def _until(run: Run, true: Callable[[], Any], what: str) -> None:
    until = time.monotonic() + _WAIT_S
    while not true():
        run.check()
        assert time.monotonic() < until, f"{what}: {status(run.config.target.path)}"
        time.sleep(0.2)  # each look reads the status, which takes a core of its own at 0.02


def _waiting(config: Config) -> dict[str, Any]:
    found: dict[str, Any] = status(config.target.path)["waiting"]
    return found


def _all_equal(run: Run, server: Server) -> None:
    _until(run, lambda: run.executed() == server.executed, "the log's end")
    _until(run, lambda: not _waiting(run.config), "no table waits")
    run.stop()
    check_tables(run.config, server, _TABLES)


@pytest.mark.slow
@pytest.mark.parametrize("crash", ["", pytest.param("before_cut:30", marks=pytest.mark.soak)])
def test_tables_are_copied_by_themselves(
    make_server: Callable[..., Server], tmp_path: Path, crash: str
) -> None:
    """TABLE_MAPs have no names of columns here: tables that are left out need none. Kills at each
    step of the copies are tested without Spark in applier/test_waiting_tables."""
    server = make_server("--binlog-row-metadata=MINIMAL")
    config = config_for(server, tmp_path)
    with Changes(server, 2):
        run = Run(config, tmp_path, crash="after_statement:2")
        _until(run, run.executed, "a first cut")
        server.query(
            "ALTER TABLE t.num ADD COLUMN x INT AUTO_INCREMENT UNIQUE",
            "ALTER TABLE t.part TRUNCATE PARTITION q",
        )
        run.wait_for_crash()
        run = Run(config, tmp_path, crash=crash)
        server.query(
            "ALTER TABLE t.part EXCHANGE PARTITION p WITH TABLE t.other",
            "ALTER TABLE t.gen ADD COLUMN g INT AS (n * 2 + id) STORED",
            "ALTER TABLE t.gen ADD INDEX (g)", "ALTER TABLE t.plain ADD COLUMN y INT",
        )  # fmt: skip
        if crash:
            run.wait_for_crash()
            run = Run(config, tmp_path)
        _until(run, lambda: not _waiting(config), "no table waits")
        time.sleep(1)  # changes come also after the copies
    _all_equal(run, server)


@pytest.mark.soak
def test_statements_while_a_table_is_copied(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """In a first copy; in one that was asked for, and in one that a table waits for."""
    server = make_server()
    config = config_for(server, tmp_path)
    with Changes(server, 2):
        run = Run(config, tmp_path)
        _until(run, lambda: _copy(config), "a plan")
        server.query(
            "ALTER TABLE t.gen ADD COLUMN v INT AS (n + 1) VIRTUAL", "TRUNCATE t.num",
            "ALTER TABLE t.plain ADD COLUMN y INT FIRST", _ROWS.format("num", 0),
        )  # fmt: skip
        _until(run, run.executed, "a first cut")
        _until(run, lambda: not _waiting(config), "no table waits")
        asked = ask(config, ("t.plain", "t.part"))
        _until(run, lambda: (found := _copy(config)) and found.asked == asked, "a plan")
        server.query("ALTER TABLE t.plain DROP COLUMN y", "RENAME TABLE t.part TO t.was")
        server.query("ALTER TABLE t.was RENAME TO t.part, ADD COLUMN z INT DEFAULT 3")
        _until(run, lambda: (found := _copy(config)) and found.shown and found.asked == asked, "it")
        server.query("ALTER TABLE t.num ADD COLUMN x INT AUTO_INCREMENT UNIQUE")
        _until(run, lambda: (found := _copy(config)) and "t.num" in found.bounds, "a plan")
        server.query("ALTER TABLE t.num MODIFY n VARCHAR(20), ADD COLUMN w INT")
        _until(run, lambda: not _waiting(config), "no table waits")
    _all_equal(run, server)


def test_a_table_that_changes_while_it_is_read(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    """It is left unfinished while the other tables are copied, and is then copied again."""
    server = make_server()
    with Changes(server, 1):
        pass
    config, strict = (config_for(server, tmp_path / name) for name in ("lenient", "strict"))
    workers, changes = Workers(spark, config.apply.workers), list[str]()

    def change_first(function: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
        if changes and any(task and task.definition.name == "t.gen" for task in tasks):
            server.query(changes.pop())
        return workers.run(function, tasks)

    def copy(config: Config, change: str, *, lenient: bool) -> None:
        changes.append(change)
        FirstCopy(spark, config, change_first, lambda rows, expected: None, lenient=lenient).copy()

    plan_copy(strict)
    with pytest.raises(SourceError, match="Unknown column 'n'"):
        copy(strict, "ALTER TABLE t.gen CHANGE n m INT", lenient=False)
    plan_copy(config)
    copy(config, "ALTER TABLE t.gen CHANGE m n INT", lenient=True)
    assert not changes
    found = _copy(config)
    assert found is not None and found.unfinished.keys() == {"t.gen"}
    with Running(config, executed_of(config)) as running:
        running.wait_for(server.executed)
    with Replica(spark, config, copies=True) as replica:
        apply_without_stream(replica)
    assert _waiting(config)["t.gen"]["reason"] == "ALTER TABLE while the table was copied"
    check_tables(config, server, [name for name in _TABLES if name != "t.gen"])


def test_a_table_that_goes_while_it_is_asked_for(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Between two questions of a plan, before it is read, and while it is read, there and back."""
    server = make_server()
    with Changes(server, 1):
        pass
    config, changes, true = (
        config_for(server, tmp_path),
        list[str](),
        source_tables.table_definition,
    )
    strict = config_for(server, tmp_path / "strict")

    def first_changed(
        query: source_tables.Query, database: str, table: str, *names: Any
    ) -> SourceTable:
        if changes and table in ("gen", "plain"):
            server.query(changes.pop())
        return true(query, database, table, *names)

    monkeypatch.setattr(source_tables, "table_definition", first_changed)
    changes.append("RENAME TABLE t.gen TO t.was")
    plan = plan_copy(config)
    assert not changes and {"t.was", "t.plain"} <= plan.bounds.keys()
    assert "t.gen" not in plan.bounds
    plan_copy(strict)
    workers, thrown = Workers(spark, config.apply.workers), "RENAME TABLE t.was TO t.gen"

    def away_and_back(function: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
        if tasks and tasks[0] and tasks[0].definition.name == "t.other":
            server.query("RENAME TABLE t.other TO t.off")
            try:
                return workers.run(function, tasks)
            finally:
                server.query("RENAME TABLE t.off TO t.other")
        return workers.run(function, tasks)

    changes += ["ALTER TABLE t.plain RENAME TO t.other_plain", thrown]
    FirstCopy(spark, config, away_and_back, lambda rows, expected: None, lenient=True).copy()
    found = _copy(config)
    assert found is not None and found.unfinished.keys() == {"t.was", "t.other", "t.plain"}
    with pytest.raises(NoTableError, match=r"no table t\.(plain, t\.)?was"):
        FirstCopy(spark, strict, workers.run, lambda rows, expected: None).copy()
    with Running(config, executed_of(config)) as running:
        running.wait_for(server.executed)
    with Replica(spark, config, copies=True) as replica:
        apply_without_stream(replica)
    assert _waiting(config).keys() == {"t.gen", "t.other", "t.other_plain"}
    check_tables(config, server, ["t.num", "t.part"])

"""What a session on a source answers does not depend on how the source's globals are set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_repl.binlog.types.forms import Forms
from spark_repl.config import Config
from spark_repl.copy.copy_chunk import Copied, CopyTask, copy_chunk, copy_rows
from spark_repl.copy.copy_plan import plan_copy
from spark_repl.copy.source_tables import full_name, list_tables, quoted, wheres
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.errors import SourceError
from spark_repl.source import source_settings
from spark_repl.source.connection import DumpConnection, connect
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.tables.target_options import TargetOptions
from tests.support.live.receiving import Running, check_same, config_for
from tests.support.live.server import Server

_HOSTILE: dict[str, str | int] = {
    "autocommit": 0,
    "character_set_client": "latin1",
    "character_set_connection": "latin1",
    "character_set_results": "latin1",
    "collation_connection": "latin1_german2_ci",
    "completion_type": "RELEASE",
    "default_collation_for_utf8mb4": "utf8mb4_general_ci",
    "group_concat_max_len": 4,
    "information_schema_stats_expiry": 31536000,
    "lc_messages": "de_DE",
    "max_execution_time": 1,
    "max_join_size": 1,
    "net_read_timeout": 1,
    "net_write_timeout": 1,
    "show_create_table_verbosity": 1,
    "show_gipk_in_create_table_and_information_schema": 0,
    "sql_big_selects": 0,
    "sql_mode": "ANSI,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,NO_BACKSLASH_ESCAPES,TRADITIONAL",
    "sql_quote_show_create": 0,
    "sql_safe_updates": 1,
    "sql_select_limit": 1,
    "time_zone": "+05:30",
    "transaction_isolation": "READ-UNCOMMITTED",
    "wait_timeout": 2,
}
# Only who may apply events can set this; our texts name their collation.
_NOT_OURS = ("default_collation_for_utf8mb4",)
_TABLES = (
    "CREATE TABLE t.acc (id INT PRIMARY KEY, k CHAR(5), v INT, u VARCHAR(9))",
    "INSERT INTO t.acc VALUES (1, 'ab', 100, 'ñ'), (2, 'c', 200, '日本'), (3, '', NULL, NULL)",
    "CREATE TABLE t.ev (at TIMESTAMP NOT NULL, id INT NOT NULL, PRIMARY KEY (at, id))",
    "INSERT INTO t.ev WITH RECURSIVE n AS (SELECT 0 i UNION ALL SELECT i + 1 FROM n WHERE i < 900)"
    " SELECT TIMESTAMP'2025-10-25 22:00:00' + INTERVAL i MINUTE, i FROM n",
    "CREATE TABLE t.`select` (`key` VARCHAR(40) PRIMARY KEY, `a``b\"c` TEXT)",
    "INSERT INTO t.`select` VALUES ('ü\\\\', 'x'), ('\\'', REPEAT('é', 5000))",
    "SET sql_mode = 'ALLOW_INVALID_DATES'",
    "CREATE TABLE t.days (d DATE PRIMARY KEY, n INT)",
    "INSERT INTO t.days WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n"
    " WHERE i < 300)"
    " SELECT CONCAT('20', LPAD(i DIV 31, 2, 0), '-02-', LPAD(i % 31 + 1, 2, 0)), i FROM n",
    "SET sql_generate_invisible_primary_key = 1",
    "CREATE TABLE t.unkeyed (n INT, s CHAR(3))",
    "INSERT INTO t.unkeyed VALUES (1, 'a'), (1, 'a'), (2, NULL)",
    "SET sql_generate_invisible_primary_key = 0",
    "CREATE TABLE t.bag (n INT, s CHAR(3))",
    "INSERT INTO t.bag VALUES (1, 'a'), (1, 'a'), (2, NULL)",
    "ANALYZE TABLE t.acc, t.ev, t.`select`, t.days, t.unkeyed, t.bag",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(shared_server: Server) -> Server:
    shared_server.query("CREATE DATABASE t", *_TABLES)
    return shared_server


@pytest.fixture
def make_hostile(server: Server) -> Iterator[Callable[[], Any]]:
    """Sets the globals; the session that did it keeps its own, for what is to go on meanwhile."""
    calm = server.connect()
    with calm.cursor() as cursor:
        names = [*_HOSTILE, "init_connect"]
        cursor.execute(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}")
        before = dict(zip(names, cursor.fetchone(), strict=True))

        def make() -> Any:
            for name, value in _HOSTILE.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))
            sets = (
                f"SESSION {name} = {value!r}"
                for name, value in _HOSTILE.items()
                if name not in _NOT_OURS
            )
            # For accounts like the receiver's the server runs this, whatever a client asked for.
            cursor.execute("SET GLOBAL init_connect = %s", (f"SET {', '.join(sets)}; BEGIN",))
            return calm

        yield make
        for name, value in before.items():
            cursor.execute(f"SET GLOBAL {name} = %s", (value,))
    calm.close()


def test_a_copy_is_the_same_under_any_globals(
    server: Server, make_hostile: Callable[[], Any], tmp_path: Path,
    chunk_rows: Callable[[int], None],
) -> None:  # fmt: skip
    chunk_rows(100)
    config = config_for(server, tmp_path / "calm", target__zero_dates="string")
    want = copied(config, tmp_path / "calm-files")
    assert [len(want[name]) for name in sorted(want)] == [3, 3, 300, 901, 2, 3]
    with make_hostile().cursor() as other:
        other.execute("BEGIN")
        other.execute("UPDATE t.acc SET v = 0 WHERE id = 1")
        other.execute("INSERT INTO t.acc VALUES (4, 'x', 1, 'y')")
        config = config_for(server, tmp_path / "hostile", target__zero_dates="string")
        found = copied(config, tmp_path / "hostile-files")
        other.execute("ROLLBACK")
    assert found == want


def copied(config: Config, folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table, in chunks as a copy plans and reads them."""
    plan = plan_copy(config)
    connection = DumpConnection(config.source)
    tables = list_tables(connection.rows)
    connection.close()
    assert {table.definition.name for table in tables} == plan.bounds.keys()
    found = {}
    for table in tables:
        definition = TargetOptions.of(config).forms.apply(table.definition)
        bounds = plan.bounds[definition.name]
        assert len(bounds) > 1 or definition.table not in ("ev", "days")
        place = folder / definition.table
        place.mkdir(parents=True)
        columns = Columns.of(schema_json(definition.arrow_schema()))
        first = quoted(definition.columns[0].name)
        rows: list[tuple[Any, ...]] = []
        for where in wheres(first, bounds):
            task = CopyTask(
                config.source,
                TargetTable.mirror_of(definition),
                columns,
                str(place),
                where,
                Forms("string"),
            )
            in_view = definition.name in plan.views
            rows += read(task, copy_in_view(task) if in_view else copy_chunk(task))
        found[definition.name] = sorted(rows, key=repr)
    return found


def copy_in_view(task: CopyTask) -> Copied:
    lock, view = DumpConnection(task.source), connect(task.source)
    try:
        lock.query(f"LOCK TABLES {full_name(task.definition.source)} READ")
        with view.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        lock.query("UNLOCK TABLES")
        return copy_rows(task, view)
    finally:
        lock.close()
        view.close()


def read(task: CopyTask, found: Copied) -> list[tuple[Any, ...]]:
    parts = [pq.read_table(f"{task.folder}/{add['path']}") for add in found.adds]
    return [tuple(row.values()) for part in parts for row in part.to_pylist()]


def test_the_log_is_received_under_any_globals(
    server: Server, make_hostile: Callable[[], Any], tmp_path: Path
) -> None:
    config = config_for(server, tmp_path)
    calm = make_hostile()
    with calm.cursor() as cursor, Running(config) as running:
        running.wait_until_connected()
        for number in range(50):
            cursor.execute(f"INSERT INTO t.acc VALUES ({number + 10}, 'x', {number}, 'é')")
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        running.wait_for(cursor.fetchone()[0])
    check_same(config, server, tmp_path)


def test_every_session_is_set_whatever_the_globals_say(
    server: Server, make_hostile: Callable[[], Any], tmp_path: Path
) -> None:
    config = config_for(server, tmp_path)
    names = [name for name in _HOSTILE if name not in _NOT_OURS]

    def asked() -> Any:
        connection = connect(config.source)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(f'@@SESSION.{name}' for name in names)}")
            found = dict(zip(names, cursor.fetchone(), strict=True))
        connection.close()
        return found

    calm = asked()
    make_hostile()
    hostile = asked()
    assert hostile == calm


def test_what_a_server_does_not_know_is_left_out(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an older one, or one to come: the variables of 5.6 are as unknown here as ours there."""
    gone = {"tx_read_only": "1", "sql_auto_is_null": "1", "query_cache_type": "0"}
    monkeypatch.setattr(
        source_settings, "SESSION", {"tx_isolation": "'x'", **source_settings.SESSION, **gone}
    )
    connection = connect(config_for(server, tmp_path).source)
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.sql_auto_is_null, @@SESSION.sql_mode")
        assert cursor.fetchone() == (1, "ALLOW_INVALID_DATES")
    connection.close()


def test_a_session_can_not_write(server: Server, tmp_path: Path) -> None:
    config = config_for(server, tmp_path).override({"source.user": "app", "source.password": "app"})
    connection = DumpConnection(config.source)
    with pytest.raises(SourceError, match="READ ONLY"):
        connection.query("DELETE FROM t.acc")
    connection.close()

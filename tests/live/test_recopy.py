"""Tables that are copied again, and copies while XA branches are prepared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_repl import Replica, cut
from spark_repl.apply.start.replica import Parts
from spark_repl.config import Config
from spark_repl.control.records.copies import standing
from spark_repl.control.table.control import Control
from spark_repl.copy.recopy import Recopier, ask_and_wait
from spark_repl.errors import RowError, SourceError, TargetError
from spark_repl.observe.reports.applier_status import ApplierStatus
from spark_repl.service.receiving import executed_of
from spark_repl.service.snapshot_run import snapshot
from tests.support.live.receiving import Running, config_for
from tests.support.live.server import Load, Server
from tests.support.local_delta import apply_without_stream
from tests.support.wait_until import wait_until

from .test_copy import _catch_up, _copy, _rows
from .test_run import check_tables, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_copied_again_while_others_go_on(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    chunk_rows: Callable[[int], None],
) -> None:  # fmt: skip
    """Also an XA branch that is prepared before and committed during the copy."""
    chunk_rows(200)
    server = make_server()
    plain = config_for(server, tmp_path).to_mapping()
    config = Config.from_mapping({**plain, "tables": [{"match": "t.bag", "to": "lake.sack"}]})
    with Load(server, 1):
        server.query(
            "CREATE TABLE t.bag (n INT, s VARCHAR(20))", "INSERT INTO t.bag VALUES (1, 'x')"
        )
        wait_until(lambda: server.query("SELECT COUNT(*) FROM t.a")[0][0] > 60, each_s=0.1)
    _copy(spark, config)
    _catch_up(spark, config, server.executed)
    xid = "X'61',X'',1"
    server.query(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", f"XA START {xid}",
        "INSERT INTO t.a VALUES (1000001, 7, 'branch')", f"XA END {xid}", f"XA PREPARE {xid}",
    )  # fmt: skip
    seen = list[tuple[int, int, int]]()

    class Told(ApplierStatus):
        def copies(self, tables: Sequence[str], *counts: int) -> None:
            seen.append((len(tables), *counts))
            super().copies(tables, *counts)

    parts = Parts(status=Told)
    with (
        Running(config, executed_of(config)) as receiving,
        Replica(spark, config, parts=parts) as replica,
    ):
        applying = threading.Thread(target=replica.apply, kwargs={"follow": True})
        applying.start()
        with Load(server, 1, seed=3), Recopier(spark, config, replica):
            committing = threading.Timer(2, server.query, [f"XA COMMIT {xid}"])
            committing.start()
            # One that is without a key can only be copied while no branch has its lock.
            found = ask_and_wait(config, ("t.a", "lake.sack"))
            with pytest.raises(Exception, match=r"no table t\.none"):
                ask_and_wait(config, ("t.none",))
            committing.join()
        assert found.rows > 50
        assert seen[-1] == (0, 0, 0) and max(rows for _, rows, _ in seen) == found.rows
        assert all(rows <= expected for _, rows, expected in seen)
        receiving.wait_for(server.executed)
        wait_until(lambda: str(replica.coordinator.mark.executed) == server.executed, each_s=0.1)
        replica.stop()
        applying.join()
    assert _paths(config) == {"t.a": "t/a@2", "t.b": "t/b", "lake.sack": "lake/sack@2"}
    check_tables(config, server, ["t.a", "t.b"])
    assert _rows(config, "lake.sack") == sorted(server.query("SELECT * FROM t.bag"))
    assert (1000001, 7, "branch") in rows_of(server, "t.a")


def _followed(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> tuple[Server, Config]:
    """A server with some rows, copied and followed to its end."""
    server = make_server()
    config = config_for(server, tmp_path)
    with Load(server, 1) as load:
        load.wait_for(20)
    server.query("INSERT INTO t.b (v) VALUES ('0')")
    _copy(spark, config)
    _catch_up(spark, config, server.executed)
    return server, config


def test_a_copy_mends_what_stopped_the_applier(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    server, config = _followed(make_server, spark, tmp_path)
    # A row that the log does not bring.
    server.query(["SET sql_log_bin = 0", "INSERT INTO t.a VALUES (2000001, 1, 'x')"][0],
                 "INSERT INTO t.a VALUES (2000001, 1, 'x')")  # fmt: skip
    server.query("UPDATE t.a SET n = 2 WHERE id = 2000001", "INSERT INTO t.b (v) VALUES ('3')")
    with pytest.raises(RowError, match="Can't find record"):
        _catch_up(spark, config, server.executed)
    found = snapshot(config, ("t.a",))
    assert found.tables == 1
    server.query("UPDATE t.a SET n = 3 WHERE id = 2000001")
    _catch_up(spark, config, server.executed)
    check_tables(config, server, ["t.a", "t.b"])
    # An idle source: the copy is in a cut as soon as the applier has started.
    server.query("SELECT 1")
    snapshot(config, ("t.b",))
    with Replica(spark, config) as replica:
        apply_without_stream(replica)
    check_tables(config, server, ["t.a", "t.b"])
    with pytest.raises(SourceError, match=r"no table t\.none"):
        snapshot(config, ("t.none",))


@pytest.mark.soak
def test_a_new_copy_repairs_foreign_changes(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    """The way out that the error names, where rows of a target table were changed by others."""
    server, config = _followed(make_server, spark, tmp_path)
    folder = Path(config.target.path) / "t" / "b"
    spark.sql(f"DELETE FROM delta.`{folder}`").collect()
    server.query("INSERT INTO t.b (v) VALUES ('1')")
    with pytest.raises(TargetError, match="is a DELETE") as error:
        _catch_up(spark, config, server.executed)
    assert "spark-repl snapshot --config F --table t.b;" in (error.value.hint or "")
    assert snapshot(config, ("t.b",)).tables == 1
    server.query("INSERT INTO t.b (v) VALUES ('2')")
    _catch_up(spark, config, server.executed)
    check_tables(config, server, ["t.a", "t.b"])


@pytest.mark.soak
def test_branches_that_are_prepared_when_the_copy_begins(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    server = make_server()
    config = config_for(server, tmp_path)
    server.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY, n INT, v TEXT)")
    server.query("INSERT INTO t.a VALUES (1, 1, 'a'), (2, 1, 'b')", "FLUSH BINARY LOGS")
    for number, compress in ((1, "ON"), (2, "OFF"), (3, "OFF"), (4, "OFF")):
        _prepare(server, number, compress)
        server.query(f"INSERT INTO t.a VALUES ({100 + number}, 1, 'z')", "FLUSH BINARY LOGS")
    server.query("XA COMMIT X'04',X'ff',4", "DELETE FROM t.a WHERE id = 2")
    _copy(spark, config)
    server.query(
        "XA COMMIT X'01',X'ff',1", "XA ROLLBACK X'02',X'ff',2", "DELETE FROM t.a WHERE id = 1"
    )
    _catch_up(spark, config, server.executed)
    check_tables(config, server, ["t.a"])
    server.query("XA COMMIT X'03',X'ff',3")
    _catch_up(spark, config, server.executed)
    check_tables(config, server, ["t.a"])
    assert [row[0] for row in rows_of(server, "t.a")] == [11, 13, 14, 101, 102, 103, 104]


def _prepare(server: Server, number: int, compress: str) -> None:
    xid = f"X'{number:02x}',X'ff',{number}"
    server.query(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        f"SET binlog_transaction_compression = {compress}", f"XA START {xid}",
        f"INSERT INTO t.a VALUES ({10 + number}, 1, REPEAT('x', 500))", f"XA END {xid}",
        f"XA PREPARE {xid}",
    )  # fmt: skip


def test_a_purged_branch_is_named(make_server: Callable[..., Server], tmp_path: Path) -> None:
    from spark_repl.copy.copy_plan import plan_copy

    server = make_server()
    server.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY, n INT, v TEXT)")
    _prepare(server, 7, "OFF")
    server.query("FLUSH BINARY LOGS")
    last = server.query("SHOW BINARY LOGS")[-1][0]
    server.query(f"PURGE BINARY LOGS TO '{last}'")
    with pytest.raises(SourceError, match="X'07',X'ff',7") as caught:
        plan_copy(config_for(server, tmp_path))
    assert "XA ROLLBACK" in str(caught.value.hint)


@pytest.mark.parametrize("image", ["MINIMAL", pytest.param("NOBLOB", marks=pytest.mark.soak)])
def test_a_copys_definitions_complete_a_minimal_log(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path, image: str
) -> None:
    """The definitions of the copy, defaults too, stand in for what the log leaves out."""
    server = make_server(
        f"--binlog-row-image={image}", "--binlog-row-metadata=MINIMAL",
        "--binlog-row-value-options=PARTIAL_JSON",
    )  # fmt: skip
    config = config_for(server, tmp_path)
    server.query(
        "CREATE DATABASE t",
        "CREATE TABLE t.a (id INT PRIMARY KEY, n INT UNSIGNED NOT NULL DEFAULT 7, v TEXT,"
        " d VARCHAR(9) DEFAULT 'none', e ENUM('x','y') DEFAULT 'y')",
        "CREATE TABLE t.j (id INT PRIMARY KEY, v JSON)",
        "INSERT INTO t.a (id, v) VALUES (1, 'a'), (2, 'b'), (3, NULL)",
        """INSERT INTO t.j VALUES (1, '{"k": 1, "l": "long"}'), (2, '{"k": 2}')""",
    )
    stop = threading.Event()
    changing = threading.Thread(target=_change, args=(server, stop))
    changing.start()
    _copy(spark, config)
    time.sleep(0.5)  # tables change also after the copy
    stop.set()
    changing.join()
    server.query("INSERT INTO t.a (id) VALUES (900001)", "UPDATE t.a SET id = 0 WHERE id = 900001")
    _catch_up(spark, config, server.executed)
    for table in ("t.a", "t.j"):
        assert _rows(config, table) == rows_of(server, table)


def _change(server: Server, stop: threading.Event) -> None:
    number = 10
    while not stop.is_set():
        number += 1
        server.query(
            f"INSERT INTO t.a (id, v) VALUES ({number}, 'n')",
            f"UPDATE t.a SET n = n + 1 WHERE id IN (1, 2, {number - 3})",
            f"UPDATE t.a SET id = id + 100000 WHERE id = {number - 5}",
            f"UPDATE t.j SET v = JSON_SET(v, '$.k', {number})",
        )
        stop.wait(0.02)


@pytest.mark.slow
def test_a_purged_log_has_tables_copied_again(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    """``on_purged = "snapshot"``: what the source has dropped meanwhile is gone here, too."""
    from .test_run import Run

    server = make_server()
    config = config_for(server, tmp_path, on_purged="snapshot")
    with Load(server, 1):
        server.query("CREATE TABLE t.gone (id INT PRIMARY KEY)", "INSERT INTO t.gone VALUES (1)")
    _copy(spark, config)
    _catch_up(spark, config, server.executed)
    check_tables(config, server, ["t.a", "t.b", "t.gone"])
    with Load(server, 1, seed=5):
        server.query("DROP TABLE t.gone", "CREATE TABLE t.new (id INT PRIMARY KEY, n INT)")
        server.query("INSERT INTO t.new VALUES (1, 1)")
    server.query("FLUSH BINARY LOGS")
    server.query(f"PURGE BINARY LOGS TO '{server.query('SHOW BINARY LOGS')[-1][0]}'")
    run = Run(config, tmp_path)
    with Load(server, 1, seed=6):
        time.sleep(3)  # tables change during the copy
    run.wait_for(server.executed)
    run.interrupt()
    check_tables(config, server, ["t.a", "t.b", "t.new"])
    assert "t.gone" not in cut(spark, config.target.path).tables


def _paths(config: Config) -> dict[str, str]:
    now = standing(Control.existing(config.target.path)).cut
    assert now is not None
    return {name: version.path for name, version in now.tables.items()}

"""The first copy under load: every table ends as the source's, with and without a key."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from spark_repl import Replica, cut, history_at
from spark_repl.config import Config
from spark_repl.control.records.copies import standing
from spark_repl.control.table.control import Control
from spark_repl.copy.copy_chunk import copy_chunk
from spark_repl.copy.copy_plan import plan_copy
from spark_repl.copy.first_copy import FirstCopy
from spark_repl.errors import ConfigError, SourceError, SparkReplError, Stopped
from spark_repl.relay.log import open_log
from spark_repl.runtime.workers import Workers
from spark_repl.service.receiving import executed_of
from tests.spark.lab import frames_of, needs_delta
from tests.support.live.receiving import Running, config_for
from tests.support.live.server import Load, Server
from tests.support.local_delta import apply_without_stream
from tests.support.wait_until import wait_until

from .test_run import check_tables, rows_in_cut, rows_of

_TYPES = """CREATE TABLE t.{} (id BIGINT UNSIGNED PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED,
    c MEDIUMINT, d INT UNSIGNED, e DECIMAL(20,5), f FLOAT, g DOUBLE, h BIT(1), i BIT(12), j CHAR(8),
    k VARCHAR(40) CHARACTER SET latin1, l TEXT, m BINARY(6), n VARBINARY(9), o BLOB, p DATE,
    q DATETIME(6), r TIMESTAMP(3) NULL, s TIME(2), u YEAR, v ENUM('x','y'), w SET('p','q','r'),
    x JSON, y POINT SRID 4326, z DECIMAL(50,3), zz VECTOR(3))"""
_VALUES = """({}, -7, 65535, -8388608, 4294967295, -123456789.01234, 0.1, 1e-300, b'1', b'101',
    'é ', 'ñandú', REPEAT('ß', 300), 'ab', X'00FF', X'FEFD00', '2024-02-29',
    '1999-12-31 23:59:59.999999', '2024-05-05 05:05:05.125', '-101:02:03.45', 2155, 'y', 'p,r',
    '{{"k": [1, 2.5, "é"]}}',
    ST_GeomFromText('POINT(10 20)', 4326), 12345678901234567890123456789012345678901234.125,
    STRING_TO_VECTOR('[1,2.5,-3]'))"""
_FILTERED = {"t.bag": "n < 4", "t.words": "CHAR_LENGTH(w) > 3"}
_NAMED = {"t.bag": "lake.bag", "t.words": "t.w"}
"""their names in the target"""
_POOR = ("blind", "reader")
_NULLS = "({}" + ", NULL" * 26 + ")"


def _copy(spark: SparkSession, config: Config) -> Any:
    plan_copy(config)
    workers = Workers(spark, config.apply.workers)
    return FirstCopy(spark, config, workers.run, lambda rows, expected: None).copy()


def _catch_up(spark: SparkSession, config: Config, executed: str) -> None:
    with Running(config, executed_of(config)) as running:
        running.wait_for(executed)
    with Replica(spark, config) as replica:
        apply_without_stream(replica)


def _rows(config: Config, table: str) -> list[tuple[Any, ...]]:
    return sorted(rows_in_cut(config, table))


def test_a_copy_under_load_ends_as_the_source(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    chunk_rows: Callable[[int], None],
) -> None:  # fmt: skip
    chunk_rows(400)
    server = make_server()
    plain = config_for(server, tmp_path, target__partition_by=["lake.bag(n)"])
    rules: list[dict[str, Any]] = [
        {"match": name, "row_filter": text, "to": _NAMED[name]} for name, text in _FILTERED.items()
    ]
    rules[1]["extra_columns"] = ["gtid", "operation", "deleted"]
    rules.append({"match": "t.app", "mode": "append", "extra_columns": ["operation"]})
    rules.append({"match": "t.past", "mode": "history"})
    config = Config.from_mapping({**plain.to_mapping(), "tables": rules})
    with Load(server, 1):
        server.query(
            "CREATE TABLE t.bag (n INT, s VARCHAR(20))",
            "CREATE TABLE t.words (w VARCHAR(40), n INT, PRIMARY KEY (w, n))",
            "CREATE TABLE t.app (id INT PRIMARY KEY AUTO_INCREMENT)",
            "CREATE TABLE t.past (id INT PRIMARY KEY AUTO_INCREMENT, v INT DEFAULT 0)",
            "INSERT INTO t.words WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r"
            " WHERE i < 900) SELECT CONCAT('é', i * 7919 % 1000), i FROM r",
        )
        with _changing(server) as wait_for_changes:
            wait_for_changes()
            found = _copy(spark, config)
            wait_for_changes()
    assert found.rows > 850 and found.tables == 6, "t.words, and rows of the others"
    assert found.start != found.until
    _catch_up(spark, config, server.executed)
    now = standing(Control.existing(config.target.path)).cut
    assert now is not None and now.gtid_executed == server.executed
    tables = frames_of(spark, Path(config.target.path), now)
    check_tables(config, server, ["t.a", "t.b"])
    for table, passing in _FILTERED.items():
        have = [tuple(row) for row in tables[_NAMED[table]].collect()]
        there = sorted(row[:2] for row in have if row[-1] is not True)
        assert there == sorted(server.query(f"SELECT * FROM {table} WHERE {passing}"))
    told = {(row[3], row[4]) for row in have}
    assert told >= {("COPY", False), ("UPDATE", False), ("UPDATE", True)}, "words' keys move"
    assert {row[2] for row in have if row[3] == "COPY"} == {str(found.start)}
    assert all(row[2].count(":") == 1 for row in have)
    kept = sorted(tuple(row) for row in tables["t.app"].collect())
    copied = [row[0] for row in kept if row[1] == "COPY"]
    assert [row[0] for row in kept] == [*range(copied[0], kept[-1][0] + 1)], "each once"
    assert kept[-1][0] == server.query("SELECT MAX(id) FROM t.app")[0][0] > copied[-1] + 5
    _check_versions(tables["t.past"], server.query("SELECT * FROM t.past"))


def _check_versions(past: Any, there: Sequence[tuple[Any, ...]]) -> None:
    """Each row began with v = 0, or the copy's, and each of its versions has one more."""
    versions: dict[int, list[Any]] = {}
    for row in past.orderBy("id", "v").collect():
        versions.setdefault(row.id, []).append(row)
    copied = [rows[0] for rows in versions.values() if rows[0]._valid_from_position is None]
    assert copied and len(copied) < len(versions)
    for rows in versions.values():
        assert [row.v for row in rows] == [rows[0].v + n for n in range(len(rows))]
        assert rows[0].v == 0 or rows[0] in copied
        for row, after in itertools.pairwise(rows):
            assert row._valid_to_gtid == after._valid_from_gtid
    assert sorted(rows[-1][:2] for rows in versions.values() if rows[-1]._current) == sorted(there)
    first = history_at(past, gtid_executed=copied[0]._valid_from_gtid)
    assert sorted(map(tuple, first.collect())) == sorted(row[:2] for row in copied)
    with pytest.raises(ConfigError, match="the table was copied behind"):
        history_at(past, gtid_executed=copied[0]._valid_from_gtid.replace(":1-", ":2-"))


@contextmanager
def _changing(server: Server) -> Iterator[Callable[[], None]]:
    """Change tables until the block ends. Yield a function that waits for more changes of each
    table."""
    stop = threading.Event()
    thread = threading.Thread(target=_change, args=(server, stop))
    thread.start()

    def rounds() -> int:
        return server.query("SELECT IFNULL(MAX(id), 0) FROM t.app")[0][0]

    def wait_for_changes() -> None:
        last = rounds() + 15
        wait_until(lambda: rounds() >= last, each_s=0.05)

    try:
        yield wait_for_changes
    finally:
        stop.set()
        thread.join()


def _change(server: Server, stop: threading.Event) -> None:
    """A bag, and keys that move from chunk to chunk."""
    number = 0
    while not stop.is_set():
        number += 1
        server.query(
            f"INSERT INTO t.bag VALUES ({number % 5}, 'x'), ({number % 5}, 'x'), (9, NULL)",
            f"DELETE FROM t.bag WHERE n = {(number + 2) % 5} LIMIT 1",
            f"UPDATE t.words SET w = CONCAT('É', {number * 31 % 1000}) WHERE n = {number % 900}",
            "INSERT INTO t.app VALUES ()",
            f"DELETE FROM t.app WHERE id < {number - 5}",
            "INSERT INTO t.past VALUES ()",
            f"UPDATE t.past SET v = v + 1 WHERE id % 3 = {number % 3}",
            f"DELETE FROM t.past WHERE id = {number - 9}",
        )
        with suppress(pymysql.err.OperationalError):  # a deadlock with the load
            server.query(f"UPDATE IGNORE t.a SET id = id + 100000 WHERE id = {number % 200 * 8}")
        stop.wait(0.02)


@needs_delta
@pytest.mark.parametrize(
    "kept",
    [
        {"target__zero_dates": "string", "target__time_as": "microseconds",
         "target__geometry_as": "binary", "target__json_as": "variant"},
        pytest.param({}, marks=pytest.mark.soak),
    ],
)  # fmt: skip
def test_copied_values_are_as_decoded_ones(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path, kept: dict[str, str]
) -> None:
    """The same rows once by the copy and once by the log; with dates of 0 where text keeps them."""
    server = make_server("--sql-mode=")
    config = config_for(server, tmp_path, **kept)
    values = ", ".join([*(_VALUES.format(i) for i in (1, 2**64 - 1)), _NULLS.format(3)])
    if kept:
        values = values.replace("2024-02-29", "0000-00-00").replace("1999-12-31", "1999-00-31")
    server.query("CREATE DATABASE t", _TYPES.format("one"), f"INSERT INTO t.one VALUES {values}")
    found = _copy(spark, config)
    assert (found.rows, found.start) == (3, found.until)
    _catch_up(spark, config, server.executed)
    # A cut is there though nothing had to be applied.
    assert cut(spark, config.target.path).table("t.one").count() == 3
    server.query(_TYPES.format("two"), f"INSERT INTO t.two VALUES {values}")
    _catch_up(spark, config, server.executed)
    one, two = (cut(spark, config.target.path).table(f"t.{name}") for name in ("one", "two"))
    assert one.schema == two.schema
    have, want = (frame.orderBy("id").collect() for frame in (one, two))
    assert repr(have) == repr(want)  # a VariantVal is equal to itself alone
    assert open_log(config.relay.path).previous_gtids()


def test_zeros_and_keys_that_have_two_forms(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    """A zero keeps its sign, and a double all its bits, which DOUBLE(M,D) does not show; a key in a
    form that the target can't tell apart is refused."""
    server = make_server()
    server.query(
        "CREATE DATABASE t",
        "CREATE TABLE t.z (k CHAR(9) CHARACTER SET cp932 PRIMARY KEY, f FLOAT, d DOUBLE,"
        " m DOUBLE(10,2))",
        "INSERT INTO t.z VALUES (X'81E0', -0e0, -0e0, 0.5), ('a', 0e0, 0.1, -0.17)",
    )
    config = config_for(server, tmp_path / "fine")
    _copy(spark, config)
    _catch_up(spark, config, server.executed)
    assert repr(_rows(config, "t.z")) == (
        "[('a', 0.0, 0.1, -0.17000000000000004), ('≒', -0.0, -0.0, 0.5)]"
    )
    server.query("INSERT INTO t.z VALUES ('b', 0e0, 0.1, -0.17)")
    _catch_up(spark, config, server.executed)
    by_copy, by_log, _ = _rows(config, "t.z")
    assert by_copy[1:] == by_log[1:]
    server.query("INSERT INTO t.z VALUES (X'8790', 1, 1, 1)")
    with pytest.raises(SparkReplError, match="form, 8790, that cp932 has twice") as caught:
        _copy(spark, config_for(server, tmp_path / "twice"))
    assert caught.value.table == "t.z"


def test_what_the_account_may_not_do_is_said_first(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """Tables that it doesn't see would be empty in the target, and be taken for complete."""
    server = make_server()
    server.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY)")
    accounts = {name: {"source__user": name, "source__password": name} for name in _POOR}
    blind, reader = (config_for(server, tmp_path / n, **a) for n, a in accounts.items())
    with pytest.raises(SourceError, match="may not read all tables"):
        plan_copy(blind)
    plan_copy(reader)
    server.query("CREATE TABLE t.bag (n INT)")
    reader = config_for(server, tmp_path / "again", **accounts["reader"])
    with pytest.raises(SourceError, match="may not lock the table") as caught:
        plan_copy(reader)
    assert caught.value.table == "t.bag"


def test_rules_that_the_tables_have_no_room_for_are_said_first(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """All of them, and nothing is in the target."""
    server = make_server()
    server.query(
        "CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY, s VARCHAR(9))",
        "CREATE TABLE t.b (s VARCHAR(9) PRIMARY KEY)",
    )  # fmt: skip
    rules = [
        {"match": "t.a", "mask": {"name": "null"}}, {"match": "t.b", "mask": {"s": "null"}},
    ]  # fmt: skip
    config = config_for(server, tmp_path).override({"tables": rules})
    with pytest.raises(ConfigError) as caught:
        plan_copy(config)
    assert [fault.partition(":")[0] for fault in caught.value.faults] == ["t.a", "t.b"]
    assert not (tmp_path / "lake").exists()


def test_killed_copy_goes_on(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    chunk_rows: Callable[[int], None],
) -> None:  # fmt: skip
    chunk_rows(100)
    server = make_server()
    config = config_for(server, tmp_path)
    server.query(
        "CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY, n INT, v VARCHAR(400))",
        "INSERT INTO t.a WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE"
        " i < 1000) SELECT i, i, 'x' FROM r",
    )  # fmt: skip
    plan_copy(config)
    runs = list[int]()

    def run(function: Any, tasks: list[Any]) -> list[Any]:
        if function is copy_chunk:
            runs.append(len(tasks))
            if len(runs) == 2:
                raise SourceError("killed")
        return [function(task) for task in tasks]

    landed = [0]
    with pytest.raises(SourceError, match="killed"):
        FirstCopy(spark, config, run, lambda rows, expected: landed.append(rows)).copy()
    server.query("UPDATE t.a SET v = 'y' WHERE id < 500", "DELETE FROM t.a WHERE id > 900")
    found = FirstCopy(spark, config, run, lambda rows, expected: None).copy()
    assert landed[-1]
    assert found.rows == 900 - landed[-1]
    _catch_up(spark, config, server.executed)
    with Replica(spark, config) as replica:  # keys of new rows need no look-up any more
        assert replica.tracking.tables["t.a"].complete
    assert _rows(config, "t.a") == rows_of(server, "t.a")


def test_stopped_copy_goes_on(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    chunk_rows: Callable[[int], None],
) -> None:  # fmt: skip
    """Between two chunks, not at the end of a table of millions of rows."""
    chunk_rows(100)
    server = make_server()
    config = config_for(server, tmp_path)
    server.query("CREATE DATABASE t")
    for name in ("a", "b"):
        server.query(
            f"CREATE TABLE t.{name} (id INT PRIMARY KEY)",
            f"INSERT INTO t.{name} WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r"
            " WHERE i < 1000) SELECT i FROM r",
        )
    plan_copy(config)
    stop, runs = threading.Event(), list[int]()

    def run(function: Any, tasks: list[Any]) -> list[Any]:
        if function is copy_chunk:
            runs.append(len(tasks))
            stop.set()
        return [function(task) for task in tasks]

    landed = [0]
    with pytest.raises(Stopped):
        FirstCopy(spark, config, run, lambda rows, expected: landed.append(rows), stop=stop).copy()
    assert len(runs) <= 2
    found = FirstCopy(spark, config, run, lambda rows, expected: None).copy()
    assert 0 < found.rows == 2000 - landed[-1]
    _catch_up(spark, config, server.executed)
    for name in ("a", "b"):
        assert _rows(config, f"t.{name}") == rows_of(server, f"t.{name}")


def test_chunks_are_copied_in_this_process_while_spark_starts(
    make_server: Callable[..., Server], tmp_path: Path, chunk_rows: Callable[[int], None]
) -> None:
    """Until the workers have loaded their modules; then they copy the rest."""
    chunk_rows(100)
    server = make_server()
    config = config_for(server, tmp_path)
    server.query(
        "CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t.a WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE"
        " i < 1000) SELECT i, 'x' FROM r",
    )  # fmt: skip
    plan_copy(config)
    has_rows, is_loaded, rows_on_workers = threading.Event(), threading.Event(), list[int]()

    def run(function: Any, tasks: list[Any]) -> list[Any]:
        if function is not copy_chunk:
            assert has_rows.wait(60)  # the session is built
            is_loaded.set()
            return [None] * len(tasks)
        results = [function(task) for task in tasks]
        rows_on_workers.append(sum(copied.rows for copied in results))
        return results

    def report(rows: int, expected: int) -> None:
        has_rows.set()
        assert is_loaded.wait(60)

    found = FirstCopy(Future(), config, run, report).copy()
    assert found.rows == 1000
    assert 0 < sum(rows_on_workers) < 1000


def test_a_copy_ends_before_spark_has_started(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server()
    config = config_for(server, tmp_path)
    server.query(
        "CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY)", "INSERT INTO t.a VALUES (1)"
    )
    plan_copy(config)
    session = Future[SparkSession]()
    try:
        run = Workers(session, config.apply.workers).run
        assert FirstCopy(session, config, run, lambda rows, expected: None).copy().rows == 1
    finally:
        session.set_exception(Stopped())

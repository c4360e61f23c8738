"""What doesn't fit stops the applier: rows and statements, with the prefix before them landed."""

from __future__ import annotations

import pytest

import spark_repl
from spark_repl import history_at
from spark_repl.errors import (
    ConfigError,
    RowError,
    SetupError,
    SparkReplError,
)
from spark_repl.position import RelayPosition
from spark_repl.runtime.spark_session import check_store
from tests.spark.lab import (
    assert_applied_once,
    assert_rows,
    cuts,
    run,
    stopped,
)
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
TEXT = Table("text", (("k", "varchar(80)"), ("v", "varchar(20)")))


# Rows that don't fit.


@pytest.mark.parametrize("bound", [100, pytest.param(1, marks=pytest.mark.soak)])
def test_missing_row_stops_behind_the_prefix(spark, log, target, bound):
    log.transaction(insert(A, (1, "a"), (2, "a")))
    log.transaction(insert(A, (3, "a")))
    log.transaction(insert(A, (4, "no")), delete(A, (77, "gone")))
    log.transaction(insert(A, (5, "later")))
    error = stopped(spark, log.folder, target, group_max_transactions=bound)
    file, start, _ = log.spans[4]
    assert isinstance(error, RowError)
    assert (error.number, error.table, error.gtid) == (1032, "t.a", log.gtid(4))
    assert error.file == str(log.folder / file)
    assert RelayPosition.parse(error.position).offset == start
    assert "77" in error.message
    # All before it has landed, nothing of it or behind it; the cut says so.
    assert_rows(spark, target, A, [(1, "a"), (2, "a"), (3, "a")])
    assert cuts(target)[-1].gtid_executed == f"{log.source}:1-4"
    reader = spark_repl.cut(spark, str(target))
    assert reader.table("t.a").count() == 3
    # Mended as MySQL's manual says (skip such rows), it goes on.
    run(spark, log.folder, target, exec_mode="idempotent")
    assert_rows(spark, target, A, [(1, "a"), (2, "a"), (3, "a"), (4, "no"), (5, "later")])
    assert_applied_once(target)


def test_a_duplicate_key_in_a_complete_table_stops(spark, log, target):
    """Looked up as soon as a group holds more than INSERTs (those alone can't collide there)."""
    log.transaction(insert(A, (1, "a"), (2, "b")))
    run(spark, log.folder, target)
    log.transaction(update(A, ((2, "b"), (2, "c"))))
    log.transaction(insert(A, (1, "again")))
    _assert_duplicate(stopped(spark, log.folder, target), log, 4)


def _assert_duplicate(error: SparkReplError, log: LogWriter, ordinal: int) -> None:
    assert isinstance(error, RowError)
    assert (error.number, error.table, error.gtid) == (1062, "t.a", log.gtid(ordinal))
    assert RelayPosition.parse(error.position).offset == log.spans[ordinal][1]


# Statements.


def test_s3_without_its_jars_is_named(spark):
    with pytest.raises(SetupError, match="not on its class path") as found:
        check_store(spark)
    assert "setup --s3" in found.value.hint


def test_a_gtid_set_does_not_tell_what_anonymous_transactions_did(spark):
    gtid = "11111111-2222-3333-4444-555555555555:1"
    schema = "id INT, _valid_from_gtid STRING, _valid_from_position BIGINT,"
    schema += " _valid_to_gtid STRING, _valid_to_position BIGINT"
    known, of_none = (1, gtid, 50, None, None), (2, None, 60, None, None)
    assert history_at(spark.createDataFrame([known], schema), gtid_executed=gtid).count() == 1
    table = spark.createDataFrame([known, of_none], schema)
    with pytest.raises(ConfigError, match="versions of anonymous transactions") as raised:
        history_at(table, gtid_executed=gtid)
    assert "position or time" in raised.value.hint
    assert history_at(table, position=60).count() == 2

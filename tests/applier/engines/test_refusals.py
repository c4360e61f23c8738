"""What doesn't fit stops the applier: rows and statements, with the prefix before them landed."""

from __future__ import annotations

import pytest

from spark_repl.errors import (
    LogError,
    RowError,
    SchemaError,
    SparkReplError,
    StatementError,
)
from spark_repl.position import RelayPosition
from tests.spark.lab import (
    assert_rows,
    run,
    stopped,
)
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
TEXT = Table("text", (("k", "varchar(80)"), ("v", "varchar(20)")))


# Rows that don't fit.


def test_damage_in_the_log_stops_behind_the_prefix(engine, log, target):
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(A, (2, "a")))
    file, at, _ = log.spans[-1]
    whole = (log.folder / file).read_bytes()
    (log.folder / file).write_bytes(whole[: at + 4] + bytes([99]) + whole[at + 5 :])
    error = stopped(engine, log.folder, target)
    assert isinstance(error, LogError) and "event type 99 is unknown" in error.message
    assert (error.file, error.position) == (file, str(at)) and error.hint
    assert_rows(engine, target, A, [(1, "a")])
    (log.folder / file).write_bytes(whole)
    run(engine, log.folder, target)
    assert_rows(engine, target, A, [(1, "a"), (2, "a")])


def test_a_duplicate_key_in_one_group_stops(engine, log, target):
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(A, (2, "a")))
    log.transaction(insert(A, (1, "again")))
    _assert_duplicate(stopped(engine, log.folder, target), log, 4)
    assert_rows(engine, target, A, [(1, "a"), (2, "a")])


def test_a_duplicate_key_in_an_incomplete_table_stops(engine, target, tmp_path):
    log = LogWriter(tmp_path / "log")  # the log does not create the table
    log.transaction(insert(A, (1, "a")))
    run(engine, log.folder, target)
    log.transaction(insert(A, (2, "a")))
    log.transaction(insert(A, (1, "again")))
    _assert_duplicate(stopped(engine, log.folder, target), log, 2)
    assert_rows(engine, target, A, [(1, "a"), (2, "a")])


def _assert_duplicate(error: SparkReplError, log: LogWriter, ordinal: int) -> None:
    assert isinstance(error, RowError)
    assert (error.number, error.table, error.gtid) == (1062, "t.a", log.gtid(ordinal))
    assert RelayPosition.parse(error.position).offset == log.spans[ordinal][1]


def test_idempotent_mode_overwrites_and_passes_over_rows_that_do_not_fit(engine, log, target):
    # Scenario 64: missing rows and duplicate keys are passed over and overwritten.
    log.transaction(insert(A, (1, "a"), (2, "a")))
    run(engine, log.folder, target)
    log.transaction(insert(A, (1, "over")))  # there already: overwritten
    log.transaction(delete(A, (50, "x")))  # not there: passed over
    log.transaction(update(A, ((60, "x"), (60, "y"))))  # not there: passed over
    log.transaction(update(A, ((2, "other"), (2, "b"))))  # by key: done
    run(engine, log.folder, target, exec_mode="idempotent")
    assert_rows(engine, target, A, [(1, "over"), (2, "b")])


# Statements.


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t.a ADD COLUMN c INT AUTO_INCREMENT UNIQUE",
        "ALTER TABLE t.a DROP PARTITION p",
        "ALTER IGNORE TABLE t.a ADD UNIQUE (v)",
        "INSERT INTO t.a VALUES (1, 'x')",
        "ALTER TABLE t.a DO SOMETHING",
    ],
)
def test_an_unsupported_statement_stops_at_its_gtid(engine, log, target, statement):
    log.transaction(insert(A, (1, "a")))
    log.ddl(statement)
    log.transaction(insert(A, (2, "later")))
    error = stopped(engine, log.folder, target)
    assert isinstance(error, StatementError)
    assert error.gtid == log.gtid(3)
    assert RelayPosition.parse(error.position).offset == log.spans[3][1]
    assert_rows(engine, target, A, [(1, "a")])


def test_statements_that_change_no_table_are_passed_over(engine, log, target):
    harmless = [
        "CREATE INDEX i ON t.a (v)",
        "CREATE USER 'x'@'%'",
        "GRANT SELECT ON t.* TO 'x'@'%'",
        "CREATE VIEW t.w AS SELECT 1",
        "DROP TABLE IF EXISTS t.nothing",
        "ANALYZE TABLE t.a",
        "CREATE DATABASE other",
        "DROP DATABASE other",
        "FLUSH TABLES",
        "CREATE TRIGGER t.g BEFORE INSERT ON t.a FOR EACH ROW SET NEW.v = 'q'",
    ]
    for i, statement in enumerate(harmless):
        log.ddl(statement)
        log.transaction(insert(A, (i, "a")))
    result = run(engine, log.folder, target)
    assert result.counters.statements == 2 + len(harmless)
    assert_rows(engine, target, A, [(i, "a") for i in range(len(harmless))])


def test_a_definition_that_changed_without_a_statement_stops(engine, log, target):
    # Scenarios 155, 157: rows of another shape than the table's stop.
    log.transaction(insert(A, (1, "a")))
    wider = Table("a", (("id", "int"), ("v", "varchar(40)"), ("w", "int")))
    log.transaction(insert(wider, (2, "a", 7)))
    assert isinstance(stopped(engine, log.folder, target), SparkReplError)
    log.transaction(insert(A, (3, "a")))
    error = stopped(engine, log.folder, target, group_max_transactions=1)
    assert isinstance(error, SchemaError)
    theirs, _, ours = error.message.partition(", the table has ")
    assert (
        "(id LONG, v VARCHAR, w LONG; key id)" in theirs and ours == "(id LONG, v VARCHAR; key id)"
    )
    assert_rows(engine, target, A, [(1, "a")])

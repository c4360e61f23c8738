"""CREATE TABLE ... SELECT as servers since 8.0.21 write it: the statement among its rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import cuts, rows, rows_at_cuts, run, stopped

A, MADE = Table("a"), Table("made", (("id", "int"),), ())

# As a 9.7.4 server wrote them, the table's options after START TRANSACTION.
STATEMENTS = [
    "CREATE TABLE `t`.`made` (\n  `id` int NOT NULL DEFAULT '0'\n) START TRANSACTION",
    "CREATE TABLE `t`.`made` (\n  `id` int DEFAULT NULL\n) START TRANSACTION ENGINE=InnoDB",
    "CREATE TABLE `t`.`made` (\n  `id` int DEFAULT NULL\n) START TRANSACTION ENGINE=InnoDB"
    " COMMENT='START TRANSACTION'",
    "CREATE TABLE `t`.`made` (\n  `id` int DEFAULT NULL\n) START TRANSACTION COMMENT='x'\n"
    "/*!50100 PARTITION BY HASH (`id`)\nPARTITIONS 2 */",
]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_create_select_makes_the_table_and_its_rows(
    tmp_path: Path, statement: str, compressed: bool
) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    made = replace(MADE, not_null=(0,) if "NOT NULL" in statement else ())
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(made, (1,), (2,)), statement=statement, compressed=compressed)
    log.transaction(insert(made, (3,)))
    assert run(log.folder, tmp_path / "lake")
    assert rows(tmp_path / "lake", MADE) == [(1,), (2,), (3,)]
    number = log.gtid(2).rpartition(":")[2]
    shown = {cut.gtid_executed.rpartition("-")[2]: cut.tables for cut in cuts(tmp_path / "lake")}
    assert "t.made" in shown[number], "statement and rows are one transaction"


def test_it_makes_the_table_where_the_statement_does_not_bear_the_mark(tmp_path: Path) -> None:
    """The mark of a CREATE TABLE IF NOT EXISTS that created its table is the transaction's number
    after the rows. This statement has no rows."""
    log = LogWriter(tmp_path / "log")
    statement = STATEMENTS[1].replace("TABLE", "TABLE IF NOT EXISTS")
    log.transaction(statement=statement, status=b"\x12\xff\0")
    assert run(log.folder, tmp_path / "lake")
    assert rows(tmp_path / "lake", MADE) == []


@pytest.mark.parametrize("compressed", [False, True])
def test_a_crash_leaves_it_whole_or_absent(tmp_path: Path, compressed: bool) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    log.transaction(insert(MADE, (1,), (2,)), statement=STATEMENTS[1], compressed=compressed)
    for step in range(1, 100):
        target = tmp_path / f"lake{step}"
        if run(log.folder, target, crash=step):
            break
        assert all(at in ([], [(1,), (2,)]) for at in rows_at_cuts(target, MADE))
        assert run(log.folder, target)
        assert rows(target, MADE) == [(1,), (2,)]
        assert [] not in rows_at_cuts(target, MADE)
    assert step > 5


@pytest.mark.parametrize("statement", ["CREATE TEMPORARY TABLE x (a INT)", "INSERT INTO a SELECT"])
def test_other_statements_among_rows_are_not_taken_for_it(tmp_path: Path, statement: str) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(MADE, (1,)), statement=statement)
    error = stopped(log.folder, tmp_path / "lake")
    assert "binlog_format is not ROW" in error.message

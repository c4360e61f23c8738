"""CREATE TABLE ... SELECT as servers since 8.0.21 write it: the statement among its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import StatementError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import rows, stopped

A, MADE = Table("a"), Table("made", (("id", "int"),), ())

# As a 9.7.4 server wrote them, the table's options behind START TRANSACTION.
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
def test_it_is_refused_by_its_name(tmp_path: Path, statement: str, compressed: bool) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(MADE, (1,)), statement=statement, compressed=compressed)
    error = stopped(log.folder, tmp_path / "lake")
    assert isinstance(error, StatementError) and error.gtid == log.gtid(2)
    assert error.message == "CREATE TABLE ... SELECT is not supported by this version"
    assert rows(tmp_path / "lake", A) == [(1, "a")]


@pytest.mark.parametrize("statement", ["CREATE TEMPORARY TABLE x (a INT)", "INSERT INTO a SELECT"])
def test_other_statements_among_rows_are_not_taken_for_it(tmp_path: Path, statement: str) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(MADE, (1,)), statement=statement)
    error = stopped(log.folder, tmp_path / "lake")
    assert "binlog_format is not ROW" in error.message

"""Statements that are not understood, or failed halfway: what their names still decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import StatementError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import last_shown, run, stopped

A, B = Table("a"), Table("b")
UNREADABLE = "ALTER TABLE {} FROBNICATE"


@pytest.mark.parametrize("name", ["t.b", "mysql.own"])
def test_what_is_left_out_need_not_be_understood(tmp_path: Path, name: str) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl(UNREADABLE.format(name))
    log.transaction(insert(A, (1, "x")))
    assert run(log.folder, target, filters={"ignore_table": ["t.b"]})
    assert last_shown(target) == {"t.a": [(1, "x")]}


@pytest.mark.parametrize("said", ["", ", RENAME TO t.c", "; DROP TABLE t.a"])
def test_an_unreadable_statement_stops_with_its_table(tmp_path: Path, said: str) -> None:
    """Without the name, where it may be about another table too."""
    log = LogWriter(tmp_path / "log")
    log.ddl(B.create)
    log.ddl(UNREADABLE.format("t.b") + said)
    error = stopped(
        log.folder, tmp_path / "lake", filters={"ignore_table": ["t.b"]} if said else {}
    )
    assert isinstance(error, StatementError) and "FROBNICATE" in error.message
    assert error.table == (None if said else "t.b")


def test_a_drop_of_several_that_failed_halfway_stops(tmp_path: Path) -> None:
    """So servers before 8.0, where a foreign key refers to one of them."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl(B.create)
    log.ddl("DROP TABLE t.a", error=1217)
    log.ddl("DROP TABLE t.a, t.x", error=1051)
    log.ddl("DROP TABLE t.a, t.b", error=1217)
    error = stopped(log.folder, target)
    assert isinstance(error, StatementError) and "(1217)" in error.message
    assert (error.table, error.gtid) == ("t.a, t.b", log.gtid(4))
    assert list(last_shown(target)) == ["t.b"]
    filters = {"ignore_table": ["t.a", "t.b"]}
    assert run(log.folder, tmp_path / "without", filters=filters)

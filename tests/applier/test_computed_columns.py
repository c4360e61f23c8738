"""Columns that are computed for rows that are there: at every cut, whatever a crash leaves, with
another relay log, by name and by column mapping."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import Unconvertible
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import last_shown, stopped

A = Table("a")
MORE = Table("a", (*A.columns, ("g", "int"), ("w", "varchar(40)"), ("h", "int")))
AFTER = Table("a", (("id", "int"), ("g", "int"), ("w", "varchar(40)"), ("h", "int")))


def write(log: Twice) -> None:
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x"), (2, None), (3, "zz")))
    log.ddl(
        "ALTER TABLE t.a ADD g INT AS (id * 10) STORED, ADD w VARCHAR(40) DEFAULT"
        " (CONCAT(v, '!')), ADD h INT AS (IFNULL(CHAR_LENGTH(w), g)) VIRTUAL"
    )
    log.transaction(update(MORE, ((1, "x", 10, "x!", 2), (1, "y", 10, "x!", 2))))
    log.transaction(insert(MORE, (4, "q", 40, "given", 5)))
    log.ddl("ALTER TABLE t.a MODIFY g INT AS (id * 100 + 1) STORED, DROP COLUMN v")
    log.transaction(insert(AFTER, (5, 501, "w", 1)))


FIRST = [(1, "x", 10, "x!", 2), (2, None, 20, None, 20), (3, "zz", 30, "zz!", 3)]
LAST = [(1, 101, "x!", 2), (2, 201, None, 201), (3, 301, "zz!", 3), (4, 401, "given", 5)]


@pytest.mark.parametrize(
    ("mapping", "lost"),
    [(True, False), (False, True)],
    ids=["mapped, the same log", "by name, another log"],
)
def test_a_crash_at_any_step_leaves_computed_columns_equal(
    tmp_path: Path, mapping: bool, lost: bool
) -> None:
    source, keys = Twice(tmp_path), {"column_mapping": mapping}
    write(source)
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, keys=keys)
    tables = [tables["t.a"] for tables in want.values() if "t.a" in tables]
    assert FIRST in tables and LAST in tables and tables[-1] == [*LAST, (5, 501, "w", 1)]
    assert step > 20


def test_a_value_that_is_not_known_stops_before_anything_is_done(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "A")))
    log.ddl("ALTER TABLE t.a ADD g INT AS (v = 'a') STORED")
    error = stopped(log.folder, target)
    assert isinstance(error, Unconvertible) and "depends on the collation" in error.message
    assert (error.gtid, error.table, bool(error.hint)) == (log.gtid(2), "t.a", True)
    assert "column g" in error.message and error.position
    assert last_shown(target)["t.a"] == [(1, "A")]

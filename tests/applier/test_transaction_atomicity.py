"""Each cut has all of a transaction or nothing of it, also after a ``skip``, with and without
commit order: all tables of a group are ready before the first of them is committed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from spark_repl.errors import RowError, TargetError
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import cuts, rows, run, stopped

A, B, C = Table("a"), Table("b"), Table("c")
MISSING = update(A, ((77, "no"), (77, "such")))
APART = {"preserve_commit_order": False}
BOTH = pytest.mark.parametrize("order", [True, False], ids=["in order", "apart"])


def keys(target: Path, table: Table, version: int | None = None) -> list[int]:
    return [key for key, _ in rows(target, table, version)]


def skip(log: LogWriter, ordinal: int, target: Path) -> int:
    return main(["skip", "--gtid", log.gtid(ordinal), "--target", str(target)])


def assert_cuts_are_whole(target: Path, held: dict[str, dict[int, int]]) -> None:
    """``held``: table -> key -> number of the transaction that inserted it. No key is in a cut
    before, and none is missing behind."""
    for cut in cuts(target):
        last = int(re.split("[:-]", cut.gtid_executed)[-1])
        for name, made in held.items():
            at = cut.tables.get(f"t.{name}")
            if at is not None:
                want = [key for key, number in made.items() if number <= last]
                assert keys(target, Table(name), at.version) == want, cut.gtid_executed


@BOTH
@pytest.mark.parametrize("bound", [1, 2, 100])
def test_a_transaction_that_fails_in_one_table_is_in_no_other(log, target, order, bound):
    log.ddl(C.create)
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(MISSING, insert(B, (2, "half")))
    log.transaction(insert(B, (3, "x")))
    log.transaction(insert(C, (4, "x")))
    error = stopped(log.folder, target, group_max_transactions=bound, preserve_commit_order=order)
    assert (error.number, error.gtid, error.table) == (1032, log.gtid(5), "t.a")
    assert keys(target, A) == keys(target, B) == [1]
    assert skip(log, 5, target) == 0
    run(log.folder, target, preserve_commit_order=order)
    assert keys(target, B) == [1, 3]
    assert keys(target, C) == [4]
    assert_cuts_are_whole(target, {"a": {1: 5}, "b": {1: 5, 3: 7}, "c": {4: 8}})


def test_tables_that_meet_no_stuck_one_go_on(log, target):
    """Three tables are stuck: a and b by the transaction that fails, c by the next one, which also
    changes b. Table d is independent."""
    d = Table("d")
    log.ddl(C.create)
    log.ddl(d.create)
    log.transaction(MISSING, insert(B, (1, "half")))
    log.transaction(insert(B, (2, "x")), insert(C, (2, "x")))
    log.transaction(insert(C, (3, "x")))
    log.transaction(insert(d, (4, "x")))
    error = stopped(log.folder, target, group_max_transactions=1, **APART)
    assert error.gtid == log.gtid(5)
    assert [keys(target, table) for table in (A, B, C, d)] == [[], [], [], [4]]
    assert skip(log, 5, target) == 0
    run(log.folder, target)
    assert [keys(target, table) for table in (A, B, C, d)] == [[], [2], [2, 3], [4]]
    assert_cuts_are_whole(target, {"b": {2: 7}, "c": {2: 7, 3: 8}, "d": {4: 9}})


@BOTH
def test_what_a_table_has_is_not_left_out(log, target, killed, order, capsys):
    """Killed between two tables' commits of one group: there is half of it. The next start
    completes it; left out, it would stay."""
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    begun: list[str] = []

    def here(name: str) -> bool:
        begun.extend([name] if name == "before_put" else [])
        return len(begun) > 1 or name == "after_put"

    killed(log, target, here, preserve_commit_order=order)
    half = [table for table in (A, B) if keys(target, table)]
    assert len(half) == 1
    assert skip(log, 3, target) == 1
    said = capsys.readouterr().err
    assert f"t.{half[0].name}" in said
    assert log.gtid(3) in said
    run(log.folder, target)
    assert keys(target, A) == keys(target, B) == [1]
    assert skip(log, 3, target) == 1
    assert "has been applied" in capsys.readouterr().err


@BOTH
def test_storage_that_fails_for_good_behind_the_meeting(log, target, faults, order):
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    faults(("t/a",), 1)
    error = stopped(log.folder, target, transaction_retries=0, preserve_commit_order=order)
    assert isinstance(error, TargetError)
    assert (keys(target, A), keys(target, B)) == ([], [1])
    assert not any("t.a" in cut.tables and "1-4" in cut.gtid_executed for cut in cuts(target))
    assert skip(log, 3, target) == 1
    run(log.folder, target, preserve_commit_order=order)
    assert keys(target, A) == keys(target, B) == [1]


@BOTH
def test_a_table_that_a_failed_group_made_has_nothing_of_it(log, target, order):
    """Made from its TABLE_MAP before the group was checked, and empty."""
    log.transaction(MISSING, insert(C, (1, "half")))
    stopped(log.folder, target, preserve_commit_order=order)
    assert keys(target, C) == []
    assert skip(log, 3, target) == 0
    run(log.folder, target, preserve_commit_order=order)
    assert keys(target, C) == []


def test_a_row_that_does_not_fit_names_the_first_of_all_tables(log, target):
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(insert(A, (2, "x")), update(B, ((77, "no"), (77, "such"))))
    log.transaction(MISSING, insert(B, (3, "x")))
    error = stopped(log.folder, target, **APART)
    assert isinstance(error, RowError)
    assert (error.gtid, error.table) == (log.gtid(4), "t.b")
    assert keys(target, A) == keys(target, B) == [1]

"""Others write to the target: what is let pass, what stops, and nothing lands over it unseen."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.apply.start.replica import Parts
from spark_repl.control.cuts.cut_reader import cut
from spark_repl.delta.log.table_log import TableLog
from spark_repl.errors import SchemaError, TargetError
from spark_repl.observe.reports.applier_status import Counters
from tests.spark import lab
from tests.spark.lab import assert_applied_once, assert_rows, stopped
from tests.support.binlog_writer import Table, delete, insert, update
from tests.support.wait_until import wait_until

A = Table("a")


ACCEPT = {"target.on_foreign_change": "accept"}
run, refused = partial(lab.run, keys=ACCEPT), partial(stopped, keys=ACCEPT)


def others(spark: SparkSession, target: Path) -> Callable[[str], None]:
    table = f"delta.`{target}/t/a`"
    return lambda statement: spark.sql(statement.replace("TABLE", table)).collect() and None


def test_accepted_foreign_changes_stay_and_the_log_applies_over_them(spark, log, target):
    log.transaction(insert(A, (1, "a"), (2, "a"), (3, "a")))
    run(spark, log.folder, target)
    sql = others(spark, target)
    sql("UPDATE TABLE SET v = 'mine' WHERE id = 1")
    sql("DELETE FROM TABLE WHERE id = 2")
    sql("INSERT INTO TABLE VALUES (9, 'mine')")
    log.transaction(update(A, ((1, "a"), (1, "b"))), insert(A, (4, "a")))
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(1, "b"), (3, "a"), (4, "a"), (9, "mine")])
    log.transaction(insert(A, (5, "a")))
    log.transaction(insert(A, (9, "source")))  # also at a later start: the table isn't complete
    assert refused(spark, log.folder, target).number == 1062
    assert_rows(spark, target, A, [(1, "b"), (3, "a"), (4, "a"), (5, "a"), (9, "mine")])
    sql("DELETE FROM TABLE WHERE id = 9")
    log.transaction(delete(A, (2, "a")))
    assert refused(spark, log.folder, target).number == 1032
    run(spark, log.folder, target, exec_mode="idempotent")
    assert_rows(spark, target, A, [(1, "b"), (3, "a"), (4, "a"), (5, "a"), (9, "source")])
    assert_applied_once(target)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("RESTORE TABLE TO VERSION AS OF 1", marks=pytest.mark.slow),
        "ALTER TABLE TABLE ADD COLUMN x INT",
    ],
)
def test_restored_tables_and_changed_columns_are_never_accepted(spark, log, target, statement):
    """RESTORE keeps the newer position over older rows (measured)."""
    for key in range(3):
        log.transaction(insert(A, (key, "a")))
    run(spark, log.folder, target, group_max_transactions=1)
    aim = f"delta.`{target}/t/a`"
    spark.sql(statement.replace("TABLE", aim) if "RESTORE" in statement else
              f"ALTER TABLE {aim} ADD COLUMN x INT")  # fmt: skip
    log.transaction(insert(A, (7, "a")))
    error = refused(spark, log.folder, target)
    assert isinstance(error, TargetError | SchemaError)
    assert error.table == "t.a"


def at_the_first_commit(
    before: Callable[[], object] = lambda: None, behind: Callable[[], object] = lambda: None
) -> Parts:
    """Return the parts of an applier that call functions between the plan of its first commit and
    the commit, and right after the commit."""
    done = list[int]()

    class Meanwhile(TableLog):
        def commit(self, *args: Any) -> int:
            is_first, _ = not done, done.append(1)
            if is_first:
                before()
            version = super().commit(*args)
            if is_first:
                behind()
            return version

    return replace(lab.PARTS, delta_log=Meanwhile)


@pytest.mark.parametrize("key", [5, 77])
def test_insert_between_plan_and_commit(spark, log, target, key):
    """Found: an append conflicts with nothing for Delta, so ours landed over it unseen."""
    # Scenario 29: somebody else commits at the same moment: neither overwrites the other.
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    sql = others(spark, target)
    log.transaction(insert(A, (5, "a")))
    parts = at_the_first_commit(lambda: sql(f"INSERT INTO TABLE VALUES ({key}, 'mine')"))
    if key == 5:
        assert refused(spark, log.folder, target, parts=parts).number == 1062
        assert_rows(spark, target, A, [(1, "a"), (5, "mine")])
    else:
        assert run(spark, log.folder, target, parts=parts).counters.retries == 1
        assert_rows(spark, target, A, [(1, "a"), (5, "a"), (77, "mine")])


def test_insert_between_plan_and_commit_stops(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    lab.run(spark, log.folder, target)
    sql = others(spark, target)
    log.transaction(insert(A, (5, "a")))
    parts = at_the_first_commit(lambda: sql("INSERT INTO TABLE VALUES (5, 'mine')"))
    assert isinstance(stopped(spark, log.folder, target, parts=parts), TargetError)
    assert_rows(spark, target, A, [(1, "a"), (5, "mine")])


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "OPTIMIZE TABLE",
        pytest.param("UPDATE TABLE SET v = 'mine' WHERE id = 0", marks=pytest.mark.soak),
    ],
)
def test_a_run_ends_right_beside_a_loop_of_optimize_and_update(spark, log, target, statement):
    """A real loop of OPTIMIZE, and of UPDATE under accept, beside a run of many groups."""
    log.transaction(insert(A, (0, "a"), *[(key, "a") for key in range(1, 30)]))
    run(spark, log.folder, target)
    rounds = 3
    for key in range(1, rounds + 1):
        log.transaction(update(A, ((key, "a"), (key, "b"))), insert(A, (key + 100, "a")))
    sql, done, worked = others(spark, target), threading.Event(), [0]

    def loop() -> None:
        while not done.is_set():
            try:
                sql(statement)
                worked[0] += 1
            except Exception:  # it met our commit, and has to do it again
                continue

    def meanwhile(counted: Counters, end: int) -> None:
        """Before the next group's commit one of theirs lands; it may meet its plan or not."""
        before = worked[0]
        wait_until(lambda: worked[0] != before)

    worker = threading.Thread(target=loop)
    worker.start()
    apply = {"group_max_transactions": 1, "transaction_retries": 100}
    try:
        # Our groups come too fast for them: we wait.
        run(spark, log.folder, target, on_group=meanwhile, **apply)
    finally:
        done.set()
        worker.join()
    assert worked[0] >= rounds
    want = [(key, "b" if key <= rounds else "a") for key in range(1, 30)]
    want += [(key + 100, "a") for key in range(1, rounds + 1)]
    have = sorted(tuple(row) for row in lab.read(spark, target, "t.a").collect())
    assert [row for row in have if row[0]] == want
    assert_applied_once(target)


def test_delete_right_behind_our_commit_and_the_way_out(spark, log, target):
    """Found: it was taken for seen. The error says how to undo it, and doing so helps."""
    for ten in range(3):
        log.transaction(insert(A, *[(10 * ten + key, "v") for key in range(10)]))
    sql, done = others(spark, target), list[int]()

    def gone() -> None:
        done.append(1)
        sql("DELETE FROM TABLE WHERE id = 3")

    parts = at_the_first_commit(behind=gone)
    error = stopped(spark, log.folder, target, group_max_transactions=1, parts=parts)
    assert (type(error), error.table, done) == (TargetError, "t.a", [1])
    now = cut(spark, str(target))
    assert now.table("t.a").count() == 10
    undo = re.search(r"RESTORE TABLE .* TO VERSION AS OF \d+", error.hint or "")
    assert undo
    spark.sql(undo[0]).collect()
    lab.run(spark, log.folder, target, group_max_transactions=1)
    assert_rows(spark, target, A, [(key, "v") for key in range(30)])
    assert_applied_once(target)


@pytest.mark.slow
def test_files_of_others_have_no_statistics(spark, log, target):
    """Found: a KeyError where a row of such a file was marked."""
    log.transaction(insert(A, *[(key, "a") for key in range(10)]))
    run(spark, log.folder, target)
    spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        others(spark, target)("UPDATE TABLE SET v = 'mine' WHERE id = 9")
        others(spark, target)("OPTIMIZE TABLE")
    finally:
        spark.conf.unset("spark.databricks.delta.stats.collect")
    log.transaction(delete(A, (1, "a")), insert(A, (20, "a")))
    run(spark, log.folder, target)
    want = [(key, "mine" if key == 9 else "a") for key in (0, *range(2, 10), 20)]
    assert_rows(spark, target, A, want)


def test_foreign_change_stops_its_own_table_alone(spark, log, target):
    """Without commit order."""
    b = Table("b")
    log.ddl(b.create)
    log.transaction(insert(A, (1, "a")), insert(b, (1, "a")))
    lab.run(spark, log.folder, target)
    others(spark, target)("UPDATE TABLE SET v = 'mine' WHERE id = 1")
    log.transaction(insert(b, (2, "a")))
    log.transaction(insert(A, (2, "a")))
    error = stopped(spark, log.folder, target, preserve_commit_order=False)
    assert isinstance(error, TargetError)
    assert "UPDATE" in error.message
    assert error.table == "t.a"

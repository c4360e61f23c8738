"""Others at work on the target's tables, at each moment between a group's plan and its commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.crash_points import listening
from spark_repl.delta.log.table_log import TableLog
from spark_repl.errors import TargetError
from tests.spark import lab
from tests.spark.lab import assert_applied_once, assert_rows, run, stopped
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A, B = Table("a"), Table("b")
MOMENTS = ("before_stage", "staged", "planned", "before_commit", "commit", "between_tables")
_SOAK = pytest.mark.soak
LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
UNSAFE = "spark.databricks.delta.retentionDurationCheck.enabled"

At = Callable[[dict[str, tuple[str, ...]]], list[str]]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[At]:
    """``at(plan)``: at each moment of the plan its statements are run, once; returns when."""
    plan: dict[str, tuple[str, ...]] = {}
    done: list[str] = []
    lock = threading.Lock()

    def reach(moment: str) -> None:
        with lock:
            statements = plan.pop(moment, ())
        if statements:
            done.append(moment)
        for statement in statements:
            spark.sql(statement)

    class Told(TableLog):
        def commit(self, *args: Any) -> int:
            reach("commit")
            return super().commit(*args)

    def install(wanted: dict[str, tuple[str, ...]]) -> list[str]:
        plan.update(wanted)
        done.clear()
        return done

    monkeypatch.setattr(lab, "PARTS", replace(lab.PARTS, delta_log=Told))
    # One table's commit behind the other, so that there is a moment between them.
    with listening(reach, armed=["between_tables"]):
        yield install


def before(spark: SparkSession, log: LogWriter, target: Path) -> None:
    """Two tables of two files and two commits each, with deletion vectors."""
    log.ddl(B.create)
    for table in (A, B):
        log.transaction(insert(table, *[(key, "x") for key in range(10)]))
    for table in (A, B):
        log.transaction(update(table, ((1, "x"), (1, "y"))), delete(table, (2, "x")))
    run(spark, log.folder, target, group_max_transactions=2)
    spark.conf.set(UNSAFE, "false")
    spark.conf.set(LISTING, "2")  # VACUUM lists in 10,000 tasks else


def changes(log: LogWriter, number: int) -> None:
    """Both tables: an INSERT, and rows that stand in all files of before."""
    for table in (A, B):
        old = "x" if number == 0 else f"u{number - 1}"
        log.transaction(
            insert(table, (100 + number, "new")), update(table, ((5, old), (5, f"u{number}")))
        )


def applied(numbers: int) -> list[tuple[int, str]]:
    rows = {key: "x" for key in range(10) if key != 2} | {1: "y"}
    rows |= {100 + number: "new" for number in range(numbers)}
    return sorted((rows | ({5: f"u{numbers - 1}"} if numbers else {})).items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "moments", [("planned", "commit", "between_tables"), pytest.param(MOMENTS, marks=_SOAK)]
)
def test_foreign_commits_without_row_changes_pass(spark, log, target, at, moments):
    before(spark, log, target)
    for number, moment in enumerate(moments):
        changes(log, number)
        table = f"delta.`{target}/t/{'b' if moment == 'between_tables' else 'a'}`"
        statements = [f"OPTIMIZE {table}"]
        if moment in ("before_commit", "commit"):  # our files are there, and no version names them
            statements.append(f"VACUUM {table} RETAIN 0 HOURS")
        done = at({moment: tuple(statements)})
        run(spark, log.folder, target, transaction_retries=0)
        assert done == [moment]
        assert_rows(spark, target, A, applied(number + 1))
        assert_rows(spark, target, B, applied(number + 1))
    assert_applied_once(target)


STATEMENTS = (
    "UPDATE {} SET v = 'theirs' WHERE id = 7",
    "DELETE FROM {} WHERE id = 7",
    "RESTORE {} TO VERSION AS OF 1",
    "INSERT INTO {} VALUES (77, 'theirs')",
)
# One of each always, but for RESTORE (test_on_foreign_change.py); all pairs with make soak.
ALWAYS = {("planned", 0), ("commit", 1), ("between_tables", 3)}


@pytest.mark.parametrize(
    ("moment", "statement"),
    [
        pytest.param(moment, statement, marks=() if (moment, i) in ALWAYS else _SOAK)
        for moment in MOMENTS
        for i, statement in enumerate(STATEMENTS)
    ],
)
def test_foreign_row_changes_stop_the_applier(spark, log, target, at, moment, statement):
    before(spark, log, target)
    changes(log, 0)
    theirs, other = (B, A) if moment == "between_tables" else (A, B)
    done = at({moment: (statement.format(f"delta.`{target}/t/{theirs.name}`"),)})
    error = stopped(spark, log.folder, target)
    assert done == [moment]
    assert isinstance(error, TargetError)
    assert error.table == theirs.name.join(("t.", ""))
    assert statement.split()[0] in error.message.replace("WRITE", "INSERT")
    assert "on_foreign_change" in (error.hint or "")
    assert_rows(spark, target, theirs, _after(statement))
    assert_rows(spark, target, other, applied(1 if moment == "between_tables" else 0))


def _after(statement: str) -> list[tuple[int, str]]:
    rows = dict(applied(0))
    word = statement.split()[0]
    if word == "UPDATE":
        rows[7] = "theirs"
    elif word == "DELETE":
        del rows[7]
    elif word == "INSERT":
        rows[77] = "theirs"
    else:
        rows = dict.fromkeys(range(10), "x")
    return sorted(rows.items())

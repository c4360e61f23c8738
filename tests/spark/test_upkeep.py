"""Upkeep: compaction, checkpoints and VACUUM beside the stream change nothing a reader sees."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import delta.exceptions  # noqa: F401  with it Java's conflicts are PySparkExceptions
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_repl
from spark_repl.crash_points import listening
from spark_repl.delta.log import checkpoint_schedule
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.errors import SparkReplError
from spark_repl.observe.reports.applier_status import Counters
from tests.spark.lab import assert_applied_once, assert_rows, cuts, read, run, stopped, versions
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.delta_snapshot import forget
from tests.support.local_delta import rows as rows_without_spark
from tests.support.wait_until import wait_until

A, BAG = Table("a"), Table("bag", key=())
SMALL = {"target.compact_files": 3}


def write_log(log: LogWriter, transactions: int, seed: int) -> dict[str, list[Any]]:
    """Random changes of t.a and t.bag; returns the rows at each transaction's end, and at last."""
    rand = random.Random(seed)
    log.ddl(BAG.create)
    state: dict[int, Any] = {}
    bag: list[Any] = []
    states = []
    for number in range(transactions):
        changes = []
        for _ in range(rand.randint(1, 3)):
            key = rand.randrange(40)
            new = (key, f"{number}")
            if key not in state:
                changes.append(insert(A, new))
                state[key] = new
            elif rand.random() < 0.3:
                changes.append(delete(A, state.pop(key)))
            else:
                changes.append(update(A, (state[key], new)))
                state[key] = new
        row = (rand.randrange(5), "x")
        if row in bag and rand.random() < 0.4:
            bag.remove(row)
            changes.append(delete(BAG, row))
        else:
            bag.append(row)
            changes.append(insert(BAG, row))
        log.transaction(*changes)
        states.append((sorted(state.values()), sorted(bag)))
    return {"states": states}


def operations(target: Path, table: str) -> list[str]:
    folder = str(target / table)
    found = []
    for version in range(versions(target)[table] + 1):
        for action in read_commit(folder, version) or []:
            if "commitInfo" in action:
                found.append(action["commitInfo"]["operation"])
    return found


def test_tables_are_folded_while_the_stream_goes_on(
    spark: SparkSession, log: LogWriter, target: Path
) -> None:
    states = write_log(log, 30, seed=5)["states"]

    def folds() -> list[int]:
        return [operations(target, f"t/{table.name}").count("OPTIMIZE") for table in (A, BAG)]

    def each_tenth_waits(counted: Counters, end: int) -> None:
        """Upkeep has done its part of ten groups before the next one."""
        if counted.groups % 10 == 0:
            wait_until(lambda: min(folds()) >= counted.groups // 10, each_s=0.05)

    result = run(
        spark, log.folder, target, on_group=each_tenth_waits, group_max_transactions=1, keys=SMALL
    )
    assert result.counters.groups >= 30
    for table, want in zip((A, BAG), states[-1], strict=True):
        assert_rows(spark, target, table, want)
        files = live_files(str(target / "t" / table.name), versions(target)[f"t/{table.name}"])
        assert len(files) < 12
    assert min(folds()) >= 3
    assert_applied_once(target)
    # A cut names versions: those from before a rewrite are readable after it.
    published = [cut for cut in cuts(target) if len(cut.tables) == 2]
    looked = 0
    for cut in published[:: len(published) // 6]:
        at = len([c for c in published if c.position <= cut.position]) - 1
        if cut.counts["transactions"] and at >= len(published) - len(states):
            want = states[at - (len(published) - len(states))][0]
            assert rows_without_spark(target, A, cut.tables["t.a"].version) == want
            looked += 1
    reader = spark_repl.cut(spark, str(target), cut.gtid_executed)  # and by Spark the last of these
    assert sorted(map(tuple, reader.table("t.a").collect())) == want
    assert looked >= 5


@pytest.mark.parametrize("statement", ["OPTIMIZE", pytest.param("UPDATE", marks=pytest.mark.soak)])
def test_a_rewrite_is_given_up_when_others_changed_the_table(
    spark: SparkSession, log: LogWriter, target: Path, statement: str
) -> None:
    """Between the rewrite and its commit another writer moves the rows, or changes them."""
    log.transaction(insert(A, *[(i, "old") for i in range(9)]))
    for i in range(8):
        log.transaction(update(A, ((i, "old"), (i, "new"))))
    folder = target / "t" / "a"
    said = {
        "OPTIMIZE": f"OPTIMIZE delta.`{folder}`",
        "UPDATE": f"UPDATE delta.`{folder}` SET v = 'theirs' WHERE id = 8",
    }
    done: list[Any] = []

    def foreign(point: str) -> None:
        if point == "compacted" and not done:
            for _ in range(50):  # theirs conflicts with the stream too, and is tried again
                with suppress(PySparkException):
                    done.append(spark.sql(said[statement]).collect())
                    break

    def wait_for_theirs(counted: Counters, end: int) -> None:
        """Upkeep has rewritten some of the files of six groups before the next one."""
        if counted.groups >= 6:
            wait_until(lambda: done)

    keys = {"target.compact_files": 2}
    error = None
    try:
        with listening(foreign):
            run(
                spark, log.folder, target, on_group=wait_for_theirs, group_max_transactions=1,
                keys=keys,
            )  # fmt: skip
    except SparkReplError as found:
        error = found
    assert done
    ids = sorted(row.id for row in read(spark, target, "t.a").collect())
    assert ids == list(range(9)), "no row is lost or doubled"
    if statement == "OPTIMIZE":
        assert error is None
        assert_rows(spark, target, A, [(i, "new" if i < 8 else "old") for i in range(9)])
        return
    if error is None:  # their UPDATE came behind the last group
        log.transaction(insert(A, (10, "later")))
        error = stopped(spark, log.folder, target)
    assert "another writer changed the table" in str(error)


def test_checkpoints_are_written_beside_the_commits_and_are_whole(
    spark: SparkSession, log: LogWriter, target: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(checkpoint_schedule, "EVERY", 10)
    states = write_log(log, 25, seed=6)["states"]
    folder = target / "t" / "a"

    def is_young() -> bool:
        return versions(target).get("t/a", 0) - checkpoint_schedule.last(str(folder)) < 10

    run(
        spark, log.folder, target, on_group=lambda *_: wait_until(is_young),
        group_max_transactions=1, keys={"target.compact_files": 0},
    )  # fmt: skip
    at = checkpoint_schedule.last(str(folder))
    assert at >= 20
    saved = live_files(str(folder), versions(target)["t/a"])
    for path in (folder / "_delta_log").glob("*.json"):
        if path.stem.isdigit() and int(path.stem) < at:
            path.unlink()
    forget(spark)
    assert_rows(spark, target, A, states[-1][0])
    assert live_files(str(folder), versions(target)["t/a"]) == saved
    log.transaction(insert(A, (77, "later")))
    run(spark, log.folder, target)
    assert_rows(spark, target, A, sorted([*states[-1][0], (77, "later")]))


def test_vacuum_removes_what_nobody_needs_and_its_key_index(
    spark: SparkSession, log: LogWriter, target: Path
) -> None:
    log.transaction(insert(A, (1, "one")))
    log.transaction(insert(A, (2, "two")))
    feed = {"target.change_data_feed": True}
    run(spark, log.folder, target, group_max_transactions=1, keys=feed)
    folder, (keys,) = target / "t" / "a", (target / "_repl" / "keys" / "t" / "a").iterdir()
    changes = folder / "_change_data" / "part-of-a-dead-attempt.zstd.parquet"
    changes.parent.mkdir(exist_ok=True)
    changes.write_bytes(b"x")
    orphan = folder / "part-of-a-dead-attempt.zstd.parquet"
    orphan.write_bytes(b"x")
    index = keys / f"{orphan.name}.npy"
    index.write_bytes(b"x")
    week_ago = orphan.stat().st_mtime - 200 * 3600
    for path in (orphan, changes, target / "_repl" / "vacuumed" / "t" / "a"):
        os.utime(path, (week_ago, week_ago))
    log.transaction(update(A, ((1, "one"), (1, "new"))))
    run(
        spark, log.folder, target, on_group=lambda *_: wait_until(lambda: not index.exists()),
        keys=feed,
    )  # fmt: skip
    assert not orphan.exists() and not changes.exists()
    assert list(changes.parent.iterdir()), "young ones stay"
    assert len(list(keys.glob("*.npy"))) == len(list(folder.glob("*.parquet"))) >= 2
    assert_rows(spark, target, A, [(1, "new"), (2, "two")])
    table = read(spark, target, "t.a")
    assert sorted(map(tuple, table.collect())) == [(1, "new"), (2, "two")]


def test_a_new_table_has_its_properties(spark: SparkSession, log: LogWriter, target: Path) -> None:
    run(spark, log.folder, target)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{target / 't' / 'a'}`").collect()[0]
    assert int(detail.properties["delta.checkpointInterval"]) > 10**6
    assert json.loads(json.dumps(detail.properties))["delta.enableDeletionVectors"] == "true"

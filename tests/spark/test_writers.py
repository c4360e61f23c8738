"""What ``DirectWriter`` promises: what is committed and when, what is refused before it, what
becomes of a commit that others come before."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from spark_repl import Config
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.decode.stage_task import StageTask
from spark_repl.decode.stage_worker import stage
from spark_repl.delta.log.log_replay import commits_after
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.errors import ConcurrentChangeError, SparkReplError
from spark_repl.relay.span import Span
from spark_repl.runtime.workers import Workers
from spark_repl.write.files.commit import commit_rows
from spark_repl.write.files.discard import discard
from spark_repl.write.files.write_task import WriteTask, Written
from spark_repl.write.rows.direct_writer import DirectWriter
from spark_repl.write.tables.table import Table as Target
from spark_repl.write.tables.table_commits import Outcome
from spark_repl.write.tables.target_options import TargetOptions
from spark_repl.write.tables.tracking import Tracking
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.local_delta import rows


class Lab:
    """A writer, and tables that it changes by the transactions of a log; rows of others are
    accepted. All tables are held, as a group's writer holds them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        target = folder / "lake"
        keys = {"path": str(target), "on_foreign_change": "accept"}
        config = Config.from_mapping({"relay": {"path": str(folder)}, "target": keys})
        layout = Layout.of(config.target)
        self.spark, self.folder, self.log = spark, target, LogWriter(folder / "log")
        self.position = 0
        self._positions = itertools.count(10)
        control = Control(layout.control, config.channel)
        control.claim()
        self.tracking = Tracking(layout, control, TableLog(), TargetOptions.of(config))
        self.commits, workers = self.tracking.commits, Workers(spark, 1)
        self.writer = DirectWriter(self.tracking, workers)
        self.a, self.b = self.table("a"), self.table("b")

    def table(self, name: str) -> tuple[Table, Target]:
        """A new table with rows of the keys 0 to 9: in the log, and as it is tracked."""
        logged = Table(name)
        filled = insert(logged, *[(key, "old") for key in range(10)])
        self.log.transaction(filled)
        definition = self._staged().definitions[f"t.{name}"]
        made = self.tracking.create(definition, Stamp(self.tracking.app, 0, ""), "CREATE TABLE")
        made.lock.acquire()
        self.commit(made, self.plan(filled))
        return logged, made

    def _staged(self) -> Any:
        _, start, end = self.log.spans[-1]
        span = Span(str(self.log.path), 1, *np.array([[start], [end], [0]], np.int64), True)
        return stage(StageTask(0, (span,), 1, None))

    def tasks(self, *changes: Change, idempotent: bool = False) -> list[WriteTask]:
        self.log.transaction(*changes)
        tasks = []
        for part in self._staged().parts:
            table = self.tracking.tables[part.table]
            tasks.append(WriteTask(
                table.name, table.folder, self.tracking.layout.keys(table.path), table.columns,
                table.definition.primary_key, (part,), self.commits.live_files(table), idempotent,
                table.complete and not idempotent, table.definition,
            ))  # fmt: skip
        return tasks

    def plan(self, *changes: Change) -> list[Written]:
        """A group of one transaction, up to its commits."""
        tasks = self.tasks(*changes)
        tables = {task.table: self.tracking.tables[task.table] for task in tasks}
        self.writer.prepare(tables.values(), in_driver=False)
        written = [self.writer.task(task) for task in tasks]
        if any(part.violations for part in written):
            return written
        return self.writer.finish(tables, written)

    def commit(self, table: Target, written: list[Written]) -> int:
        """Commits the table's part at a position of its own, which is returned."""
        position = self.position = next(self._positions)
        mine = [part for part in written if part.table == table.name]
        stamp = Stamp(self.tracking.app, position, f"up to {position}")
        commit_rows(self.commits, [(table, mine)], stamp)
        return position

    def rows(self) -> set[tuple[Any, ...]]:
        return {(name, *row) for name in "ab" for row in rows(self.folder, Table(name))}

    def files(self) -> set[Path]:
        """Data files; not Delta's logs, nor state beside."""
        return {
            path for path in self.folder.glob("t/**/*.parquet") if "_delta_log" not in path.parts
        }

    def named(self, written: list[Written]) -> set[Path]:
        """Files that ``written`` names: what has to go if it is not committed."""
        tables = self.tracking.tables
        return {Path(tables[part.table].folder, name) for part in written for name in part.files}


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Each test has keys of its own."""
    made = Lab(spark, tmp_path_factory.mktemp("writer"))
    yield made
    made.tracking.control.release()


def positions(lab: Lab, table: Target) -> list[int]:
    """The positions in a table's log, of this channel."""
    newest = lab.tracking.delta.version(table.folder)
    actions = [one for commit in commits_after(table.folder, 0, newest) for one in commit]
    return [one["txn"]["version"] for one in actions if "txn" in one]


def test_a_commit_is_one_version_with_data_position_and_metadata(lab):
    a, table = lab.a
    before, version = lab.rows(), table.snapshot.version
    changes = update(a, ((0, "old"), (0, "new"))), delete(a, (1, "old")), insert(a, (10, "new"))
    written = lab.plan(*changes)
    assert (lab.rows(), lab.tracking.delta.version(table.folder)) == (before, version)
    position = lab.commit(table, written)
    assert before - lab.rows() == {("a", 0, "old"), ("a", 1, "old")}
    assert lab.rows() - before == {("a", 0, "new"), ("a", 10, "new")}
    (actions,) = commits_after(table.folder, version, lab.tracking.delta.version(table.folder))
    (txn,) = (one["txn"] for one in actions if "txn" in one)
    (info,) = (one["commitInfo"] for one in actions if "commitInfo" in one)
    assert (txn["appId"], txn["version"]) == (lab.tracking.app, position)
    assert info["userMetadata"] == f"up to {position}"
    assert (table.position, table.snapshot.version, table.delta.pending) == (
        position,
        version + 1,
        None,
    )


def test_what_is_not_committed_is_named_and_nothing_else_is_left(lab):
    a, table = lab.a
    before, found, version = lab.rows(), lab.files(), table.snapshot.version
    written = lab.plan(update(a, ((2, "old"), (2, "new"))), insert(a, (11, "new")))
    assert lab.files() - found == lab.named(written) != set()
    for part in written:
        discard(table.folder, part.files, tried_behind=None)
    assert (lab.files(), lab.rows()) == (found, before)
    assert lab.tracking.delta.version(table.folder) == version


@pytest.mark.parametrize(("number", "key"), [(1062, 3), (1032, 12)])
def test_what_does_not_fit_is_said_before_any_commit(lab, monkeypatch, number, key):
    """One of two tables fits; the error also names the files that were written for it."""
    (a, table), (b, other) = lab.a, lab.b
    before, found = lab.rows(), lab.files()
    at = table.snapshot.version, other.snapshot.version
    monkeypatch.setattr(table, "complete", False)  # then a new key has to be looked up
    wrong = insert(a, (key, "new")) if number == 1062 else delete(a, (key, "old"))
    written = lab.plan(insert(b, (13, "new")), wrong)
    (fault,) = (fault for part in written for fault in part.violations)
    assert (fault.number, fault.table, fault.key) == (number, table.name, f"id={key}")
    assert lab.files() - found == lab.named(written)
    assert lab.rows() == before
    assert tuple(lab.tracking.delta.version(one.folder) for one in (table, other)) == at


def test_calls_side_by_side_know_what_is_idempotent_in_each(lab):
    a, table = lab.a
    (strict,) = lab.tasks(delete(a, (14, "is not there")))
    lenient = replace(strict, idempotent=True, complete=False)

    def numbers(task: WriteTask) -> list[int]:
        written = [lab.writer.task(task)]
        if not written[0].violations:
            written = lab.writer.finish({table.name: table}, written)
        return [fault.number for part in written for fault in part.violations]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(numbers, [strict, lenient] * 2))
    assert found == [[1032], [], [1032], []]


def test_a_group_that_changes_nothing_writes_nothing(lab):
    a, _ = lab.a
    found = lab.files()
    written = lab.plan(insert(a, (15, "new")), delete(a, (15, "new")))
    assert not any(part.changes_table or part.violations for part in written)
    assert lab.writer.finish({}, []) == []
    assert lab.files() == found


def test_tables_are_committed_side_by_side(lab):
    (a, table), (b, other) = lab.a, lab.b
    before = lab.rows()
    written = lab.plan(insert(a, (19, "new")), insert(b, (19, "new")))
    with ThreadPoolExecutor(2) as pool:
        landed = list(pool.map(lambda one: lab.commit(one, written), (table, other)))
    assert lab.rows() - before == {("a", 19, "new"), ("b", 19, "new")}
    assert [one.position for one in (table, other)] == landed
    assert [positions(lab, one)[-1] for one in (table, other)] == landed


def test_a_group_that_is_tried_again_lands_once(lab):
    """The first attempt's answer was lost: who tried again knows the table as it was."""
    a, table = lab.a
    before, stale = lab.rows(), replace(table, delta=replace(table.delta))
    written = lab.plan(insert(a, (16, "new")))
    position = lab.commit(table, written)
    with suppress(SparkReplError):  # passed over, or refused
        commit_rows(lab.commits, [(stale, written)], Stamp(lab.tracking.app, position, ""))
    assert lab.commits.resolve(stale, position) is Outcome.LANDED
    assert (stale.position, positions(lab, table).count(position)) == (position, 1)
    assert lab.rows() - before == {("a", 16, "new")}


def test_a_group_that_others_came_before_is_planned_anew(lab):
    """Their row has the same key: without a new plan there would be two."""
    b, table = lab.b
    before = lab.rows()
    written = lab.plan(insert(b, (17, "new")))
    lab.spark.sql(f"INSERT INTO delta.`{table.folder}` VALUES (17, 'theirs')")
    with pytest.raises(ConcurrentChangeError):
        lab.commit(table, written)
    assert lab.commits.resolve(table, lab.position) is Outcome.BEATEN
    assert lab.rows() - before == {("b", 17, "theirs")}
    lab.commits.refresh(table)
    (fault,) = (one for part in lab.plan(insert(b, (17, "new"))) for one in part.violations)
    assert (fault.number, fault.key) == (1062, "id=17")
    position = lab.commit(table, lab.plan(update(b, ((17, "theirs"), (17, "new")))))
    assert lab.rows() - before == {("b", 17, "new")}
    assert (table.position, positions(lab, table)[-1]) == (position, position)


def test_a_task_can_be_sent_to_a_worker(lab):
    assert pickle.loads(pickle.dumps(lab.writer.task)) is lab.writer.task

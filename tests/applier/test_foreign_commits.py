"""What others commit to the tables is seen wherever it lands, and told from what this process did;
what a former owner commits late is taken in.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, RowsCommit
from spark_repl.control.table.layout import Layout
from spark_repl.delta.files import deletion_vector
from spark_repl.delta.log import log_replay
from spark_repl.delta.log.add_actions import AddActions, live_files
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.delta.store import storage
from spark_repl.errors import FencedError, FormerOwnerError, TargetError
from spark_repl.write.files.commit import removed
from spark_repl.write.files.key_index import KeyIndex
from spark_repl.write.tables.table import LiveFiles
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import (
    LocalDelta,
    applier,
    broken,
    put,
    rows,
    rows_at_cuts,
    run,
    stopped,
)

A, B = Table("a"), Table("b")


# What others do.


def delete_by_others(folder: str, version: int | None = None) -> None:
    """A DELETE of the first two rows of one file, as Spark would commit it."""
    at = LocalDelta().version(folder) if version is None else version
    add = next(iter((live_files(folder, at) or {}).values()))
    vector = deletion_vector.write(folder, [BitMap([0, 1])])[0]
    marked = {**add, "deletionVector": vector, "dataChange": True}
    put(folder, at + 1, [{"remove": removed(add, 1)}, {"add": marked}], operation="DELETE")


def behind_our_commit(patch: pytest.MonkeyPatch, act: Callable[[str, int], object]) -> list[int]:
    """Has ``act`` follow our first commit to t.a, with the table's folder and the version, which
    the list has then."""
    true, done = LocalDelta.commit, list[int]()

    def commit(self: Any, planned: Snapshot, *args: Any) -> int:
        version = true(self, planned, *args)
        if not done and planned.folder.endswith("/t/a"):
            done.append(version)
            act(planned.folder, version)
        return version

    patch.setattr(LocalDelta, "commit", commit)
    return done


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_delete_right_behind_our_commit(log, target, monkeypatch, lost, last):
    """Scenario 29; found: it was taken for seen, and stood in all later cuts. ``last``: no group
    comes behind it, so it is the next start that sees it; ``lost``: our commit is looked for."""
    want = [(key, f"v{key}") for key in range(5)]
    log.transaction(insert(A, *want))
    if not last:
        log.transaction(insert(A, (10, "x")))

    def delete_then(folder: str, version: int) -> None:
        delete_by_others(folder)
        if lost:
            raise broken()

    done = behind_our_commit(monkeypatch, delete_then)
    if last:
        assert run(log.folder, target, group_max_transactions=1)
        log.transaction(insert(A, (10, "x")))
    error = stopped(log.folder, target, group_max_transactions=1)
    assert isinstance(error, TargetError)
    assert (error.table, done[0] + 1) == ("t.a", int(error.message.split("version ")[1].split()[0]))
    assert "snapshot --config F --table t.a" in (error.hint or "")
    assert f"TO VERSION AS OF {done[0]}" in (error.hint or "")
    assert rows_at_cuts(target, A)[-1] == want


def restore(folder: str, version: int) -> None:
    """RESTORE to a version, as Delta does it: files and marks of then, the newest position."""
    newest = LocalDelta().version(folder)
    now, then = (live_files(folder, at) or {} for at in (newest, version))
    actions: list[dict[str, Any]] = [
        {"remove": removed(add, 1)} for path, add in now.items() if then.get(path) != add
    ]
    actions += [{"add": add} for path, add in then.items() if now.get(path) != add]
    put(folder, newest + 1, actions, operation="RESTORE")


@pytest.mark.parametrize("keys", [{}, {"on_foreign_change": "accept"}])
def test_a_restore_undoes_what_others_did(log, target, keys):
    log.transaction(insert(A, *[(key, "a") for key in range(5)]))
    assert run(log.folder, target)
    folder = str(target / "t" / "a")
    before = LocalDelta().version(folder)
    delete_by_others(folder)
    log.transaction(insert(A, (9, "b")))
    if not keys:
        assert "DELETE" in stopped(log.folder, target).message
    restore(folder, before - 1)  # to where the rows were not there yet
    assert "RESTORE" in stopped(log.folder, target, keys=keys).message or not keys
    restore(folder, before)
    assert run(log.folder, target, keys=keys)
    assert rows(target, A) == [*((key, "a") for key in range(5)), (9, "b")]


def compacted_by_others(folder: str, *, vacuum: bool) -> None:
    """OPTIMIZE: each file becomes another; VACUUM RETAIN 0 HOURS: the old one goes."""
    version = LocalDelta().version(folder)
    actions: list[dict[str, Any]] = []
    for path, add in (live_files(folder, version) or {}).items():
        new = f"part-{uuid.uuid4()}.parquet"
        shutil.copy(f"{folder}/{path}", f"{folder}/{new}")
        gone = removed(add, 1, data_change=False)
        actions += [{"remove": gone}, {"add": {**add, "path": new, "dataChange": False}}]
        if vacuum:
            os.remove(f"{folder}/{path}")
    put(folder, version + 1, actions)


def at_plan(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> list[str]:
    done: list[str] = []

    def reach(name: str) -> None:
        if name == "planned" and not done:
            done.append(name)
            work()

    monkeypatch.setattr("tests.support.local_delta.CRASHES", reach)
    return done


TEXT_KEY = Table("a", (("k", "varchar(40)"), ("v", "varchar(40)")), (0,))


def test_a_vacuum_between_plan_and_work_is_planned_again(tmp_path, target, monkeypatch):
    """The files of the plan are gone when the workers look into them: planned again."""
    log = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", TEXT_KEY.create):
        log.ddl(statement)
    log.transaction(insert(TEXT_KEY, *[(str(key), "a") for key in range(20)]))
    assert run(log.folder, target)
    shutil.rmtree(Layout(str(target)).keys("t/a"))  # of these files no index was ever made
    log.transaction(update(TEXT_KEY, (("1", "a"), ("1", "b"))))
    folder = str(target / "t" / "a")
    done = at_plan(monkeypatch, lambda: compacted_by_others(folder, vacuum=True))
    assert run(log.folder, target)
    assert done
    assert ("1", "b") in rows(target, TEXT_KEY)
    assert len(rows(target, TEXT_KEY)) == 20


def test_live_file_that_is_gone_is_named(tmp_path, target, monkeypatch):
    log = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", TEXT_KEY.create):
        log.ddl(statement)
    log.transaction(insert(TEXT_KEY, ("1", "a"), ("2", "a")))
    assert run(log.folder, target)
    for path in (target / "t" / "a").glob("*.parquet"):
        path.unlink()
    log.transaction(update(TEXT_KEY, (("1", "a"), ("1", "b"))))
    error = stopped(log.folder, target)
    assert isinstance(error, TargetError)
    assert error.table == "t.a"
    assert "is gone" in error.message
    assert "snapshot --config F --table t.a" in (error.hint or "")


@pytest.mark.parametrize("stats", [None, '{"minValues":{}}'])
def test_foreign_files_without_statistics_get_the_number_of_rows(log, target, stats):
    """Others may collect none."""
    log.transaction(insert(A, *[(key, "a") for key in range(6)]))
    assert run(log.folder, target)
    folder = str(target / "t" / "a")
    version = LocalDelta().version(folder)
    actions: list[dict[str, Any]] = []
    for add in (live_files(folder, version) or {}).values():
        gone = removed(add, 1, data_change=False)
        bare = {name: value for name, value in add.items() if name != "stats"}
        actions += [{"remove": gone}, {"add": bare | ({"stats": stats} if stats else {})}]
    put(folder, version + 1, actions)
    log.transaction(delete(A, (1, "a")))
    for key in (7, 8):
        log.transaction(insert(A, (key, "a")))
    assert run(log.folder, target, group_max_transactions=1)
    assert [row[0] for row in rows(target, A)] == [0, 2, 3, 4, 5, 7, 8]
    marked = [
        json.loads(action["add"]["stats"])
        for actions in log_replay.commits_after(folder, version, LocalDelta().version(folder))
        for action in actions
        if "deletionVector" in action.get("add", {}) and action["add"]["dataChange"]
    ]
    assert [found["numRecords"] for found in marked] == [6]


def test_a_partition_folder_with_a_percent_sign_is_read(tmp_path):
    """Spark names a partition's folder v=a%20b, and the log holds its URI."""
    folder = tmp_path / "v=a%20b"
    folder.mkdir()
    (tmp_path / "keys").mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), folder / "x.parquet")
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["id"])
    index.build("v=a%2520b/x.parquet")
    index.forget_gone()
    assert index.missing(["v=a%2520b/x.parquet"]) == []


# One owner of a table's state, and one of the target.


def test_no_look_at_the_files_without_the_lock(log, target):
    """Found: an upkeep's older list of files took the place of a newer one, and rows came back."""
    log.transaction(insert(A, (1, "a")))
    with applier(log.folder, target) as found:
        found.coordinator.apply(found.index.slice(0, found.index.end))
        tracking = found.tracking
        table, commits = tracking.tables["t.a"], tracking.commits
        with pytest.raises(AssertionError, match="without its lock"):
            commits.live(table)
        with table.lock:
            old = commits.live(table)
            table.delta.files = LiveFiles(
                old.version - 1, AddActions(None, {}), object()
            )  # of a version before
            assert commits.live(table).adds == old.adds


def test_commit_of_a_sleeper_before_the_first_of_the_new_owner(log, target):
    """It is rows of this log in their order: the new owner reads its positions again."""
    assert run(log.folder, target)
    log.transaction(insert(A, *[(key, "a") for key in range(5)]), insert(B, (1, "a")))
    log.transaction(update(A, ((1, "a"), (1, "b"))), insert(B, (2, "a")))
    with (
        applier(log.folder, target, group_max_transactions=1) as old,
        applier(log.folder, target, take_over=True) as new,
    ):
        commit = LocalDelta.commit

        def asleep(self: Any, planned: Snapshot, *args: Any) -> int:
            if planned.folder.endswith("/t/b"):
                raise broken()
            return commit(self, planned, *args)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LocalDelta, "commit", asleep)
            with pytest.raises((FencedError, TargetError)):
                old.coordinator.apply(old.index.slice(0, old.index.end))
        with pytest.raises(FormerOwnerError):
            new.coordinator.apply(new.index.slice(0, new.index.end))
        new._go_back()
        new.coordinator.apply(new.index.slice(new.coordinator.mark.position, new.index.end))
    assert rows(target, A) == [(key, "b" if key == 1 else "a") for key in range(5)]
    assert rows(target, B) == [(1, "a"), (2, "a")]
    assert len(rows_at_cuts(target, B)[-1]) == 2


def test_owner_is_told_from_a_former_one(tmp_path):
    first, second = Control(str(tmp_path)), Control(str(tmp_path))
    first.claim()
    assert first.is_owner()
    second.claim(take_over=True)
    assert (first.is_owner(), second.is_owner()) == (False, True)


# At a start.


def test_older_state_of_a_folder_is_refused(log, target):
    """A backup put back: rows are gone that the cut has, and no commit says so."""
    log.transaction(insert(A, *[(key, "a") for key in range(3)]))
    assert run(log.folder, target)
    backup = target.parent / "backup"
    shutil.copytree(target / "t" / "a", backup)
    log.transaction(insert(A, (10, "x")))
    assert run(log.folder, target)
    shutil.rmtree(target / "t" / "a")
    shutil.copytree(backup, target / "t" / "a")
    log.transaction(insert(A, (11, "y")))
    error = stopped(log.folder, target)
    assert (error.table, "older state" in error.message) == ("t.a", True)


def test_foreign_change_before_the_first_cut(log, target, killed):
    """The table is in no cut yet: what others did to it is seen all the same."""
    log.transaction(insert(A, *[(key, "a") for key in range(5)]))
    folder = target / "t" / "a" / "_delta_log"
    killed(log, target, lambda name: name == "before_cut" and len(list(folder.glob("*.json"))) > 1,
           group_max_transactions=100)  # fmt: skip
    delete_by_others(str(folder.parent))
    assert "DELETE" in stopped(log.folder, target).message


@pytest.mark.parametrize("step", ["after_put", "before_cut"])
def test_undone_and_cut_off_behind_our_next_commit(log, target, killed, step):
    log.transaction(insert(A, *[(key, "a") for key in range(5)]))
    assert run(log.folder, target)
    folder = str(target / "t" / "a")
    before = LocalDelta().version(folder)
    delete_by_others(folder)
    restore(folder, before)
    log.transaction(insert(A, (9, "b")))
    killed(log, target, lambda name: name == step)
    assert LocalDelta().version(folder) == before + 3
    assert run(log.folder, target)
    assert rows(target, A) == [*((key, "a") for key in range(5)), (9, "b")]


@pytest.mark.parametrize("operation", ["WRITE", "OPTIMIZE"])
def test_a_commit_that_was_written_over(log, target, monkeypatch, operation):
    """By a writer that looks first and renames then, as Spark's Delta does. It is seen before the
    next commit, and by the next start."""
    log.transaction(insert(A, *[(key, "a") for key in range(5)]))
    log.transaction(insert(A, (9, "b")))

    def write_over(folder: str, version: int) -> None:
        os.remove(log_replay.commit_path(folder, version))
        put(folder, version, [], operation=operation)

    with monkeypatch.context() as patch:
        done = behind_our_commit(patch, write_over)
        error = stopped(log.folder, target, group_max_transactions=1)
    assert (
        error.message == f"version {done[0]} of the table's log was written over by another writer"
    )
    assert error.table == "t.a"
    again = stopped(log.folder, target)
    assert again.message.startswith(
        f"version {done[0]}, which the last cut shows, was written over"
    )
    assert again.table == "t.a" and "snapshot --config F --table t.a" in (again.hint or "")


def test_sleeper_commits_while_the_new_owner_starts(log, target, monkeypatch):
    assert run(log.folder, target)
    log.transaction(insert(A, (2, "a")), insert(B, (2, "a")))
    true, done = LocalDelta.last_txn, list[int]()
    with applier(log.folder, target) as old:

        def last_txn(snapshot: Snapshot, app: str) -> int | None:
            found = true(snapshot, app)
            if not done and snapshot.folder.endswith("/t/a"):
                done.append(1)
                with pytest.raises(FencedError):
                    old.coordinator.apply(old.index.slice(0, old.index.end))
            return found

        monkeypatch.setattr(LocalDelta, "last_txn", staticmethod(last_txn))
        with applier(log.folder, target, take_over=True) as new:
            with pytest.raises(FormerOwnerError):
                new.coordinator.apply(new.index.slice(new.coordinator.mark.position, new.index.end))
            new._go_back()
            new.coordinator.apply(new.index.slice(new.coordinator.mark.position, new.index.end))
    assert rows(target, A) == rows(target, B) == [(2, "a")]


def test_a_file_of_another_table_is_not_this_ones():
    gone = FileNotFoundError(errno.ENOENT, "No such file", "/lake/t/order_items/part-1.parquet")
    assert storage.is_gone(gone, "/lake/t/order_items")
    assert not storage.is_gone(gone, "/lake/t/order")
    encoded = FileNotFoundError(errno.ENOENT, "No such file", "/lake/t/t%C3%A4/part-1.parquet")
    assert storage.is_gone(encoded, "/lake/t/t%C3%A4")


def test_taken_over_behind_a_row_whose_answer_was_lost(tmp_path):
    """Found: the look for it brought the newest handle, and with it went the fence."""
    lost = [1]

    def lose(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        landed = log.commit(rows, commit)
        if lost == [0]:
            lost[0] = 1
            second.claim(take_over=True)
            raise broken()
        return landed

    first, second = Control(str(tmp_path), write_rows=lose), Control(str(tmp_path))
    first.claim()
    lost[0] = 0
    with pytest.raises(FencedError):
        first.write("test", position=1)
    with pytest.raises(FencedError):
        first.write("test", position=2)
    second.write("skip", position=3)


def test_properties_before_an_alter_that_no_cut_shows(log, target, killed):
    """What upkeep sets bears no position: a start looks at it by the columns of its own place."""
    assert run(log.folder, target)
    folder = str(target / "t" / "a")
    delta = LocalDelta()
    delta.set_properties(delta.snapshot(folder), {"delta.appendOnly": "false"}, "")
    log.ddl("ALTER TABLE t.a ADD w INT")
    killed(log, target, lambda at: at == "after_put")
    assert run(log.folder, target)
    wide = Table("a", (*Table("a").columns, ("w", "int")))
    log.transaction(insert(wide, (1, "x", 2)))
    assert run(log.folder, target)
    assert rows(target, wide) == [(1, "x", 2)]

"""Outcomes of a commit: landed, beaten or unknown. The table's log is read before files are
removed, before a retry, and before a commit counts as another writer's. Other writers' commits are
seen at each place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.errors import RowError
from spark_repl.observe.status.status import status
from spark_repl.write.files.compaction import rewrite
from spark_repl.write.files.discard import discard
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import (
    HERE,
    Here,
    LocalDelta,
    applier,
    broken,
    put,
    rows,
    rows_at_cuts,
    run,
    stopped,
)
from tests.support.wait_until import wait_until

A, B = Table("a"), Table("b")


def names_of(actions: list[dict[str, Any]]) -> list[str]:
    return [action["add"]["path"] for action in actions if "add" in action]


def data_files(target: Path) -> set[str]:
    return {path.name for path in (target / "t" / "a").glob("*.parquet")}


# Compaction.


@pytest.fixture
def rewrites(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """``rewrites(before, behind)``: functions that are called before and after the first rewrite's
    commit, to raise or to commit something else. It returns the new files of all attempts."""
    true = LocalDelta.rewrite

    def install(
        before: Callable[[Snapshot], None] = lambda planned: None,
        behind: Callable[[], None] = lambda: None,
    ) -> list[list[str]]:
        tried: list[list[str]] = []

        def rewrite(self: Any, planned: Snapshot, actions: list[Any], app: str) -> int:
            tried.append(names_of(actions))
            if len(tried) == 1:
                before(planned)
            done = true(self, planned, actions, app)
            if len(tried) == 1:
                behind()
            return done

        monkeypatch.setattr(LocalDelta, "rewrite", rewrite)
        return tried

    return install


def apply_until(log: LogWriter, target: Path, tried: list[Any]) -> None:
    """Apply the log until upkeep, in its own thread, has tried what the test waits for."""
    with applier(log.folder, target, group_max_transactions=1) as found:
        found.coordinator.apply(found.index.slice(0, found.index.end))
        wait_until(lambda: tried)


def six_inserts(log: LogWriter) -> list[tuple[int, str]]:
    for key in range(6):
        log.transaction(insert(A, (key, f"v{key}")))
    return [(key, f"v{key}") for key in range(6)]


def test_a_rewrite_that_landed_keeps_its_files(log, target, rewrites):
    def lost() -> None:
        raise broken()

    want, tried = six_inserts(log), rewrites(behind=lost)
    apply_until(log, target, tried)
    assert tried and set(tried[0]) <= data_files(target)
    assert rows(target, A) == want
    assert rows_at_cuts(target, A)[-1] == want


def test_a_rewrite_that_may_still_land_keeps_its_files(log, target, rewrites):
    """The store works on the request when the caller is told that it failed."""
    kept: list[Any] = []

    def unknown(planned: Snapshot) -> None:
        kept.append(planned)
        raise TimeoutError("no answer")

    six_inserts(log)
    with applier(log.folder, target, group_max_transactions=1) as found:
        tried = rewrites(unknown)
        found.coordinator.apply(found.index.slice(0, found.index.end))
        assert found.tracking.tables["t.a"].position == found.index.end
        wait_until(lambda: kept)
    assert kept and tried[0]
    # Groups have taken its version since; who asked before that had to leave the files.
    folder, paths = str(target / "t" / "a"), tried[0]
    assert set(paths) <= data_files(target)
    newest = LocalDelta().version(folder)
    assert discard(folder, paths, tried_behind=newest) == []
    assert set(paths) <= data_files(target)
    assert discard(folder, paths, tried_behind=newest - 1) == paths
    assert not set(paths) & data_files(target)


def test_a_rewrite_that_was_beaten_takes_its_files_away(log, target, rewrites):
    def first(planned: Snapshot) -> None:
        put(planned.folder, planned.version + 1, [])

    want, tried = six_inserts(log), rewrites(first)
    apply_until(log, target, tried)
    assert tried and not set(tried[0]) & data_files(target)
    assert rows(target, A) == want


def test_files_that_no_commit_was_tried_with_go(tmp_path):
    (tmp_path / "x.parquet").touch()
    assert discard(str(tmp_path), ["x.parquet"], tried_behind=None) == ["x.parquet"]
    assert not (tmp_path / "x.parquet").exists()


def test_files_that_a_commit_names_stay(tmp_path):
    """Of rows and of changes: it landed, though its answer was lost."""
    named = {kind: f"{kind}.parquet" for kind in ("add", "cdc")}
    put(str(tmp_path), 1, [{kind: {"path": path}} for kind, path in named.items()])
    for path in (*named.values(), "x.parquet"):
        (tmp_path / path).touch()
    paths = [*named.values(), "x.parquet"]
    assert discard(str(tmp_path), paths, tried_behind=0) == ["x.parquet"]
    assert {path.name for path in tmp_path.glob("*.parquet")} == set(named.values())


def test_what_can_not_be_looked_at_stays(tmp_path):
    (tmp_path / "x.parquet").touch()
    (tmp_path / "_delta_log" / f"{1:020d}.json").mkdir(parents=True)  # EISDIR
    assert discard(str(tmp_path), ["x.parquet"], tried_behind=0) == []
    assert (tmp_path / "x.parquet").exists()


# A group's commit.


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_answer_lost_and_looks_fail(log, target, monkeypatch, looks):
    """Found: one look that failed, and the commit counted as another applier's."""
    log.transaction(insert(A, *[(key, "a") for key in range(50)]))
    log.transaction(update(A, ((1, "a"), (1, "b"))))
    commit, left = LocalDelta.commit, [-1]
    asked = {name: getattr(LocalDelta, name) for name in ("version", "snapshot")}

    def lose(self: Any, *args: Any) -> int:
        done = commit(self, *args)
        if left[0] < 0:
            left[0] = looks
            raise broken()
        return done

    def look(name: str, self: Any, folder: str, *args: Any) -> Any:
        if left[0] > 0 and folder.endswith("/t/a"):
            left[0] -= 1
            raise broken()
        return asked[name](self, folder, *args)

    monkeypatch.setattr(LocalDelta, "commit", lose)
    for name in asked:
        monkeypatch.setattr(LocalDelta, name, partialmethod(partial(look, name)))
    assert run(log.folder, target)
    assert left == [0]
    assert rows(target, A) == [(key, "b" if key == 1 else "a") for key in range(50)]


def test_a_table_that_a_group_leaves_as_it_is_has_no_part_in_it(log, target, monkeypatch):
    """The answer is lost; the table that changes has the group: nothing is tried again."""
    log.transaction(insert(A, (1, "a")), insert(B, (1, "b")), delete(B, (1, "b")))
    commit, lost = LocalDelta.commit, list[str]()

    def lose(self: Any, *args: Any) -> int:
        done = commit(self, *args)
        if not lost:
            lost.append("answer")
            raise broken()
        return done

    monkeypatch.setattr(LocalDelta, "commit", lose)
    assert run(log.folder, target)
    (applier,) = status(str(target))["replication_applier_status"]
    assert (lost, applier["COUNT_TRANSACTIONS_RETRIES"]) == (["answer"], 0)
    assert (rows(target, A), rows(target, B)) == ([(1, "a")], [])


def test_commit_comes_after_it_was_looked_for(log, target):
    """A store that answers with an error, and puts the object all the same, later."""
    log.transaction(insert(A, *[(key, "a") for key in range(5)]))
    late = list[Any]()

    class Late(LocalDelta):
        def commit(self, *args: Any) -> int:
            if not late:
                late.append(args)
                raise TimeoutError("no answer")
            return super().commit(*args)

    def meanwhile(stopping: threading.Event, seconds: float) -> bool:
        if len(late) == 1:
            late.append(LocalDelta().commit(*late[0]))
        return False

    assert run(log.folder, target, parts=replace(HERE, delta_log=Late, wait=meanwhile))
    assert len(late) == 2
    assert rows(target, A) == [(key, "a") for key in range(5)]


def test_a_row_that_does_not_fit_leaves_no_files(log, target):
    log.transaction(insert(A, *[(key, "a") for key in range(5)]))
    assert run(log.folder, target)
    before = data_files(target)
    log.transaction(insert(A, (9, "b")), delete(A, (77, "no such")))
    assert isinstance(stopped(log.folder, target), RowError)
    assert data_files(target) == before


def test_a_rewrite_that_fails_before_any_commit_leaves_no_file(
    log: LogWriter, target: Path
) -> None:
    """Of a table without deletion vectors: the group's own file was there by then."""
    log.transaction(insert(A, (1, "a"), (2, "a")))
    assert run(log.folder, target, vectors=False)
    before = data_files(target)
    log.transaction(insert(A, (3, "a")), delete(A, (1, "a")))

    class NoRewrite(Here):
        def begins(self, function: Any, tasks: Any) -> None:
            if function is rewrite:
                assert len(data_files(target)) == len(before) + 1
                raise ValueError("no rewrite")

    with pytest.raises(ValueError, match="no rewrite"):
        run(log.folder, target, vectors=False, parts=replace(HERE, workers=NoRewrite))
    assert data_files(target) == before

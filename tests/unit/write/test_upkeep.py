"""Upkeep of tables: when VACUUM is due, what is put off, and how it ends."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl.config import Target
from spark_repl.control.layout import Layout
from spark_repl.errors import TargetError
from spark_repl.write import upkeep as module
from spark_repl.write.compaction import Compacted
from spark_repl.write.table import LiveFiles
from spark_repl.write.upkeep import Upkeep

WAIT_S = 10


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``upkeep`` of the tables t.a and t.b, and ``seen``: those that it looked after."""
    monkeypatch.setattr(module.checkpoint, "write_if_due", lambda *_: None)
    clean_log = Upkeep._clean_log
    monkeypatch.setattr(Upkeep, "_clean_log", lambda *_: None)
    tracking, seen = MagicMock(), list[str]()
    tracking.layout = Layout(str(tmp_path))
    tracking.control.prune.return_value = False
    tracking.control.rows.return_value = tracking.control.cuts.return_value = []
    tracking.control.last_cut.return_value = None
    tracking.tables = {f"t.{name}": MagicMock(path=f"t/{name}") for name in "ab"}
    tracking.delta.vacuum.side_effect = lambda folder, spared: seen.append(folder)
    keys = {"compact_files": 0, "vacuum_hours": 2, "cut_retention_hours": 1}
    target: Any = SimpleNamespace(**asdict(Target()) | keys)
    upkeep = Upkeep(tracking, MagicMock(), target, compaction=False)
    return SimpleNamespace(upkeep=upkeep, tracking=tracking, target=target, seen=seen,
                           clean_log=clean_log)  # fmt: skip


def test_vacuum_comes_behind_a_sync(made: Any) -> None:
    """What takes the place of the files that it removes is on the disk."""
    calls = made.tracking.mock_calls
    made.upkeep._vacuum(made.tracking.tables["t.a"])
    names = [str(call).partition("(")[0] for call in calls]
    sync, vacuum = (names.index(f"call.{name}") for name in ("settle.durable.sync", "delta.vacuum"))
    assert sync < vacuum
    made.tracking.settle.durable.sync.side_effect = OSError
    made.seen.clear()
    with pytest.raises(OSError):
        made.upkeep._vacuum(made.tracking.tables["t.a"])
    assert not made.seen


def vacuumed(made: Any, hours_ago: float) -> bool:
    """Whether a table is that was vacuumed so long ago."""
    noted = made.tracking.layout.vacuumed("t/a")
    os.utime(noted, (0, time.time() - 3600 * hours_ago))
    made.upkeep._tend(made.tracking.tables["t.a"])
    return bool(made.seen)


def test_vacuum_comes_every_so_many_hours(made: Any) -> None:
    made.upkeep._tend(made.tracking.tables["t.a"])
    assert not made.seen, "a new table has nothing to remove"
    made.tracking.tables["t.a"].folder = made.tracking.layout.table("t/a")
    indexes = [
        Path(made.tracking.layout.keys("t/a", key)) / "gone.parquet.npy"
        for key in (("id",), ("p",))
    ]
    for index in indexes:  # of the key, and of a foreign key's columns
        index.parent.mkdir(parents=True)
        index.touch()
    assert not vacuumed(made, 1.9) and all(index.exists() for index in indexes)
    assert vacuumed(made, 2.1) and not any(index.exists() for index in indexes)
    made.upkeep._tend(made.tracking.tables["t.a"])
    assert len(made.seen) == 1, "not again that soon"
    made.target.vacuum_hours = 0
    vacuumed(made, 99)
    assert len(made.seen) == 1


def test_replaced_tables_go_when_cuts_were_pruned(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    monkeypatch.setattr(module, "remove_replaced", lambda *found: asked.append(found[2]) or [])
    for prunes, hours in ((False, 2), (True, 0), (True, 2)):
        made.tracking.control.prune.return_value, made.target.vacuum_hours = prunes, hours
        made.upkeep._changed = {"t.a"}
        made.upkeep._work()
    assert asked == [1]


@pytest.mark.parametrize("error", [TargetError("storage"), OSError("storage"), ValueError("a bug")])
def test_what_fails_in_one_table_is_put_off(
    made: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    done = list[str]()

    def one(self: Upkeep, table: Any) -> None:
        done.append(table.path)
        raise error

    monkeypatch.setattr(Upkeep, "_tend", one)
    made.upkeep._changed = {"t.a", "t.b", "t.gone"}
    made.upkeep._work()
    assert sorted(done) == ["t/a", "t/b"]


def test_one_thread_looks_after_all_until_it_is_closed(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go, done = threading.Event(), threading.Event(), list[str]()

    def one(self: Upkeep, table: Any) -> None:
        began.set()
        assert go.wait(WAIT_S)
        done.append(table.path)

    monkeypatch.setattr(Upkeep, "_tend", one)
    upkeep: Upkeep = made.upkeep
    upkeep.look([])
    assert not upkeep._working
    upkeep.look(["t.a"])
    assert began.wait(WAIT_S)
    upkeep.look(["t.b"])
    closing = threading.Thread(target=upkeep.close)
    closing.start()
    while not upkeep._closed:
        time.sleep(0.001)
    go.set()
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert done == ["t/a"], "nothing is begun any more"
    upkeep.look(["t.b"])
    assert done == ["t/a"]


def test_it_looks_again_at_what_changes_later(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()
    monkeypatch.setattr(Upkeep, "_tend", lambda self, table: done.append(table.path))
    for number in range(1, 4):
        made.upkeep.look(["t.a"])
        deadline = time.monotonic() + WAIT_S
        while (len(done) < number or made.upkeep._working) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert len(done) == number
    made.upkeep.close()


def test_a_rewrite_is_in_vain_where_the_rows_may_lie_elsewhere(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have committed since it was planned, or positions were read anew."""
    actions = [{"remove": {"path": "old"}}, {"add": {"path": "new"}}]
    checked = list[list[str]]()
    monkeypatch.setattr(module, "actions_of", lambda *_, **__: actions)
    monkeypatch.setattr(module, "check_files", lambda _, paths: checked.append(paths))
    table, done, origin = made.tracking.tables["t.a"], Compacted((), (0,), None), object()
    table.name = "t.a"
    made.tracking.commits.live.return_value = LiveFiles(4, {}, origin)
    assert made.upkeep._rewrites(table, LiveFiles(3, {}, origin), [done]) == actions
    assert checked == [["new"]]
    assert made.upkeep._rewrites(table, LiveFiles(4, {}, object()), [done]) == []
    made.tracking.tables["t.a"] = MagicMock()
    assert made.upkeep._rewrites(table, LiveFiles(3, {}, origin), [done]) == []


@pytest.mark.parametrize(("enough", "tracked", "compacts"), [(2, 0, 1), (2, 1, 0), (0, 0, 0)])
def test_rows_that_keep_an_id_are_not_moved(
    made: Any, monkeypatch: pytest.MonkeyPatch, enough: int, tracked: int, compacts: int
) -> None:
    done = list[Any]()
    monkeypatch.setattr(Upkeep, "_compact", lambda self, table: done.append(table))
    made.upkeep._enough = enough
    table = made.tracking.tables["t.a"]
    table.snapshot.has = lambda name: bool(tracked) and name == "delta.enableRowTracking"
    made.upkeep._tend(table)
    assert len(done) == compacts


@pytest.mark.parametrize(("compaction", "compacts"), [(True, 1), (False, 0)])
def test_a_writer_without_compaction_of_its_own_has_none(
    made: Any, monkeypatch: pytest.MonkeyPatch, compaction: bool, compacts: int
) -> None:
    done = list[Any]()
    monkeypatch.setattr(Upkeep, "_compact", lambda self, table: done.append(table))
    made.target.compact_files = 4
    table = made.tracking.tables["t.a"]
    table.snapshot.has = lambda name: False
    Upkeep(made.tracking, MagicMock(), made.target, compaction=compaction)._tend(table)
    assert len(done) == compacts


def test_commits_are_removed_each_time_so_many_have_come(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = list[tuple[str, float]]()
    monkeypatch.setattr(Upkeep, "_clean_log", made.clean_log)
    monkeypatch.setattr(
        module, "remove_commits", lambda folder, *_, before, **__: removed.append((folder, before))
    )
    table, due = made.tracking.tables["t.a"], list[int]()
    for version in (499, 500, 999, 1000):
        table.snapshot.version = version
        made.upkeep._tend(table)
        due.append(len(removed))
    assert due == [0, 1, 1, 2]
    hours = made.target.commit_retention_hours
    assert {folder for folder, _ in removed} == {table.folder}
    assert removed[-1][1] == pytest.approx(time.time() - 3600 * max(hours, 1), abs=60)

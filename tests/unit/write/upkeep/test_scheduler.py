"""Upkeep: when VACUUM runs, what is retried later, and how the scheduler ends."""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_repl.config import Target
from spark_repl.control.records.copies import Copy, record_copy
from spark_repl.control.records.replaced_tables import touch
from spark_repl.control.records.retention import Retention, pin, recorded
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.delta.files.delta_columns import schema_json
from spark_repl.delta.log import log_state
from spark_repl.delta.log.add_actions import AddActions
from spark_repl.delta.log.log_state import LogState
from spark_repl.delta.log.retention_properties import RETENTION, hours_of, retention_properties
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store.remover import Remover
from spark_repl.errors import ConcurrentChangeError, FencedError, TargetError
from spark_repl.gtid import GtidSet
from spark_repl.write.files.compaction import Compacted
from spark_repl.write.files.write_task import LiveFile
from spark_repl.write.tables.table import LiveFiles
from spark_repl.write.upkeep import scheduler
from spark_repl.write.upkeep.scheduler import UpkeepScheduler
from spark_repl.write.upkeep.table_maintenance import TableMaintenance
from tests.support.tended import make_older
from tests.support.wait_until import wait_until

WAIT_S = 60


@pytest.fixture
def case(tmp_path: Path) -> Any:
    """``upkeep`` of the tables t.a and t.b, which tells ``tended`` of them; ``maintenance``."""
    tracking, tended = MagicMock(), list[Any]()
    tracking.layout = Layout(str(tmp_path))
    tracking.control.prune.return_value = False
    tracking.control.rows.return_value = tracking.control.cuts.return_value = []
    tracking.control.last_cut.return_value = None
    tracking.tables = {f"t.{name}": MagicMock(path=f"t/{name}", is_shared=False) for name in "ab"}
    for table in tracking.tables.values():
        table.snapshot = MagicMock(version=1, is_managed=False, folder=str(tmp_path / table.path))
        table.snapshot.configuration = retention_properties(24)
    tracking.commits.live.return_value = LiveFiles(1, AddActions(None, {}), object())
    keys = {"compact_files": 0, "vacuum_hours": 2, "cut_retention_hours": 1}
    target: Any = SimpleNamespace(**asdict(Target()) | keys)
    upkeep = UpkeepScheduler(tracking, target, lambda table: case.tend(table), tended.append)
    case = SimpleNamespace(upkeep=upkeep, tracking=tracking, target=target)
    case.tend, case.tended = tended.append, tended
    case.maintenance = TableMaintenance(tracking, MagicMock(), target)
    return case


def unneeded(case: Any) -> Path:
    """A file of the table t.a that no version names, and that is old enough to go."""
    table = case.tracking.tables["t.a"]
    table.folder = case.tracking.layout.table("t/a")
    if not os.path.isdir(table.folder):
        new = NewTable(schema_json(pa.schema([("id", pa.int64())])), retention_properties(24))
        TableLog().create(table.folder, new, Stamp("app", 1, "{}"))
    path = Path(table.folder, "part-1.parquet")
    path.touch()
    os.utime(path, (0, time.time() - 3600 * 200))
    return path


def test_vacuum_runs_after_a_sync(case: Any) -> None:
    """The files that replace the removed ones are on the disk first."""
    file, synced = unneeded(case), list[bool]()
    sync = case.tracking.barrier.durable.sync
    sync.side_effect = lambda folder: synced.append(file.exists())
    case.maintenance._vacuum(case.tracking.tables["t.a"])
    assert synced == [True] and not file.exists()
    sync.side_effect, file = OSError, unneeded(case)
    with pytest.raises(OSError):
        case.maintenance._vacuum(case.tracking.tables["t.a"])
    assert file.exists()


@pytest.mark.parametrize(
    ("there", "raised"),
    [
        ("23 hours", True),
        ("24 hours", False),
        ("interval 1 day", False),
        ("x", False),
        ("12 hours", True),
    ],
)
def test_vacuum_runs_after_the_retention_was_extended(case: Any, there: str, raised: bool) -> None:
    """Files stay as long as the longest tier of cuts: 24 hours."""
    table = case.tracking.tables["t.a"]
    table.snapshot.configuration = retention_properties(24) | {RETENTION[0]: there}
    file, raises = unneeded(case), list[bool]()
    set_properties = case.tracking.commits.set_properties
    set_properties.side_effect = lambda *_: raises.append(file.exists())
    case.maintenance._vacuum(table)
    assert raises == [True] * raised and not file.exists()
    if raised:
        set_properties.assert_called_once_with(table, {RETENTION[0]: "interval 24 hours"})


def test_vacuum_keeps_files_of_pinned_cuts(case: Any, tmp_path: Path) -> None:
    """VACUUM keeps the files of the version that a pinned cut names, not those of other cuts."""
    table = case.tracking.tables["t.a"]
    table.folder = str(tmp_path / "t" / "a")
    control = case.tracking.control = Control(case.tracking.layout.control)
    control.claim()
    files = list[Path]()
    for version in range(3):
        write_deltalake(table.folder, pa.table({"id": [version]}), mode="overwrite")
        (name,) = [Path(file).name for file in DeltaTable(table.folder).file_uris()]
        files.append(Path(table.folder, name))
        shown = {"t.a": TableVersion("t/a", version, "m", 1)}
        control.publish(Cut(version + 1, "", "log", {}, shown))
    pin(control, control.cuts()[1], "month_end")

    make_older(Path(table.folder), 400)
    case.maintenance._vacuum(table)
    assert [file.exists() for file in files] == [False, True, True]


def test_vacuum_takes_the_time_before_it_reads_the_pins(case: Any) -> None:
    """If VACUUM sleeps after that, it removes nothing newer: a cut that is pinned meanwhile was
    kept."""
    file, folder = unneeded(case), case.tracking.layout.table("t/a")
    os.utime(file, (0, time.time() - 3600 * 23.9))
    assert vacuum(folder, Remover(), time.time()) == 0 and file.exists()
    assert vacuum(folder, Remover(), time.time() + 3600) == 1 and not file.exists()


def test_no_longer_promise_while_a_table_cannot_extend_its_retention(case: Any) -> None:
    """The old promise is kept and pruned by; the longer promise comes when all tables can keep
    it."""
    case.tracking.tables["t.b"].snapshot.configuration = retention_properties(23)
    case.tracking.commits.set_properties.side_effect = [ConcurrentChangeError("somebody"), None]
    case.upkeep._changed = {"t.a"}
    control = case.tracking.control
    for promises in (0, 1):
        case.upkeep._changed = {"t.a"}
        case.upkeep._work()
        assert control.write.call_count == promises
        assert control.prune.called


@pytest.mark.parametrize(
    ("interval", "hours"),
    [("interval 168 hours", 168), ("INTERVAL 1 week", 168), ("interval 1 day 2 hours", 26),
     ("2 weeks", 336), ("interval 90 minutes", 1.5), ("interval 1 month", math.inf),
     ("30.5 days", 732), ("1209600000 milliseconds", 336), ("interval -1 days", math.inf)],
)  # fmt: skip
def test_an_interval_property_is_read_in_hours(interval: str, hours: float) -> None:
    assert hours_of(interval) == hours


def vacuumed(case: Any, hours_ago: float) -> bool:
    """Whether a table is that was vacuumed so long ago."""
    noted = case.tracking.layout.vacuumed("t/a")
    os.utime(noted, (0, time.time() - 3600 * hours_ago))
    file = unneeded(case)
    case.maintenance.maintain(case.tracking.tables["t.a"])
    return not file.exists()


def test_vacuum_runs_every_vacuum_hours(case: Any) -> None:
    file = unneeded(case)
    case.maintenance.maintain(case.tracking.tables["t.a"])
    assert file.exists(), "a new table has nothing to remove"
    indexes = [
        Path(case.tracking.layout.keys("t/a", key)) / "gone.parquet.npy"
        for key in (("id",), ("p",))
    ]
    for index in indexes:  # of the key, and of a foreign key's columns
        index.parent.mkdir(parents=True)
        index.touch()
    assert not vacuumed(case, 1.9) and all(index.exists() for index in indexes)
    assert vacuumed(case, 2.1) and not any(index.exists() for index in indexes)
    file = unneeded(case)
    case.maintenance.maintain(case.tracking.tables["t.a"])
    assert file.exists(), "not again that soon"
    case.target.vacuum_hours = 0
    assert not vacuumed(case, 99)


@pytest.mark.parametrize("hours", [0, 2])
def test_indexes_of_files_that_a_foreign_vacuum_removed_are_removed(case: Any, hours: int) -> None:
    """If only other writers run VACUUM, indexes are checked once a day."""
    table, layout = case.tracking.tables["t.a"], case.tracking.layout
    case.target.vacuum_hours, table.folder = hours, layout.table("t/a")
    index = Path(layout.keys("t/a", ("id",))) / "gone.parquet.npy"
    index.parent.mkdir(parents=True)
    index.touch()
    case.maintenance.maintain(table)
    for ago_h in ((hours or 24) - 0.1, (hours or 24) + 0.1):
        assert index.exists(), "not that soon"
        os.utime(layout.forgotten("t/a"), (0, time.time() - 3600 * ago_h))
        case.maintenance.maintain(table)
    assert not index.exists()


class Pruned(Control):
    """A control table whose ``prunes`` tells whether rows were removed."""

    prunes = False

    def prune(self, *_: object) -> bool:
        return self.prunes


def test_replaced_tables_are_removed_after_pruning(case: Any, tmp_path: Path) -> None:
    """They are removed after the hours for which cuts are kept, and only if spark_repl runs
    VACUUM."""
    case.tracking.control = control = Pruned(Layout(str(tmp_path)).control)
    control.claim()
    record_copy(control, Copy(GtidSet(), {}, {"t.a": "t/a@2"}, error="it is gone"))
    folder, noted = tmp_path / "t/a@2", case.tracking.layout.replaced("t/a@2")
    folder.mkdir(parents=True)
    touch(noted)
    cases = [(False, 2, 3700), (True, 0, 3700), (True, 2, 3500), (True, 2, 3700)]
    for control.prunes, case.target.vacuum_hours, ago_s in cases:
        assert folder.exists()
        os.utime(noted, (0, time.time() - ago_s))
        case.upkeep._changed = {"t.a"}
        case.upkeep._work()
    assert not folder.exists() and case.tended.count("t/a@2") == 1


def test_a_first_promise_extends_all_tables_that_cuts_show(case: Any, tmp_path: Path) -> None:
    """Nothing was recorded, as a run ended before: with files kept for less, perhaps."""
    case.tracking.control = control = Pruned(Layout(str(tmp_path)).control)
    control.claim()
    control.publish(Cut(1, "", "log", {}, {"t.gone": TableVersion("t/gone", 1, "m", 1)}))
    shorter = Snapshot("", 1, "m", '{"fields": []}', retention_properties(6), LogState(1, {}, {}))
    case.tracking.delta.snapshot.return_value = shorter
    case.upkeep._changed = {"t.a"}
    case.upkeep._work()
    case.tracking.delta.snapshot.assert_called_once_with(case.tracking.layout.table("t/gone"))
    case.tracking.delta.set_properties.assert_called_once()
    assert recorded(control) == Retention.of(case.target)


@pytest.mark.parametrize("error", [TargetError("storage"), OSError("storage"), ValueError("a bug")])
def test_a_failure_in_one_table_does_not_stop_the_others(case: Any, error: Exception) -> None:
    done = list[str]()

    def one(table: Any) -> None:
        done.append(table.path)
        raise error

    case.tend = one
    case.upkeep._changed = {"t.a", "t.b", "t.gone"}
    case.upkeep._work()
    assert sorted(done) == ["t/a", "t/b"]
    assert case.tracking.control.prune.call_count == 3, "which rows are needed is no table's"


@pytest.mark.parametrize("error", [TargetError("storage"), ValueError("a bug")])
def test_a_failed_step_does_not_stop_the_next_steps(case: Any, error: Exception) -> None:
    """VACUUM fails each time, and the log is still cleaned up. The first error is raised."""
    table, maintenance = case.tracking.tables["t.a"], case.maintenance
    case.tracking.barrier.durable.sync.side_effect = error
    maintenance._clean_log = case.tended.append
    touch(case.tracking.layout.vacuumed("t/a"))
    with pytest.raises(type(error)):
        vacuumed(case, 3)
    assert case.tended == [table]
    case.tracking.barrier.durable.sync.side_effect = FencedError("another")
    with pytest.raises(FencedError):
        maintenance.maintain(table)
    assert case.tended == [table], "who has lost the target does nothing more to it"


def test_a_missing_file_is_reported_until_it_is_back(case: Any, tmp_path: Path) -> None:
    """Another failure is no such thing, nor ends it."""
    table, lacks = case.tracking.tables["t.a"], dict[str, str]()
    table.name, table.folder = "t.a", str(tmp_path / "t" / "a")
    upkeep = UpkeepScheduler(case.tracking, case.target, lambda table: case.tend(table), print,
                    lacks.__setitem__)  # fmt: skip
    gone = tmp_path / "t" / "a" / "part-1.parquet"
    for said, told in ((TargetError("storage"), False), (None, True), (OSError("x"), True)):

        def tend(table: Any, said: Exception | None = said) -> None:
            if said is not None:
                raise said
            gone.read_bytes()

        case.tend, upkeep._changed = tend, {"t.a"}
        upkeep._work()
        assert bool(lacks.get("t.a")) == told
    assert str(gone) in lacks["t.a"]
    case.tend, upkeep._changed = case.tended.append, {"t.a"}
    upkeep._work()
    assert lacks == {"t.a": ""}


def test_a_file_that_another_writer_rewrote_is_not_reported(case: Any, tmp_path: Path) -> None:
    """By OPTIMIZE, and removed by VACUUM: the newest version, not looked at yet, has its rows."""
    table, lacks = case.tracking.tables["t.a"], dict[str, str]()
    table.name, table.folder = "t.a", str(tmp_path / "t" / "a")
    upkeep = UpkeepScheduler(case.tracking, case.target,
                    lambda table: (tmp_path / "t" / "a" / "part-1.parquet").read_bytes(), print,
                    lacks.__setitem__)  # fmt: skip
    for newest in (False, True):
        case.tracking.delta.is_newest.return_value = newest
        upkeep._changed = {"t.a"}
        upkeep._work()
        assert bool(lacks) == newest


def test_one_thread_maintains_all_tables_until_close(case: Any) -> None:
    began, go, done = threading.Event(), threading.Event(), list[str]()

    def one(table: Any) -> None:
        began.set()
        assert go.wait(WAIT_S)
        done.append(table.path)

    case.tend = one
    upkeep: UpkeepScheduler = case.upkeep
    upkeep.schedule([])
    assert not upkeep._working
    upkeep.schedule(["t.a"])
    assert began.wait(WAIT_S)
    upkeep.schedule(["t.b"])
    closing = threading.Thread(target=upkeep.close)
    closing.start()
    wait_until(lambda: upkeep._closed)
    go.set()
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert done == ["t/a"], "nothing is begun any more"
    upkeep.schedule(["t.b"])
    assert done == ["t/a"]


def test_later_changes_are_maintained_again(case: Any) -> None:
    done = case.tended
    for number in range(1, 4):
        case.upkeep.schedule(["t.a"])
        wait_until(lambda number=number: len(done) >= number and not case.upkeep._working, WAIT_S)
        assert len(done) == number
    case.upkeep.close()


def test_a_table_is_compacted_once_when_it_rests(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while groups change it; and the end of the applier does not wait for it."""
    monkeypatch.setattr(scheduler, "REST_S", 0.2)
    rested, done = list[Any](), case.tended
    upkeep = UpkeepScheduler(case.tracking, case.target, done.append, print, at_rest=rested.append)
    a, b = case.tracking.tables["t.a"], case.tracking.tables["t.b"]
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        upkeep.schedule(["t.a"] if done.count(b) else ["t.a", "t.b"])
        wait_until(lambda: not upkeep._working, WAIT_S)
    assert rested.count(b) == 1, "although another table changes"
    wait_until(lambda: a in rested, WAIT_S)
    upkeep.schedule(["t.b"])
    wait_until(lambda: len(rested) == 3, WAIT_S)
    assert [table is b for table in rested] == [True, False, True]
    monkeypatch.setattr(scheduler, "REST_S", 1000.0)
    upkeep.schedule(["t.a"])
    wait_until(lambda: not upkeep._working, WAIT_S)
    upkeep.close()
    assert len(rested) == 3


def test_a_rewrite_is_dropped_if_rows_may_have_moved(case: Any, tmp_path: Path) -> None:
    """Other writers have committed since the plan, or the files were read again."""
    old = {"path": "old", "size": 1, "partitionValues": {}, "modificationTime": 0}
    done = Compacted((LiveFile("old", None),), (0, 1), {"path": "new", "size": 1})
    table, origin = case.tracking.tables["t.a"], object()
    table.name, table.folder, table.has_vectors = "t.a", str(tmp_path), True

    def rewrites(planned: Any) -> list[str]:
        live = LiveFiles(4, AddActions(None, {"old": old}), origin)
        case.tracking.commits.live.return_value = live
        found = case.maintenance._rewrites(
            table, LiveFiles(3, AddActions(None, {}), planned), [done]
        )
        return [kind for action in found for kind in action]

    with pytest.raises(ConcurrentChangeError, match="new is gone"):
        rewrites(origin)
    (tmp_path / "new").touch()
    assert rewrites(origin) == ["remove", "add"]
    assert rewrites(object()) == []
    case.tracking.tables["t.a"] = MagicMock()
    assert rewrites(origin) == []


@pytest.mark.parametrize(("enough", "tracked", "compacts"), [(2, 0, 1), (2, 1, 0), (0, 0, 0)])
def test_tables_with_row_tracking_are_not_compacted(
    case: Any, enough: int, tracked: int, compacts: int
) -> None:
    case.target.compact_files = enough
    table = case.tracking.tables["t.a"]
    table.snapshot.has = lambda name: bool(tracked) and name == "delta.enableRowTracking"
    TableMaintenance(case.tracking, MagicMock(), case.target).maintain(table)
    assert case.tracking.commits.live.call_count == compacts


def test_old_commits_are_removed_every_500_commits(case: Any, tmp_path: Path) -> None:
    """Commits older than commit_retention_hours are removed."""
    table, left = case.tracking.tables["t.a"], list[int]()
    table.folder = str(tmp_path / "t" / "a")
    case.target.commit_retention_hours = 30
    control = case.tracking.control = Control(case.tracking.layout.control)
    control.claim()
    for version in (499, 500, 999, 1000):
        written, log = pa.table({"id": [version]}), Path(table.folder, "_delta_log")
        for _ in range(3):
            write_deltalake(table.folder, written, mode="append")
        DeltaTable(table.folder).create_checkpoint()
        for path in sorted(log.glob("0*.json"))[:-2]:
            os.utime(path, (0, time.time() - 3600 * 31))
        for path in sorted(log.glob("0*.json"))[-2:]:
            os.utime(path, (0, time.time() - 3600 * 29))
        newest = DeltaTable(table.folder).version()
        control.publish(Cut(version, "", "log", {}, {"t.a": TableVersion("t/a", newest, "m", 1)}))
        table.snapshot.version, table.snapshot.state = version, log_state.load(table.folder)
        case.maintenance.maintain(table)
        left.append(len(list(log.glob("0*.json"))))
    # What cuts name stays, and what a checkpoint needs; a cut of the last minute is not known.
    assert left == [3, 6 - 2, 4 + 3, 7 + 3 - 2]

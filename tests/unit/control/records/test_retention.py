"""Which cuts are promised: each for a while, then the last of each minute, of each hour, and pinned
ones."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_repl.config import Target
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import (
    Retention,
    pin,
    pins,
    promised_rows,
    recorded,
    unpin,
)
from spark_repl.control.records.table_paths import announce
from spark_repl.control.table import control as module
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, RowsCommit
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.row_formats import SCHEMA
from spark_repl.delta.log.durable import Durable
from spark_repl.errors import ConfigError, TargetError
from spark_repl.write.upkeep.file_retention import PromisedVersions

NOW = datetime(2026, 1, 10, 12, 0, 30, tzinfo=UTC)
TIERS = Retention(1, 24, 168)
CUT = Cut(1, "", "log", {}, {})


def kept(*ages: timedelta) -> list[bool]:
    """Of cuts of these ages, oldest first."""
    ends = TIERS.until([NOW - age for age in ages], NOW)
    return [end > NOW for end in ends]


def test_each_cut_of_the_last_hour_is_promised() -> None:
    assert kept(*(timedelta(seconds=s) for s in (3599, 3598, 2, 1, 0))) == [True] * 5


def test_the_last_of_each_minute_of_a_day() -> None:
    """11:00:29.5, 11:00:59.5, 11:00:59.9, 11:01:10: of the first three only the third."""
    ages = [timedelta(hours=1, seconds=s) for s in (1, -29.5, -29.9, -40)]
    later = timedelta(hours=3)
    assert kept(*(age + later for age in ages)) == [False, False, True, True]


def test_the_last_of_each_hour_of_a_week() -> None:
    """A day and more ago, at 11:58, 11:59:50 and 12:00:10, the last one before 12:59."""
    day = timedelta(hours=24)
    ages = [day + timedelta(seconds=s) for s in (150, 40, 20)]
    assert kept(*ages) == [False, True, True]
    ages = [timedelta(hours=167) + age - day for age in ages]
    assert kept(*ages) == [False, True, True]
    week = timedelta(hours=168)
    assert kept(week + timedelta(seconds=1), week - timedelta(seconds=1)) == [False, True]


def test_a_promise_ends_with_its_hours() -> None:
    week = timedelta(hours=168)
    ages = [week, week - timedelta(hours=1), timedelta()]
    detail = CUT.to_detail()
    rows = [
        {"kind": "cut", "epoch": 1, "position": position, "detail": detail, "at": NOW - age,
         "gtid_executed": ""}
        for position, age in enumerate(ages, 1)
    ]  # fmt: skip
    left = promised_rows(pa.Table.from_pylist(rows, SCHEMA), 1, TIERS, NOW)
    assert left.column("position").to_pylist() == [2, 3]


def test_cuts_of_thousands_of_tables_come_to_more_than_an_arrow_array_takes() -> None:
    """2.3 GB of them, of which the last two are promised: none of the others is copied."""
    each, arrays = 100, 180
    array = pa.array([CUT.to_detail().ljust(130_000)] * each)
    count = each * arrays
    ages = [2.0] * (count - 2) + [0.5, 0.0]
    at = pa.array([NOW - timedelta(hours=hours) for hours in ages], pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "kind": ["cut"] * count, "epoch": pa.array([1] * count), "at": at,
            "position": pa.array(range(count)), "gtid_executed": [""] * count,
            "detail": pa.chunked_array([array] * arrays),
        }
    )  # fmt: skip
    left = promised_rows(rows, 1, Retention(1, 1, 1), NOW)
    assert left.column("position").to_pylist() == [count - 2, count - 1]


def test_a_minute_that_has_not_ended_promises_no_more() -> None:
    (end,) = TIERS.until([NOW - timedelta(seconds=1)], NOW)
    assert end == NOW - timedelta(seconds=1) + timedelta(hours=1)
    (end,) = TIERS.until([NOW - timedelta(seconds=1)], NOW + timedelta(minutes=1))
    assert end == NOW - timedelta(seconds=1) + timedelta(hours=24)


def test_tiers_are_read_from_the_configuration() -> None:
    assert Retention.of(Target()) == TIERS
    assert Retention.of(replace(Target(), every_cut_hours=48)) == Retention(48, 48, 168)


@pytest.mark.parametrize(
    ("other", "longer"),
    [((1, 24, 168), False), ((2, 25, 169), False), ((0, 24, 168), True), ((2, 23, 168), True),
     ((2, 24, 167), True)],
)  # fmt: skip
def test_a_promise_that_is_longer_in_any_of_its_tiers(
    other: tuple[int, int, int], longer: bool
) -> None:
    assert TIERS.exceeds(Retention(*other)) is longer


# The control table.


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Control:
    monkeypatch.setattr(module, "_PRUNE_EVERY", 0)
    found = Control(Layout(str(tmp_path / "lake")).control)
    found.claim()
    return found


def publish(control: Control, *ages: float) -> None:
    """Cuts of so many hours ago, the first at position 1."""
    for position, hours in enumerate(ages, 1):
        detail = replace(CUT, position=position).to_detail()
        row = {
            "kind": "cut", "epoch": control.epoch, "position": position, "detail": detail,
            "at": datetime.now(UTC) - timedelta(hours=hours), "gtid_executed": "",
        }  # fmt: skip
        write_deltalake(control.path, pa.Table.from_pylist([row], SCHEMA), mode="append")
    control.release()
    control.claim()


def barrier_of(control: Control) -> DurabilityBarrier:
    return DurabilityBarrier(control, Layout(os.path.dirname(os.path.dirname(control.path))))


def positions(control: Control) -> list[int]:
    return [cut.position for cut in Control(control.path).cuts()]


def test_cuts_are_forgotten_by_their_tiers(control: Control) -> None:
    publish(control, 200, 30.001, 30, 2.001, 2, 0.001, 0)
    assert control.prune(PruneBy(Retention(1, 1, 168)), barrier_of(control))
    assert 1 not in positions(control) and positions(control)[-2:] == [6, 7]
    assert control.prune(PruneBy(Retention(1, 1, 1)), barrier_of(control))
    assert positions(control) == [6, 7]


def test_a_pinned_cut_stays_until_it_is_unpinned(control: Control) -> None:
    Retention(1, 24, 400).record(control)
    publish(control, 300, 200, 0)
    first, second, _ = control.cuts()
    beside = Control(control.path)
    pin(beside, first, "month_end")
    pin(beside, first, "again")
    pin(beside, first, "again")
    with pytest.raises(module.ConcurrentChangeError):  # once: then it has looked at it
        control.prune(PruneBy(TIERS), barrier_of(control))
    assert control.prune(PruneBy(TIERS), barrier_of(control)) and positions(control) == [1, 3]
    assert pins(Control(control.path)).keys() == {"month_end", "again"}
    with pytest.raises(TargetError, match="forgotten"):
        pin(Control(control.path), second, "late")
    with pytest.raises(TargetError, match="pinned already"):
        pin(Control(control.path), control.cuts()[-1], "again")
    with pytest.raises(TargetError, match="no cut is pinned as other") as caught:
        unpin(Control(control.path), "other")
    assert caught.value.hint == "pinned are: again, month_end"
    unpin(Control(control.path), "month_end")
    control.release()
    control.claim()
    assert control.prune(PruneBy(TIERS), barrier_of(control)) and positions(control) == [1, 3]
    assert len(control.rows("pin")) == 1
    unpin(Control(control.path), "again")
    pin(Control(control.path), first, "again")
    assert len(control.rows("pin")) == 3
    control.release()
    control.claim()
    assert control.prune(PruneBy(TIERS), barrier_of(control)) and positions(control) == [1, 3]
    assert len(control.rows("pin")) == 1, "the last that was said of a name"
    unpin(Control(control.path), "again")
    control.release()
    control.claim()
    assert control.prune(PruneBy(TIERS), barrier_of(control)) and positions(control) == [3]
    assert control.rows("pin") == []
    with pytest.raises(TargetError) as caught:
        unpin(Control(control.path), "again")
    assert caught.value.hint == "pinned are: none"


def test_a_cut_that_has_run_out_is_not_pinned(control: Control) -> None:
    """It is in the control table still, but VACUUM may have taken its files, or is about to: it has
    asked for pins. The newest stays however old it is, and so does what is pinned already."""
    Retention(1, 1, 6).record(control)
    publish(control, 8, 6.001, 5.5, 4.9, 7)
    *gone, promised, newest = control.cuts()
    for cut in gone:
        with pytest.raises(TargetError, match=r"is promised until 20.+: files of it") as caught:
            pin(control, cut, "month_end")
        assert "another hour" in str(caught.value.hint)
    assert pins(control) == {}
    pin(control, promised, "kept")
    pin(control, newest, "newest")
    Retention(1, 1, 2).record(control)
    pin(control, promised, "again")
    assert pins(control).keys() == {"kept", "newest", "again"}
    for name in ("kept", "again"):
        unpin(control, name)
    with pytest.raises(TargetError, match="files of it"):
        pin(control, promised, "again")


@pytest.mark.parametrize(
    ("longest", "age", "refused"), [(168, 0.9, False), (1, 0.9, True), (1, 0.7, False)]
)
def test_a_cut_in_its_last_minutes_may_not_be_pinned(
    control: Control, longest: int, age: float, refused: bool
) -> None:
    """Each is promised for an hour. Where nothing is promised for longer its files may go then;
    else they stay for a week."""
    Retention(1, 1, longest).record(control)
    publish(control, age, 0)
    with pytest.raises(TargetError) if refused else contextlib.nullcontext():
        pin(control, control.cuts()[0], "month_end")
    assert len(pins(control)) == (not refused)


@pytest.mark.parametrize("name", ["", "a b", "1st", "latest", "latest:1-2", "x" * 65])
def test_pins_with_other_names_are_refused(control: Control, name: str) -> None:
    publish(control, 0)
    with pytest.raises(ConfigError, match="no name of a cut"):
        pin(Control(control.path), control.cuts()[0], name)


def test_a_pin_can_not_land_behind_what_forgets_its_cut(control: Control) -> None:
    """Pruned between the look and the commit: it looks again."""
    Retention(1, 24, 400).record(control)
    publish(control, 300, 0)
    first = control.cuts()[0]

    class Beside(Control):
        def rows(self, kind: str) -> list[dict[str, object]]:
            found = super().rows(kind)
            if kind == "pin" and len(control.cuts()) > 1:
                control.prune(PruneBy(TIERS), barrier_of(control))
            return found

    with pytest.raises(TargetError, match="forgotten"):
        pin(Beside(control.path), first, "late")
    assert pins(Control(control.path)) == {}


def test_an_answer_that_was_lost_pins_and_unpins_once(control: Control) -> None:
    publish(control, 0)
    lost = [True]

    def write(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        landed = log.commit(rows, commit)
        if lost:
            lost.pop()
            raise OSError("timed out")
        return landed

    pin(Control(control.path, write_rows=write), control.cuts()[0], "once")
    assert len(Control(control.path).rows("pin")) == 1
    lost.append(True)
    unpin(Control(control.path, write_rows=write), "once")
    assert not lost and pins(Control(control.path)) == {}
    assert len(Control(control.path).rows("pin")) == 2
    with pytest.raises(TargetError, match="no cut is pinned as once"):
        unpin(Control(control.path, write_rows=write), "once")


def test_the_promise_is_recorded_when_it_changes(control: Control) -> None:
    assert recorded(control) == TIERS
    Retention(2, 3, 4).record(control)
    Retention(2, 3, 4).record(control)
    assert recorded(Control(control.path)) == Retention(2, 3, 4)
    assert [json.loads(row["detail"]) for row in control.rows("retention")] == [
        {"every": 2, "minute": 3, "hour": 4}
    ]


def test_versions_that_are_promised(control: Control) -> None:
    """Of each cut; of those that are pinned; and behind which a start looks at every commit."""

    def at(path: str, version: int) -> TableVersion:
        return TableVersion(path, version, "m", 1)

    versions = [{"t.a": at("t/a", 3), "t.b": at("t/b", 1)}, {"t.a": at("t/a", 4)},
                {"t.a": at("t/a@2", 0)}]  # fmt: skip
    for position, tables in enumerate(versions, 1):
        control.publish(replace(CUT, position=position, tables=tables))
    pin(Control(control.path), control.cuts()[0], "first")
    promised = PromisedVersions(Control(control.path))
    assert promised.retained == {"t/a": {3, 4}, "t/b": {1}, "t/a@2": {0}}
    assert promised.pinned == {"t/a": {3}, "t/b": {1}}
    assert promised.begin == {"t/a@2": 0}


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_control_tables_checkpoint_is_synced_when_it_is_asked_for(
    control: Control, monkeypatch: pytest.MonkeyPatch, checkpoint: bool
) -> None:
    synced = list[str]()
    barrier = barrier_of(control)
    monkeypatch.setattr(barrier.durable, "sync_checkpoint", synced.append)
    barrier(checkpoint=checkpoint)
    assert synced == [control.path] * checkpoint


def test_tables_are_on_the_disk_before_the_cut_that_names_them(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that no cut shows any more; and no cut that came meanwhile."""
    target = os.path.dirname(os.path.dirname(control.path))
    for path in ("t/a", "t/b"):
        announce(control, "t.a", path, 1, "made")
        write_deltalake(os.path.join(target, path), pa.table({"id": [1]}))
    control.publish(replace(CUT, tables={"t.a": TableVersion("t/b", 0, "m", 1)}))
    rows, newest = os.path.relpath(control.path, target), Durable(target).newest(control.path)
    steps, true, first = list[str](), os.fsync, threading.Lock()

    def fsync(fd: int) -> None:
        true(fd)
        steps.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), target))
        if first.acquire(blocking=False):  # several threads sync, in any order
            control.publish(replace(CUT, position=2))

    monkeypatch.setattr(os, "fsync", fsync)
    barrier_of(control)()
    assert steps[0].startswith(("t/a/", "t/b/"))
    cut, later = (f"{rows}/_delta_log/{newest + more:020d}.json" for more in (0, 1))
    assert os.path.exists(os.path.join(target, later)) and later not in steps
    before = steps[: steps.index(cut)]
    assert {f"{path}/_delta_log/{0:020d}.json" for path in ("t/a", "t/b")} <= set(before)

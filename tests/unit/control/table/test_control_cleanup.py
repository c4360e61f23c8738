"""Tidying: of the control table's files only those stay that its log, or who writes just now,
needs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import RowsCommit
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConcurrentChangeError


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "lake"))


@pytest.fixture
def control(layout: Layout) -> Control:
    found = Control(layout.control)
    found.claim()
    return found


def files(control: Control) -> set[str]:
    return {path.name for path in Path(control.path).glob("*.parquet")}


def live(control: Control) -> set[str]:
    return {os.path.basename(uri) for uri in DeltaTable(control.path).file_uris()}


def age(control: Control, names: set[str], seconds: float) -> None:
    for name in names:
        os.utime(os.path.join(control.path, name), (0, time.time() - seconds))


def beaten_commit(control: Control) -> set[str]:
    """Return the files of a commit that another process's commit preceded."""
    stale, there = control._open(), files(control)
    control.publish(Cut(len(control.cuts()) + 1, "", "log", {}, {}))
    written = files(control)
    with pytest.raises(ConcurrentChangeError):
        stale.commit(control._rows_of(stale), RowsCommit(replaces=True))
    left = files(control) - written
    assert left and not left & (there | live(control))
    return left


def test_what_commits_that_failed_have_left_goes_behind_an_hour(
    control: Control, layout: Layout
) -> None:
    """No commit ever names it. Younger ones may be of a commit that is about to be made."""
    old, young = beaten_commit(control), beaten_commit(control)
    age(control, old, 3700)
    age(control, young, 3500)
    assert control.prune(PruneBy(Retention(1, 1, 1)), DurabilityBarrier(control, layout), due=True)
    assert not old & files(control)
    assert young <= files(control)
    assert [cut.position for cut in Control(control.path).cuts()] == [1, 2]


def test_what_was_replaced_goes_though_its_removal_is_forgotten(
    control: Control, layout: Layout
) -> None:
    """A checkpoint says nothing of what was removed longer ago than the table's retention: a week,
    in which a slow source makes no hundred commits."""
    control.publish(Cut(1, "", "log", {}, {}))
    DeltaTable(control.path).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    )
    control.release()
    later = Control(control.path)
    later.claim()
    for _ in range(2):
        assert later.prune(PruneBy(Retention(1, 1, 1)), DurabilityBarrier(later, layout), due=True)
        age(later, files(later) - live(later), 3700)
    assert later.prune(PruneBy(Retention(1, 1, 1)), DurabilityBarrier(later, layout), due=True)
    assert len(files(later) - live(later)) <= 1, "the rewrite before the last alone"
    assert [cut.position for cut in Control(later.path).cuts()] == [1]

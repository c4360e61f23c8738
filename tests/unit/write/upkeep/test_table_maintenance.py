"""Upkeep goes by the time of day: a clock that is wrong must not remove what is young."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from spark_repl.config import Target
from spark_repl.control.records.replaced_tables import touch
from spark_repl.control.table.layout import Layout
from spark_repl.runtime.wall_clock import WallClock
from spark_repl.write.upkeep.file_retention import properties
from spark_repl.write.upkeep.scheduler import Upkeep
from spark_repl.write.upkeep.table_maintenance import Tending

TARGET = replace(Target(), vacuum_hours=2, compact_files=0)


class Host:
    """``jumped``: by so many seconds its clock is ahead. ``note``: when VACUUM was last."""

    def __init__(self, folder: Path) -> None:
        self.jumped, self.tracking = 0.0, MagicMock()
        self.tracking.layout = Layout(str(folder))
        self.tracking.control.prune.return_value = False
        self.tracking.control.rows.return_value = self.tracking.control.cuts.return_value = []
        self.tracking.control.last_cut.return_value = None
        clock = WallClock(lambda: time.time() + self.jumped)
        self.tending = Tending(self.tracking, MagicMock(), TARGET, clock)
        self.upkeep = Upkeep(self.tracking, TARGET, self.tending.tend, print, clock=clock)
        self.table = MagicMock(path="t/a", folder=str(folder / "t" / "a"))
        self.table.snapshot = MagicMock(version=10_000, folder=self.table.folder)
        self.table.snapshot.configuration = properties(24)
        self.tracking.tables = {"t.a": self.table}
        (folder / "t" / "a" / "_delta_log").mkdir(parents=True)
        self.note = self.tracking.layout.vacuumed("t/a")

    def vacuums(self, old_h: float) -> int:
        """How often there was a VACUUM, when the last one is said to have been so long ago."""
        touch(self.note)
        at = time.time() - 3600 * old_h
        os.utime(self.note, (at, at))
        self.tending._vacuum_if_due(self.table)
        return int(self.tracking.settle.durable.sync.call_count)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(("old_h", "due"), [(1.9, 0), (2.1, 1), (-0.9, 0), (-1.1, 1)])
def test_a_note_from_ahead_is_of_a_clock_that_was_wrong(host: Host, old_h: float, due: int) -> None:
    assert host.vacuums(old_h) == due


def test_nothing_goes_by_a_clock_that_has_jumped_ahead(host: Host) -> None:
    for jumped, calls in ((7 * 86400.0, 0), (0.0, 1)):
        host.jumped = jumped
        assert host.vacuums(3) == calls
        host.tending._clean_log(host.table)
        # VACUUM asks for each file, the clean-up of the log at least once.
        assert host.tracking.control.check_owner.call_count == calls
        host.upkeep._prune()
        assert host.tracking.control.prune.call_count == calls

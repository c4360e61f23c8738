"""Table maintenance with a wrong clock: nothing young is removed."""

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
from spark_repl.delta.log.retention_properties import retention_properties
from spark_repl.runtime.wall_clock import WallClock
from spark_repl.write.upkeep.scheduler import UpkeepScheduler
from spark_repl.write.upkeep.table_maintenance import TableMaintenance

TARGET = replace(Target(), vacuum_hours=2, compact_files=0)


class Host:
    """A host whose clock is ``jumped`` seconds ahead. ``note``: the file whose time is that of the
    last VACUUM."""

    def __init__(self, folder: Path) -> None:
        self.jumped, self.tracking = 0.0, MagicMock()
        self.tracking.layout = Layout(str(folder))
        self.tracking.control.prune.return_value = False
        self.tracking.control.rows.return_value = self.tracking.control.cuts.return_value = []
        self.tracking.control.last_cut.return_value = None
        clock = WallClock(lambda: time.time() + self.jumped)
        self.maintenance = TableMaintenance(self.tracking, MagicMock(), TARGET, clock)
        self.upkeep = UpkeepScheduler(
            self.tracking, TARGET, self.maintenance.maintain, print, clock=clock
        )
        self.table = MagicMock(path="t/a", folder=str(folder / "t" / "a"))
        self.table.snapshot = MagicMock(version=10_000, folder=self.table.folder)
        self.table.snapshot.configuration = retention_properties(24)
        self.tracking.tables = {"t.a": self.table}
        (folder / "t" / "a" / "_delta_log").mkdir(parents=True)
        self.note = self.tracking.layout.vacuumed("t/a")

    def vacuums(self, old_h: float) -> int:
        """Return how often VACUUM runs, if the note is ``old_h`` hours old."""
        touch(self.note)
        at = time.time() - 3600 * old_h
        os.utime(self.note, (at, at))
        self.maintenance._vacuum_if_due(self.table)
        return int(self.tracking.barrier.durable.sync.call_count)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(("old_h", "due"), [(1.9, 0), (2.1, 1), (-0.9, 0), (-1.1, 1)])
def test_a_note_from_the_future_comes_from_a_wrong_clock(
    host: Host, old_h: float, due: int
) -> None:
    assert host.vacuums(old_h) == due


def test_nothing_is_removed_if_the_clock_jumped_ahead(host: Host) -> None:
    for jumped, calls in ((7 * 86400.0, 0), (0.0, 1)):
        host.jumped = jumped
        assert host.vacuums(3) == calls
        host.maintenance._clean_log(host.table)
        # VACUUM asks for each file, the clean-up of the log at least once.
        assert host.tracking.control.check_owner.call_count == calls
        host.upkeep._prune()
        assert host.tracking.control.prune.call_count == calls

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
from spark_repl.write.upkeep.file_retention import keep_files
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
        self.table.snapshot = MagicMock(version=10_000, is_managed=False, folder=self.table.folder)
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


def test_a_catalog_does_the_upkeep_of_its_tables(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but checkpoints: it forbids to others what removes or rewrites files."""
    steps = list[str]()
    for name in ("_checkpoint", "_compact", "_vacuum_if_due", "_forget_if_due", "_clean_log"):
        monkeypatch.setattr(
            host.maintenance, name, lambda table, step=name: steps.append(step)
        )  # fmt: skip
    host.maintenance.maintain(host.table)
    assert len(steps) == 5
    steps.clear()
    host.table.snapshot.is_managed = True
    host.maintenance.maintain(host.table)
    host.maintenance.compact_at_rest(host.table)
    assert steps == ["_checkpoint", "_forget_if_due"]
    host.table.snapshot.configuration = {}
    keep_files(host.tracking.commits, host.table, 10_000)
    assert host.tracking.commits.set_properties.call_count == 0

"""Pruning of cuts by upkeep: which promise counts before all tables keep their files for a longer
one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl.config import Target
from spark_repl.control.records.copies import Copy, record_copy
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.replaced_tables import touch
from spark_repl.control.records.retention import Retention, recorded
from spark_repl.control.table.control import Barrier, Control, PruningRules
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log.log_state import LogState
from spark_repl.delta.log.retention_properties import retention_properties
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.gtid import GtidSet
from spark_repl.write.upkeep.scheduler import UpkeepScheduler

SHORT, LONG = Retention(1, 1, 6), Retention(1, 1, 48)


class Noted(Control):
    """Notes by which promise cuts are forgotten, and whether at once; only then rows go."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.pruned = list[tuple[Retention, bool]]()

    def prune(
        self, rules: PruningRules, barrier: Barrier,
        gone: Callable[[], Collection[str]] = frozenset, *, due: bool = False,
    ) -> bool:  # fmt: skip
        assert isinstance(rules, PruneBy)
        self.pruned.append((rules.retention, due))
        return due


class Kept:
    """A target with t.a, whose files are kept for some hours; its cut shows t.gone, too, which is
    there no more. ``forgotten``: the replaced tables that upkeep has removed."""

    def __init__(self, folder: Path, hours: int, promised: Retention, now: Retention) -> None:
        self.tracking = tracking = MagicMock()
        tracking.layout = Layout(str(folder))
        tracking.control = self.control = Noted(tracking.layout.control)
        self.control.claim()
        shown = {f"t.{name}": TableVersion(f"t/{name}", 1, "m", 1) for name in ("a", "gone")}
        self.control.publish(Cut(1, "", "log", {}, shown))
        promised.record(self.control)
        table = MagicMock(path="t/a")
        table.snapshot.is_managed = False
        table.name, table.snapshot.configuration = "t.a", retention_properties(hours)
        tracking.tables = {"t.a": table}
        snapshot = Snapshot(
            "", 1, "m", '{"fields": []}', retention_properties(hours), LogState(1, {}, {})
        )
        tracking.delta.snapshot.return_value = snapshot
        self.forgotten = list[str]()
        target: Any = Target(
            path=str(folder), vacuum_hours=1, every_cut_hours=now.every,
            minute_cut_hours=now.minute, cut_retention_hours=now.hour,
        )  # fmt: skip
        self.upkeep = UpkeepScheduler(tracking, target, lambda table: None, self.forgotten.append)

    def replace(self, path: str) -> None:
        """A table that a copy replaced long ago, and no cut shows."""
        record_copy(self.control, Copy(GtidSet(), {}, {"t.b": path}, error="it is gone"))
        (Path(self.tracking.layout.target) / path).mkdir(parents=True)
        noted = self.tracking.layout.replaced(path)
        touch(noted)
        os.utime(noted, (0, time.time() - 3600 * 99))


@pytest.mark.parametrize("hours", [6, 48])
def test_unpromised_cuts_are_pruned_before_a_longer_promise(tmp_path: Path, hours: int) -> None:
    """Also where the tables keep their files for longer already, as an attempt before this one has
    made them; tables that were replaced go with the cuts."""
    kept = Kept(tmp_path, hours, SHORT, LONG)
    kept.replace("t/b@2")
    kept.upkeep._prune()
    assert kept.control.pruned == [(SHORT, True), (LONG, False)]
    assert recorded(kept.control) == LONG and kept.forgotten == ["t/b@2"]


def test_the_old_promise_counts_while_a_table_cannot_extend_its_retention(tmp_path: Path) -> None:
    kept = Kept(tmp_path, 6, SHORT, LONG)
    kept.tracking.commits.set_properties.side_effect = OSError("read-only")
    kept.upkeep._prune()
    assert kept.control.pruned == [(SHORT, False)] and recorded(kept.control) == SHORT


@pytest.mark.parametrize(("now", "asked"), [(LONG, 1), (SHORT, 0)])
def test_untracked_tables_of_cuts_are_extended_only_for_a_longer_promise(
    tmp_path: Path, now: Retention, asked: int
) -> None:
    kept = Kept(tmp_path, 48, SHORT if now is LONG else LONG, now)
    kept.upkeep._prune()
    assert kept.tracking.delta.snapshot.call_count == asked
    assert kept.control.pruned[-1] == (now, False) and recorded(kept.control) == now

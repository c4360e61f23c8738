"""Runs with all of the upkeep that is due behind them, and files that are old enough for it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl import Config
from spark_repl.apply.start.replica import Parts, Replica
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention
from spark_repl.control.table import control as control_module
from spark_repl.control.table.control import Control, PruningRules
from spark_repl.write.upkeep import table_maintenance
from spark_repl.write.upkeep.scheduler import UpkeepScheduler
from tests.support.local_delta import HERE, applier, apply_without_stream
from tests.support.wait_until import wait_until

KEYS = {"cut_retention_hours": 1, "vacuum_hours": 1}
_LONG_AGO_S = 50 * 3600


def hurry(monkeypatch: pytest.MonkeyPatch, *, often: bool = True) -> None:
    """What is done every hundred commits, or five hundred, is done at each, if ``often``."""
    if often:
        monkeypatch.setattr(control_module, "_PRUNE_EVERY", 0)
        monkeypatch.setattr(table_maintenance, "_CLEAN_EVERY", 0)


class _Hurried(Control):
    """Nothing but the last cut is promised."""

    def prune(self, rules: PruningRules, *args: Any) -> bool:
        return super().prune(PruneBy(Retention(0, 0, 0)), *args)


PARTS = replace(HERE, control=_Hurried)


def age(*folders: Path) -> None:
    """All that lies there was written, and removed from tables, two days ago."""
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        _was_removed_earlier(path, _LONG_AGO_S)
        os.utime(path, (0, time.time() - _LONG_AGO_S))


def make_older(folder: Path, hours: float) -> None:
    """All that lies there was written, and removed from tables, so much earlier."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        written_s = path.stat().st_mtime
        _was_removed_earlier(path, 3600 * hours)
        os.utime(path, (0, written_s - 3600 * hours))


def _was_removed_earlier(path: Path, seconds: float) -> None:
    """The ``remove`` actions of a commit or a checkpoint are so much older."""
    if path.parent.name != "_delta_log" or path.stat().st_size == 0:
        return
    milliseconds = int(1000 * seconds)
    if re.fullmatch(r"\d{20}\.json", path.name):
        text = path.read_text("utf-8")
        earlier = re.sub(r'(?<="deletionTimestamp":)( ?)(\d+)', _minus(milliseconds), text)
        if earlier != text:
            path.write_text(earlier, "utf-8")
    elif path.name.endswith(".checkpoint.parquet"):
        table = pq.read_table(path)
        rows = table.to_pylist()
        for row in rows:
            if row.get("remove"):
                row["remove"]["deletionTimestamp"] -= milliseconds
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def _minus(milliseconds: int) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{found[1]}{int(found[2]) - milliseconds}"


def tended(
    relay: Path, target: Path, channel: str = Config.channel, *,
    keys: Mapping[str, int] = KEYS, parts: Parts = PARTS,
) -> None:  # fmt: skip
    """A run with all of the upkeep that is due behind it. ``keys``: of [target]."""
    with applier(relay, target, keys=keys, parts=parts, channel=channel) as found:
        apply_without_stream(found)
        for _ in range(2):
            tend(found)


def tend(found: Replica, *names: str) -> None:
    """Run all upkeep that is due after a change of the tables ``names``, by default of all."""
    workers, target = HERE.workers(None, 2, found.config), found.config.target  # type: ignore[arg-type]
    maintenance = table_maintenance.TableMaintenance(found.tracking, workers, target)
    upkeep = UpkeepScheduler(found.tracking, target, maintenance.maintain, maintenance.forget)
    upkeep.schedule(names or found.tracking.tables)
    finish(upkeep)
    upkeep.close()


def finish(upkeep: UpkeepScheduler) -> None:
    """Wait for the upkeep of all changed tables, but not until they are at rest."""
    wait_until(lambda: not upkeep._working)

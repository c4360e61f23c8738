"""Runs with all of the upkeep that is due behind them, and files that are old enough for it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl import Config
from spark_repl.apply.replica import Replica
from spark_repl.apply.replica_parts import Parts
from spark_repl.control import control as control_module
from spark_repl.control.control import Control
from spark_repl.control.retention import Retention
from spark_repl.delta.deletion_vector import path_of
from spark_repl.delta.storage import data_file
from spark_repl.write import tending
from spark_repl.write.file_retention import RETENTION, hours_of
from spark_repl.write.promised import files_of
from spark_repl.write.upkeep import Upkeep
from tests.support.local_delta import HERE, LocalDelta, applier, apply_without_stream

KEYS = {"cut_retention_hours": 1, "vacuum_hours": 1}
_LONG_AGO_S = 50 * 3600


def _vacuum(self: LocalDelta, folder: str, spared: Collection[str] = ()) -> None:
    """Delta's, without Spark: what the newest version does not name goes, if it was written and
    removed longer ago than the table's retention is. A commit's file is as old as the commit."""
    newest = self.snapshot(folder)
    assert newest is not None
    before = time.time() - 3600 * hours_of(newest.configuration[RETENTION[0]])
    kept = files_of(folder, [newest.version]) | set(spared)
    for commit in Path(folder, "_delta_log").glob("*.json"):
        if commit.stat().st_mtime >= before:
            lines = map(json.loads, commit.read_text("utf-8").splitlines())
            kept |= set().union(
                *(_removed(folder, one["remove"]) for one in lines if "remove" in one)
            )
    for path in [path for path in Path(folder).rglob("*.*") if path.is_file()]:
        name = path.relative_to(folder).as_posix()
        if name.startswith("_delta_log/") or name in kept:
            continue
        with suppress(FileNotFoundError):  # of a compaction that was in vain
            if path.stat().st_mtime < before:
                path.unlink()


def _removed(folder: str, remove: dict[str, Any]) -> set[str]:
    vector = remove.get("deletionVector")
    name = path_of(folder, vector) if vector else None
    return {data_file("", remove["path"])} | ({os.path.relpath(name, folder)} if name else set())


def hurry(monkeypatch: pytest.MonkeyPatch, *, often: bool = True) -> None:
    """What is done every hundred commits, or five hundred, is done at each, if ``often``; and there
    is a VACUUM."""
    if often:
        monkeypatch.setattr(control_module, "_PRUNE_EVERY", 0)
        monkeypatch.setattr(tending, "_CLEAN_EVERY", 0)
    monkeypatch.setattr(LocalDelta, "vacuum", _vacuum, raising=False)


class _Hurried(Control):
    """Nothing but the last cut is promised."""

    def prune(self, retention: Retention, *args: Any) -> bool:
        return super().prune(Retention(0, 0, 0), *args)


PARTS = replace(HERE, control=_Hurried)


def age(*folders: Path) -> None:
    """All that lies there was written two days ago."""
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        os.utime(path, (0, time.time() - _LONG_AGO_S))


def tended(
    relay: Path, target: Path, channel: str = Config.channel, *,
    keys: Mapping[str, int] = KEYS, parts: Parts = PARTS,
) -> None:  # fmt: skip
    """A run with all of the upkeep that is due behind it. ``keys``: of [target]."""
    with applier(relay, target, keys=keys, parts=parts, channel=channel) as found:
        apply_without_stream(found)
        for _ in range(2):
            tend(found)


def tend(found: Replica) -> None:
    """All of the upkeep that is due."""
    workers, names = HERE.workers(None, 2), list(found.tracking.tables)  # type: ignore[arg-type]
    target = found.config.target
    one = tending.Tending(found.tracking, workers, target, compaction=True)
    upkeep = Upkeep(found.tracking, target, one.tend, one.forget)
    upkeep.look(names)
    upkeep._pool.submit(int).result()
    upkeep.close()

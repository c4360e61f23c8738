"""What a thousand tables cost the applier's Python side, without Spark (tests/support/local_delta).

    python -m tests.bench.many_tables DIR --tables 1000 [--groups 200] [--cuts 2000] [--profile]

A log of CREATE TABLEs is applied, and groups of one row, by turns into ten of the tables; then a
control table of its own is given so many cuts, half a second apart, in which ten tables change, is
pruned, and read in another process. The last line is JSON: seconds of a core, MiB of a process.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spark_repl.bench.memory import pss_kib
from spark_repl.control.cuts.cut_reader import find_cut
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.pending_rows import RowTimes
from spark_repl.write.upkeep.file_retention import PromisedVersions
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import applier, run

_CHANGED = 10


def _pss_mib() -> int:
    return pss_kib(os.getpid()) // 1024


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return round(time.process_time() - began, 4)


def _tables(count: int) -> list[Table]:
    return [Table(f"a{number:05}") for number in range(count)]


def groups(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Has the CREATE TABLEs applied, then the groups, one by one, by an applier that is started
    behind them."""
    log, tables = LogWriter(folder / "log"), _tables(options.tables)
    log.ddl("CREATE DATABASE t")
    for table in tables:
        log.ddl(table.create)
    found: dict[str, Any] = {"create_s": _timed(lambda: run(log.folder, folder / "lake"))}
    reads, true, profile = [0], Control._rows_of, cProfile.Profile()

    def counted(self: Control, table: Any) -> Any:
        reads[0] += 1
        return true(self, table)

    began = time.process_time()
    with patch.object(Control, "_rows_of", counted), applier(log.folder, folder / "lake") as at:
        found |= {"start_s": round(time.process_time() - began, 3), "start_mib": _pss_mib()}
        reads[0] = 0

        def apply() -> None:
            for number in range(options.groups):
                log.transaction(insert(tables[number % _CHANGED], (number, "x")))
                index = at.opened.applied.refresh()
                at.coordinator.apply(index.slice(at.coordinator.mark.position, index.end))

        if options.profile:
            profile.enable()
        seconds = _timed(apply)
        profile.disable()
        found |= {"group_s": round(seconds / options.groups, 4), "groups_mib": _pss_mib()}
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    return found | {"full_reads": reads[0]}


def age(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Publishes cuts, half a second apart up to now, and prunes them."""
    layout = Layout(str(folder / "aged"))
    control = Control(layout.control)
    control.claim()
    tables = {
        f"t.{table.name}": TableVersion(f"t/{table.name}", 0, "m" * 36, 1 << 40)
        for table in _tables(options.tables)
    }
    names, now = list(tables), datetime.now(UTC)
    ages = [timedelta(seconds=0.5 * number) for number in range(options.cuts, 0, -1)]
    ages = [one + timedelta(minutes=50) for one in ages]
    began = time.process_time()
    with patch.object(RowTimes, "of", lambda self, kind, position, held: now - ages[position]):
        for number in range(options.cuts):
            for at in range(_CHANGED):
                name = names[(number * _CHANGED + at) % len(names)] if options.spread else names[at]
                tables[name] = replace(tables[name], version=number, position=number + (1 << 40))
            control.publish(Cut(number, "", "log", {}, dict(tables)))
    found: dict[str, Any] = {
        "publish_s": round((time.process_time() - began) / options.cuts, 5),
        "files_mib": _size(layout.control),
    }
    barrier = DurabilityBarrier(control, layout)
    for name in ("prune_s", "prune_again_s"):
        found[name] = _timed(
            lambda: control.prune(PruneBy(Retention(1, 24, 168)), barrier, due=True)
        )
    return {**found, "kept": control.cut_count(), "pruned_mib": _size(layout.control, live=True),
            "prune_peak_mib": _peak_mib()}  # fmt: skip


def _size(folder: str, *, live: bool = False) -> int:
    files = list(Path(folder).glob("*.parquet"))
    files = [max(files, key=os.path.getmtime)] if live else files
    return sum(file.stat().st_size for file in files) >> 20


def _peak_mib() -> int:
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def read(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Reads that control table as a process does that has just been started."""
    before = _pss_mib()
    control = Control(Layout(str(folder / "aged")).control)
    found: dict[str, Any] = {"latest_s": _timed(lambda: find_cut(control, "latest"))}
    found["held_mib"] = _pss_mib() - before
    now = datetime.now(UTC) - timedelta(minutes=55)
    found["at_time_s"] = _timed(lambda: find_cut(control, now.isoformat()))
    found["promised_s"] = _timed(lambda: PromisedVersions(control))
    return found


_STEPS = {"groups": groups, "age": age, "read": read}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--cuts", type=int, default=2000)
    parser.add_argument("--spread", action="store_true", help="the tables change by turns")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--step", choices=list(_STEPS), default=None)
    parser.add_argument("--only", default="", help="steps, with commas")
    options = parser.parse_args()
    if options.step:
        print(json.dumps(_STEPS[options.step](options.folder, options)))
        return
    found: dict[str, Any] = {"tables": options.tables}
    for step in options.only.split(",") if options.only else _STEPS:
        command = [sys.executable, "-m", __spec__.name, *sys.argv[1:], "--step", step]
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        *said, last = ran.stdout.splitlines()
        print("\n".join(said))
        found |= json.loads(last)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

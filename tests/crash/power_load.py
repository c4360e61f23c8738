"""What runs on a disk that loses its power: receiver, applier, upkeep and purge in one process.

``python -m tests.crash.power_load SOURCE DISK NOTES FAILURES [emptied]``: receives and applies a
history, step by step, and throws away whatever may go as soon as it may. At each moment where
something has gone it puts what the disk would be, if the power failed then, below FAILURES; it ends
as a process does whose machine has gone. ``emptied``: what was not synced is there without bytes,
where its name was.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spark_repl.apply.start.replica import Replica
from spark_repl.control.table import control
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog
from spark_repl.control.table.control_snapshot import Row
from spark_repl.control.transaction_files.xa_store import XaStore
from spark_repl.crash_points import listening
from spark_repl.delta.log import checkpoint_schedule
from spark_repl.delta.log.log_replay import Action
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.service.applied_purge import purge_applied
from spark_repl.write.upkeep import table_maintenance
from spark_repl.write.upkeep.scheduler import UpkeepScheduler
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.dump_stream import receive
from tests.support.local_delta import HERE, Crash, LocalDelta, applier, apply_without_stream
from tests.support.power import fail, identity
from tests.support.tended import tend

A, B = Table("a"), Table("b")
STEPS = 8
KILLED = 4  # the step behind whose cut the applier is, before its branch has gone
LIMITS = Limits(segment_size_bytes=1500)
HOURS = dict.fromkeys(("every_cut_hours", "minute_cut_hours", "cut_retention_hours"), 1)
KINDS = {
    "relay file": r"/relay/relay\.\d+",
    "commit of the control table": r"/_repl/control/_delta_log/\d+\.json",
    "commit of a table": r"/lake/t/\w+/_delta_log/\d+\.json",
    "branch": r"/_repl/xa/[\d-]+\.events",
}
"""what goes when something else stands for it -> how the paths of such files end"""


def xid(step: int) -> tuple[bytes, bytes, int]:
    return b"%d" % step, b"", 1


def write_step(log: LogWriter, step: int) -> None:
    """Each ends the branch that the one before has prepared; the first two know of none."""
    if step == 0:
        for statement in ("CREATE DATABASE t", A.create, B.create):
            log.ddl(statement)
        log.transaction(insert(A, (0, "0")))
    else:
        log.transaction(update(A, ((0, f"{step - 1}"), (0, f"{step}"))), insert(B, (step, "x")))
    if step > 2:
        log.xa_end("COMMIT" if step % 3 else "ROLLBACK", xid(step - 1))
    if step > 1:
        log.xa_prepare(xid(step), insert(A, (100 + step, "xa")), insert(B, (100 + step, "xa")))


def rows_behind(steps: int) -> tuple[list[Any], list[Any]]:
    """Of t.a and t.b."""
    xa = [(99 + step, "xa") for step in range(3, steps) if step % 3]
    return [(0, f"{steps - 1}"), *xa], [(step, "x") for step in range(1, steps)] + xa


class Failures:
    """Copies of what the disk would be: behind each crash point that matters, and behind the first
    file of each of ``KINDS`` that goes in a step. Any thread may take one."""

    def __init__(self, disk: Path, notes: Path, folder: Path, *, emptied: bool) -> None:
        self._of, self._folder, self._emptied = (identity(disk), notes), folder, emptied
        self._count = itertools.count(1)
        self._seen = set[str]()

    def now(self, why: str) -> None:
        left = self._folder / f"{next(self._count):03d} {why}"
        fail(*self._of, left, emptied=self._emptied)

    def at(self, name: str) -> None:
        if name == "after_cut":
            self.now(name)

    def step(self, number: int) -> None:
        """What goes from now on goes in another step."""
        self.now(f"end of step {number}")
        self._seen.clear()

    def gone(self, path: str) -> None:
        """A file has just been removed."""
        for kind, end in KINDS.items():
            if kind not in self._seen and re.search(end + "$", path):
                self._seen.add(kind)
                self.now(f"{kind} removed")


class OldCuts(Control):
    """Each is two hours old at once: it may go as soon as there is another one."""

    def _row(self, *said: Any, **more: Any) -> Row:
        row = super()._row(*said, **more)
        return {**row, "at": row["at"] - timedelta(hours=2)}


class OldCommits(LocalDelta):
    """Each is years old at once: it may go as soon as others stand for it."""

    def create(self, folder: str, new: NewTable, stamp: Stamp) -> None:
        super().create(folder, new, stamp)
        _dated(folder, 0)

    def commit(self, planned: Snapshot, actions: list[Action], stamp: Stamp) -> int:
        return _dated(planned.folder, super().commit(planned, actions, stamp))

    def rewrite(self, planned: Snapshot, actions: list[Action], app: str) -> int:
        return _dated(planned.folder, super().rewrite(planned, actions, app))


def _dated(folder: str, version: int) -> int:
    os.utime(Path(folder, "_delta_log", f"{version:020d}.json"), (0, 0))
    return version


def _telling(true: Callable[..., None], failures: Failures) -> Callable[..., None]:
    def remove(path: Any, **options: Any) -> None:
        true(path, **options)
        failures.gone(os.fspath(path))

    return remove


def main(source: Path, disk: Path, notes: Path, folder: Path, *, emptied: bool) -> None:
    failures, log = Failures(disk, notes, folder, emptied=emptied), LogWriter(source)
    true = ControlLog.needless_files

    def needless_files(log: ControlLog, before_s: float) -> list[str]:
        paths = true(log, before_s + 2 * 3600)
        failures.now("control table vacuumed")
        return paths

    with ExitStack() as stack:
        for module, name, value in (
            (control, "_PRUNE_EVERY", 4), (control, "_CHECKPOINT_EVERY", 3),
            (control, "_OPENED_S", -9), (checkpoint_schedule, "EVERY", 3),
            (table_maintenance, "_CLEAN_EVERY", 3),
            (table_maintenance, "_READ_AGAIN_S", 0), (ControlLog, "needless_files", needless_files),
            (os, "remove", _telling(os.remove, failures)),
            (os, "unlink", _telling(os.unlink, failures)),
        ):  # fmt: skip
            stack.enter_context(patch.object(module, name, value))
        writer = stack.enter_context(RelayWriter(disk / "relay", 9, LIMITS))
        replica: Replica | None = None
        for step in range(STEPS):
            write_step(log, step)
            receive(writer, sorted(source.glob("bin.0*")))
            if step in (0, KILLED + 1):
                if replica:
                    replica.close()
                opened = applier(
                    disk / "relay", disk / "lake", keys=HOURS,
                    parts=replace(HERE, delta_log=OldCommits, control=OldCuts),
                )  # fmt: skip
                replica = stack.enter_context(opened)
                failures.now("started")  # which removes branches, too
                stack.enter_context(listening(failures.at))
            assert replica
            replica.opened.applied.refresh()
            if step == KILLED:
                with patch.object(XaStore, "forget", side_effect=Crash), suppress(Crash):
                    apply_without_stream(replica)
                continue
            with ExitStack() as first:
                if step == 0:  # else power may fail within a new table's first sync (docs/limits)
                    first.enter_context(patch.object(UpkeepScheduler, "schedule"))
                apply_without_stream(replica)
                purge_applied(replica.config, make_durable=replica.tracking.barrier)
                if step == 0:
                    replica.tracking.barrier()
            if step == STEPS - 1:
                tend(replica)  # what was due beside it may be put off by other work
            failures.step(step)
        os._exit(9)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]), emptied="emptied" in sys.argv[5:])

"""What runs on a disk that loses its power: receiver, applier, upkeep and purge in one process.

``python -m tests.crash.power_load SOURCE DISK NOTES FAILURES``: receives and applies a history,
step by step, and throws away whatever may go as soon as it may. At each moment where something has
gone it puts what the disk would be, if the power failed then, below FAILURES; it ends as a process
does whose machine has gone.
"""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deltalake import DeltaTable

from spark_repl.apply.replica import Replica
from spark_repl.control import control, tidying
from spark_repl.control.xa_store import XaStore
from spark_repl.crash_points import listening
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.service.applied_purge import purge_applied
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.dump_stream import receive
from tests.support.local_delta import Crash, applier, apply_without_stream
from tests.support.power import fail, identity

A, B = Table("a"), Table("b")
STEPS = 8
KILLED = 4  # the step behind whose cut the applier is, before its branch has gone
LIMITS = Limits(segment_size_bytes=1500)


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
    """Copies of what the disk would be."""

    def __init__(self, disk: Path, notes: Path, folder: Path) -> None:
        self._of, self._folder = (identity(disk), notes), folder
        self._count = itertools.count(1)

    def now(self, why: str) -> None:
        fail(*self._of, self._folder / f"{next(self._count):03d} {why}")

    def at(self, name: str) -> None:
        if name in ("relay_purged", "after_cut"):
            self.now(name)


def _clean(table: DeltaTable) -> None:
    """What is left of the log when all before the newest checkpoint is old."""
    log = Path(table.table_uri.removeprefix("file://")) / "_delta_log"
    newest = max(path.name[:20] for path in log.glob("*.checkpoint.parquet"))
    for path in log.glob("*.json"):
        if path.name[:20] < newest:
            path.unlink()
    table._table = DeltaTable(table.table_uri)._table  # which knows commits that are gone


def main(source: Path, disk: Path, notes: Path, folder: Path) -> None:
    failures, log = Failures(disk, notes, folder), LogWriter(source)
    true = DeltaTable.vacuum

    def vacuum(table: DeltaTable, hours: int, **options: Any) -> Any:
        _ = true(table, 0, **options)
        failures.now("control table vacuumed")

    with ExitStack() as stack:
        for module, name, value in (
            (control, "_PRUNE_EVERY", 4), (tidying, "_CHECKPOINT_EVERY", 3),
            (DeltaTable, "cleanup_metadata", _clean), (DeltaTable, "vacuum", vacuum),
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
                opened = applier(disk / "relay", disk / "lake", keys={"cut_retention_hours": 1})
                replica = stack.enter_context(opened)
                failures.now("started")  # which removes branches, too
                stack.enter_context(listening(failures.at))
            assert replica
            replica.opened.applied.refresh()
            if step == KILLED:
                with patch.object(XaStore, "forget", side_effect=Crash), suppress(Crash):
                    apply_without_stream(replica)
                continue
            apply_without_stream(replica)
            purged = purge_applied(replica.config, settle=replica.tracking.settle)
            failures.now(f"{step} purged {len(purged.files)}")
        os._exit(9)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""A long run of the applier holds what it held when it was warm: memory, descriptors, threads."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest

from spark_repl.apply.start.replica import Replica
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import applier, rows

A, B = Table("a"), Table("b")
WARM = 40
GROUP_BYTES = 2_000
"""traced memory may grow by so much a group: a commit's name, a cut's row until it is pruned"""
SWING_BYTES = 150_000
"""a table's commits are held up to its log's checkpoint, so what is held is a saw of some 100 KB"""
ROUNDS = 3
"""a leak grows in each round; what upkeep loads once, about 600 KB, in only one of them"""
BESIDE = 5
"""descriptors and threads that the upkeep may be using just then"""


def held() -> tuple[int, int, int]:
    """Bytes that Python holds, open descriptors, threads."""
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0]
    return traced, len(os.listdir("/proc/self/fd")), threading.active_count()


def groups(log: LogWriter, found: Replica, first: int, count: int) -> None:
    """Each a transaction of two tables, as the stream brings it."""
    for key in range(first, first + count):
        log.transaction(insert(A, (key, "x")), insert(B, (key, "x")))
        log.transaction(update(A, ((key, "x"), (key, "y"))))
        coordinator = found.coordinator
        index = found.opened.applied.refresh()
        coordinator.apply(index.slice(coordinator.mark.position, index.end))


def grew(seen: list[tuple[int, int, int]], count: int) -> bool:
    """Return whether memory grew in the last round of ``count`` groups by more than is allowed."""
    return seen[-1][0] - seen[-2][0] >= GROUP_BYTES * count + SWING_BYTES


def measure(folder: Path, target: Path, count: int) -> None:
    """Print what is held after the warm-up and after each round, up to one that did not grow."""
    log = LogWriter(folder)
    for statement in ("CREATE DATABASE t", A.create, B.create):
        log.ddl(statement)
    tracemalloc.start()
    with applier(folder, target) as found:
        groups(log, found, 0, WARM)
        seen = [held()]
        for turn in range(ROUNDS):
            groups(log, found, WARM + turn * count, count)
            seen.append(held())
            if not grew(seen, count):
                break
        print(json.dumps(seen))


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, pytest.param(5000, marks=pytest.mark.soak)])
def test_a_long_run_holds_no_more_memory_descriptors_or_threads(tmp_path: Path, count: int) -> None:
    """In a process of its own: in this one other tests have threads, and fill caches."""
    target = tmp_path / "lake"
    command = [sys.executable, "-m", __name__, tmp_path / "log", target, str(count)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=3600)
    seen = json.loads(ran.stdout.splitlines()[-1])
    (_, *beside), (_, *beside_later) = seen[0], seen[-1]
    assert all(later <= before + BESIDE for before, later in zip(beside, beside_later, strict=True))
    assert not grew(seen, count), seen
    assert len(rows(target, A)) == WARM + (len(seen) - 1) * count


if __name__ == "__main__":
    measure(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))

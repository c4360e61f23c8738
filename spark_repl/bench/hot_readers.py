"""Readers at the hot end of a relay log: processes that follow it as the stream's source does, and
report what they have seen and when.

    python -m spark_repl.bench.hot_readers FOLDER [idle]    one of them, until its input ends

``idle``: the reader takes no processor time from others (SCHED_IDLE). The loss of a receiver at
full speed is then what readers delay it by, and not the sharing of two cores by nine processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..relay.end_watch import EndWatch
from ..relay.index import TransactionIndex, build_index
from ..relay.log import read_while_purged
from ..relay.published_end import End, read_end

_WAIT_S = 0.5
_READY = "ready"


class HotReaders:
    """``count`` readers of ``folder``, which start before the log exists. The caller has to call
    ``published`` with each end of the log."""

    def __init__(self, folder: str, count: int, *, idle: bool = False) -> None:
        self._folder, self._count, self._idle = folder, count, idle
        self._ends: list[tuple[float, int]] = []
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, self._folder, *["idle"] * self._idle]
        for _ in range(self._count):
            pipe = subprocess.PIPE
            self._processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def published(self, end: End) -> None:
        self._ends.append((time.time(), end.position.packed))

    def figures(self) -> dict[str, Any]:
        """End the readers, and return how long after its publication they saw an end, and their
        processor time."""
        if not self._count:
            return {}
        late, cpu = list[float](), 0.0
        for process in self._processes:
            said = json.loads(process.communicate("")[0])
            cpu += said["cpu_s"]
            at = np.array([moment for moment, _ in said["seen"]])
            places = np.array([position for _, position in said["seen"]])
            first = np.searchsorted(places, [position for _, position in self._ends])
            moments = np.array([moment for moment, _ in self._ends])
            met = first < len(places)
            late += (at[first[met]] - moments[met]).tolist()
        half, nine = (float(q) for q in np.quantile(late, (0.5, 0.9)))
        return {
            "seen_p50_ms": round(half * 1000, 2),
            "seen_p90_ms": round(nine * 1000, 2),
            "publications": len(self._ends),
            "readers_cpu_s": round(cpu, 2),
        }


def follow(folder: str, ending: threading.Event) -> list[tuple[float, int]]:
    """Return (time, packed end of the last transaction) of each look at the log."""
    seen: list[tuple[float, int]] = []
    known: TransactionIndex | None = None
    with tempfile.TemporaryDirectory() as store, EndWatch(folder) as watch:

        def see(log: Any) -> TransactionIndex:
            return build_index(log, store, complete=False, previous=known)

        while not ending.is_set():
            if watch.wait(_WAIT_S) and read_end(folder) is not None:
                log, known = read_while_purged(folder, see)
                if log.end is not None:
                    seen.append((time.time(), log.end.packed))
    return seen


def main(folder: str, how: str = "") -> None:
    from ..binlog.events.scan import scan

    scan(np.zeros(0, np.uint8), 0, True)  # compile or load the kernel before the measurement
    ending = threading.Event()

    def watch_input() -> None:
        sys.stdin.read()
        ending.set()

    threading.Thread(target=watch_input, daemon=True).start()
    print(_READY, flush=True)
    if how == "idle":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    began = time.process_time()
    seen = follow(str(Path(folder)), ending)
    print(json.dumps({"seen": seen, "cpu_s": time.process_time() - began}))


if __name__ == "__main__":
    main(*sys.argv[1:])

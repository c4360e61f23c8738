"""Memory of a run with all its processes."""

from __future__ import annotations

import os
import threading

_SAMPLE_S = 0.25
_GROWN = 1.01


class Memory:
    """The peak proportional set size of the process tree (shared pages counted once), in MiB.

    To compute this size, Linux walks all pages, which costs a quarter of a core at four times a
    second. So it is read only if the sum of the resident sizes, which costs nothing, has grown.
    """

    def __init__(self) -> None:
        self.peak_mib = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        highest = 0.0
        while not self._done.wait(_SAMPLE_S):
            tree = _tree()
            resident = sum(_resident(pid) for pid in tree)
            if resident > highest * _GROWN:
                highest = resident
                self.peak_mib = max(self.peak_mib, sum(pss_kib(pid) for pid in tree) // 1024)


def _tree() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", errors="replace") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    pids, waiting = [], [os.getpid()]
    while waiting:
        pid = waiting.pop()
        pids.append(pid)
        waiting += children.get(pid, [])
    return pids


def _resident(pid: int) -> int:
    """Return a process's resident size in pages; 0 if it no longer exists."""
    try:
        with open(f"/proc/{pid}/statm") as line:
            return int(line.read().split()[1])
    except OSError:
        return 0


def pss_kib(pid: int) -> int:
    """Return a process's proportional set size; 0 if it no longer exists."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    except OSError:
        return 0

"""``run`` in a process of its own, and all that a process has started, by kind."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spark_repl.bench.memory import pss_kib


@contextmanager
def running(files: Sequence[Path]) -> Iterator[int]:
    """``spark-repl run`` with these configurations, and its number; it has ended behind it."""
    given = [word for file in files for word in ("--config", str(file))]
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_repl", "run", *given],
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def processes(parent: int) -> Iterator[tuple[int, str]]:
    """Each one's number and kind: ``run`` is the one that is asked about."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    left = [parent]
    while left:
        pid = left.pop()
        left += children.get(pid, [])
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        yield pid, (
            "run" if pid == parent
            else "receiver" if " receive " in command or "forkserver" in command
            else "jvm" if "java" in command.split(" ")[0] else "python workers"
        )  # fmt: skip


def memory_mib(parent: int) -> Counter[str]:
    """Proportional set size of a process and all below it, by kind."""
    found = Counter[str]()
    for pid, kind in processes(parent):
        found[kind] += pss_kib(pid) // 1024
    return found

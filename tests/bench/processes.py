"""A process and all that it has started, by kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


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

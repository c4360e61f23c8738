"""Lanes: without commit order each table takes its parts of the groups by itself, in log order.

A table that is tried again, or that failed for good, holds no other one back: those go on while at
most ``GROUPS_AHEAD`` groups are under way. Each table's own order is kept whatever happens: behind
a part that failed, its lane takes no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

from .apply.stage import Staged
from .errors import CommitOrderError
from .group import RowFault
from .plan import Group
from .position import RelayPosition

# As long as MySQL's queue of assigned groups would be, had it one thread for each of them.
GROUPS_AHEAD = 64


def of_tables(staged: Sequence[Staged], tables: frozenset[str]) -> list[Staged]:
    """What was staged, of some tables only."""
    return [
        replace(
            found,
            definitions={n: d for n, d in found.definitions.items() if n in tables},
            parts=[part for part in found.parts if part.table in tables],
            changes={n: count for n, count in found.changes.items() if n in tables},
        )
        for found in staged
    ]


class Lanes:
    """``write`` brings one table's part of a group into the table, retries and all; it is called
    for each table in the order in which the groups entered. ``enter`` is one thread's alone."""

    def __init__(self, write: Callable[[Group], object]) -> None:
        self._write = write
        self._lanes: dict[str, ThreadPoolExecutor] = {}
        self._parts: dict[int, dict[str, Future[None]]] = {}  # by slot
        self._lock = threading.Lock()
        self._running = 0
        self._failed: set[str] = set()
        self._closed = False

    def refuse(self) -> None:
        """A group can't be entered, so none behind it may be."""
        self._closed = True

    def enter(self, group: Group, staged: Sequence[Staged]) -> None:
        """Queues a part for each table. Raises CommitOrderError behind a group that was refused."""
        if self._closed:
            raise CommitOrderError("a group before this one could not be read", number=3030)
        names = sorted({name for found in staged for name in found.definitions})
        parts = {}
        for name in names:
            if name not in self._lanes:
                self._lanes[name] = ThreadPoolExecutor(1, thread_name_prefix=f"lane-{name}")
            part = replace(group, tables=frozenset([name]), folder=None)
            parts[name] = self._lanes[name].submit(self._one, name, part)
        self._parts[group.slot] = parts

    def _one(self, name: str, part: Group) -> None:
        with self._lock:
            if name in self._failed:
                raise CommitOrderError("a group before this one failed in its table", number=3030)
            self._running += 1
        try:
            self._write(part)
        except BaseException:
            self._failed.add(name)
            raise
        finally:
            with self._lock:
                self._running -= 1

    def finish(self, group: Group) -> None:
        """Returns when all parts of the group are in their tables.

        Raises what failed otherwise, when all others have landed. Only if nothing but rows that
        don't fit failed it is a RowFault, the first one in the log; ``group.tables`` are its
        tables then.
        """
        parts = self._parts.pop(group.slot)
        wait(parts.values())
        errors = {name: error for name, part in parts.items() if (error := part.exception())}
        faults = {n: error for n, error in errors.items() if isinstance(error, RowFault)}
        for error in errors.values():
            if error not in faults.values():
                raise error
        if faults:
            group.tables = frozenset(faults)
            raise min(faults.values(), key=lambda fault: RelayPosition.parse(str(fault.position)))

    @contextmanager
    def standstill(self) -> Iterator[bool]:
        """Whether no table is being written; while it lasts none begins."""
        with self._lock:
            yield not self._running

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.shutdown(wait=True, cancel_futures=True)

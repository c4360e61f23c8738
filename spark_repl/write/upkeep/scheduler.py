"""Upkeep: one thread beside the stream, that has tables tended (``write.tending``) when groups have
changed them, and once more when they change no more (``idle_tables``), and removes what the target
needs no more: rows of the control table, replaced tables.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ...config.renaming import whole_of
from ...control.records.pruning import PruneBy
from ...control.records.replaced_tables import CutPaths, gone_paths, remove_replaced
from ...control.records.retention import Retention, recorded
from ...delta.storage import is_gone
from ...errors import SparkReplError
from ...runtime.java import jvm_end
from ...runtime.retry import first_line
from ...runtime.threads import Pool
from ...runtime.wall_clock import WallClock
from .file_retention import LongerPromise
from .idle_tables import IdleTables

if TYPE_CHECKING:
    from ...config import Target
    from ..tables.table import Table
    from ..tables.tracking import Tracking

log = logging.getLogger(__name__)

_NOTHING, _SEE_S = Retention(0, 0, 0), 60.0


class Upkeep:
    """``tend`` is called with each table that groups have changed, ``forget`` with the path of one
    that was removed, ``lacks`` with a table's name and what says that a file of it is gone, or ""
    when all are there. Whatever fails here is tried again later: the stream goes on, and stops by
    itself when its own commits fail."""

    def __init__(
        self,
        tracking: Tracking,
        target: Target,
        tend: Callable[[Table], None],
        forget: Callable[[str], None],
        lacks: Callable[[str, str], None] = lambda name, why: None,
        clock: WallClock | None = None,
    ) -> None:
        self.tracking, self.target, self._clock = tracking, target, clock or WallClock()
        self._tend, self._forget, self._lacks = tend, forget, lacks
        self._retention = Retention.of(target)
        self._shown = CutPaths(tracking.control)
        self._promise = LongerPromise(tracking, self._retention.longest)
        self._idle = IdleTables(tracking, target)
        self._pool = Pool(1, thread_name_prefix="upkeep")
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._seen_until = 0.0
        self._working = self._closed = False

    def look(self, tables: Iterable[str]) -> None:
        """Takes in which tables a group has just changed; returns at once."""
        with self._lock:
            self._changed.update(tables)
            if self._changed and not self._working and not self._closed:
                self._working = True
                self._pool.submit(self._work)

    def close(self) -> None:
        """Ends what is under way and begins nothing more."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True)

    def _work(self) -> None:
        while (name := self._next()) is not None:
            table = self.tracking.tables.get(name)
            if table is not None:
                self._try(name, partial(self._tend_told, table))
            self._try("tables that other channels feed, too", self._see_shared)
            self._try("the control table", self._prune)
            self._try("idle tables", self._tend_idle)

    def _try(self, name: str, step: Callable[[], None]) -> None:
        """Takes a step, which puts off no other one where it fails."""
        try:
            step()
        # That the JVM has ended is reported by whoever applies, who meets it too.
        except (SparkReplError, OSError) as error:
            if jvm_end(error) is None:
                log.warning("upkeep of %s is put off: %s", name, error)
        except Exception as error:
            if jvm_end(error) is None:
                log.exception("upkeep of %s is put off", name)

    def _see_shared(self) -> None:
        """Looks at tables that other channels feed, too, where this one changes nothing for long:
        the next cut shows a later version then, and the log before may go. Raises as ``refresh``
        of the first of them that can't go on."""
        if time.monotonic() < self._seen_until:
            return
        self._seen_until = time.monotonic() + _SEE_S
        shared = {one.folder: one for one in self.tracking.tables.values() if one.is_shared}
        for table in shared.values():
            with table.lock:
                self.tracking.commits.refresh(table)

    def _tend_idle(self) -> None:
        """Tends tables that are due though no group changes them, until one waits that some has.
        Raises what storage raises of all of them."""
        while not self._closed and (table := self._idle.next()) is not None:
            self._forget(whole_of(table.path))  # its log is cleaned up, however few commits came
            self._try(table.name, partial(self._tend_told, table))
            if self._changed:
                break

    def _tend_told(self, table: Table) -> None:
        """Tends the table; says what it lacks: behind a commit of others, which may have rewritten
        the file, the next time. Raises as ``tend``."""
        try:
            self._tend(table)
        except Exception as error:
            if is_gone(error, table.folder) and self.tracking.delta.is_newest(table.snapshot):
                self._lacks(table.name, first_line(error))
            raise
        self._lacks(table.name, "")

    def _prune(self) -> None:
        """Forgets cuts that are promised no more. The configuration's promise is given when each
        table keeps its files for so long; what was promised for less time, by the record, is
        forgotten before, as files of it may be gone, whoever made the tables keep theirs longer.
        By a clock that is ahead nothing is forgotten. Raises what storage and commits raise."""
        if self._clock.is_ahead():
            return
        control, settle = self.tracking.control, self.tracking.settle
        promised, pruned = recorded(control, self._retention), False
        unlike = self._retention.exceeds(recorded(control, _NOTHING))
        if self._promise.give(lambda: self._closed, of_others=unlike):
            if self._retention.exceeds(promised):
                pruned = control.prune(PruneBy(promised), settle, self._gone_paths, due=True)
            self._retention.record(control)
            promised = self._retention
        if control.prune(PruneBy(promised), settle, self._gone_paths) or pruned:
            self._remove_replaced()

    def _next(self) -> str | None:
        with self._lock:
            if self._closed or not self._changed:
                self._working = False
                return None
            return self._changed.pop()

    def _gone_paths(self) -> set[str]:
        return gone_paths(self.tracking.control, self.tracking.layout, self._shown)

    def _remove_replaced(self) -> None:
        """Removes tables whose place a copy has taken, when the cuts that show them are gone."""
        if self.target.vacuum_hours:
            hours = self.target.cut_retention_hours
            tracking = self.tracking
            for path in remove_replaced(
                tracking.control, tracking.layout, hours, tracking.settle, self._shown
            ):
                self._forget(path)
                log.info("%s was replaced by a copy, and is in no cut any more: removed", path)

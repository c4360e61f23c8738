"""Upkeep scheduler: one thread beside the stream that decides when tables get upkeep.

It passes tables to ``table_maintenance`` after groups have changed them, again after ``REST_S``
without a change, and once more when they are idle (``idle_tables``). It also removes what the
target no longer needs: rows of the control table, and replaced tables.
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
from ...control.records.replaced_tables import gone_paths, remove_replaced
from ...control.records.retention import Retention, recorded
from ...delta.store.storage import is_gone
from ...errors import SparkReplError
from ...runtime.java import jvm_end
from ...runtime.retry import first_line
from ...runtime.threads import Pool
from ...runtime.wall_clock import WallClock
from .file_retention import RetentionExtension
from .idle_tables import IdleTables

if TYPE_CHECKING:
    from ...config import Target
    from ..tables.table import Table
    from ..tables.tracking import Tracking

logger = logging.getLogger(__name__)

_NOTHING, _REFRESH_S = Retention(0, 0, 0), 60.0
REST_S = 30.0
"""time without a change after which a table is at rest"""


class UpkeepScheduler:
    """Schedules upkeep. It calls ``maintain`` with each table that groups have changed, and
    ``forget`` with the path of a table that was removed. It calls ``lacks`` with a table's name and
    the error that one of its files is missing, or "" if all files exist. It calls ``at_rest`` with
    each table that no group has changed for ``REST_S`` seconds (None: never). A failed step is
    repeated after the table's next change. Groups continue meanwhile; the applier stops only if its
    own commits fail."""

    def __init__(
        self,
        tracking: Tracking,
        target: Target,
        maintain: Callable[[Table], None],
        forget: Callable[[str], None],
        lacks: Callable[[str, str], None] = lambda name, why: None,
        clock: WallClock | None = None,
        at_rest: Callable[[Table], None] | None = None,
    ) -> None:
        self.tracking, self.target, self._clock = tracking, target, clock or WallClock()
        self._maintain, self._forget, self._lacks = maintain, forget, lacks
        self._at_rest, self._changed_at = at_rest, dict[str, float]()
        """name of a table that is not at rest yet -> time of its last upkeep, ascending"""
        self._woken = threading.Event()  # set if the thread has other work, or is to end
        self._retention = Retention.of(target)
        self._extension = RetentionExtension(tracking, self._retention.longest)
        self._idle = IdleTables(tracking, target)
        self._pool = Pool(1, thread_name_prefix="upkeep")
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._lacking: list[str] | None = None
        """tables whose metadata lacks declarations; None before they are looked for"""
        self._refreshed_until = 0.0
        self._working = self._closed = False

    def schedule(self, tables: Iterable[str]) -> None:
        """Record which tables a group has just changed, and return at once."""
        with self._lock:
            self._changed.update(tables)
            if self._changed and not self._working and not self._closed:
                self._working = True
                self._woken.set()
                self._pool.submit(self._work)

    def close(self) -> None:
        """Finish the step that is running, and start no other."""
        with self._lock:
            self._closed = True
            self._woken.set()
        self._pool.shutdown(wait=True)

    def _work(self) -> None:
        while (name := self._next()) is not None:
            table = self.tracking.tables.get(name)
            if table is not None:
                self._try(name, partial(self._maintain_table, table))
                self._note_change(name)
            self._compact_resting()
            self._try("tables that other channels feed, too", self._refresh_shared)
            self._try("the control table", self._prune)
            self._try("idle tables", self._maintain_idle)
            self._try("tables of an earlier version", self._declare_lacking)
        while self._at_rest and self._changed_at and not self._woken.wait(self._rests_in()):
            self._compact_resting()

    def _note_change(self, name: str) -> None:
        """Put the table last of those that are not at rest yet."""
        self._changed_at.pop(name, None)
        if self._at_rest is not None:
            self._changed_at[name] = time.monotonic()

    def _rests_in(self) -> float:
        """Return the seconds until the next table is at rest."""
        return next(iter(self._changed_at.values())) + REST_S - time.monotonic()

    def _compact_resting(self) -> None:
        """Compact tables that have come to rest, until a changed table waits."""
        while self._at_rest and self._changed_at and self._rests_in() <= 0:
            if self._closed or self._changed:
                break
            name = next(iter(self._changed_at))
            del self._changed_at[name]
            if (table := self.tracking.tables.get(name)) is not None:
                self._try(name, partial(self._at_rest, table))

    def _declare_lacking(self) -> None:
        """Add declarations to tables that no group changes, until a changed table waits. Look for
        such tables once in a process."""
        if self._lacking is None:
            self._lacking = []  # also if this look fails
            self._lacking.extend(self.tracking.lacking_declarations())
        while self._lacking and not (self._closed or self._changed):
            name = self._lacking.pop()
            table = self.tracking.tables.get(name)
            if table is not None:
                self._try(name, partial(self.tracking.commits.declare, table))

    def _try(self, name: str, step: Callable[[], None]) -> None:
        """Run a step. A failure does not prevent later steps."""
        try:
            step()
        # The applier meets the end of the JVM as well, and reports it.
        except (SparkReplError, OSError) as error:
            if jvm_end(error) is None:
                logger.warning("upkeep of %s is put off: %s", name, error)
        except Exception as error:
            if jvm_end(error) is None:
                logger.exception("upkeep of %s is put off", name)

    def _refresh_shared(self) -> None:
        """Refresh tables that other channels feed, even if this channel does not change them. The
        next cut then shows a later version, and older commits may be removed. Raise what
        ``refresh`` raises for the first table that can't continue."""
        if time.monotonic() < self._refreshed_until:
            return
        self._refreshed_until = time.monotonic() + _REFRESH_S
        shared = {t.folder: t for t in self.tracking.tables.values() if t.is_shared}
        for table in shared.values():
            with table.lock:
                self.tracking.commits.refresh(table)

    def _maintain_idle(self) -> None:
        """Maintain tables that are due although no group changes them, until a changed table waits.
        Raise what the check for idle tables raises."""
        while not self._closed and (table := self._idle.next()) is not None:
            self._forget(whole_of(table.path))  # its log is cleaned up after any number of commits
            self._try(table.name, partial(self._maintain_table, table))
            if self._changed:
                break

    def _maintain_table(self, table: Table) -> None:
        """Maintain the table, and report if a file of its newest version no longer exists. A commit
        of another writer may have rewritten the file: then the next upkeep decides. Raise what
        ``maintain`` raises."""
        try:
            self._maintain(table)
        except Exception as error:
            if is_gone(error, table.folder) and self.tracking.delta.is_newest(table.snapshot):
                self._lacks(table.name, first_line(error))
            raise
        self._lacks(table.name, "")

    def _prune(self) -> None:
        """Forget cuts that are no longer promised.

        The configuration's promise counts as soon as each table keeps its files for that long.
        Before that, forget the cuts that were promised for less time according to the record: their
        files may be gone, whichever process extends the retention. If the clock has jumped ahead,
        forget nothing. Raise what storage and commits raise.
        """
        if self._clock.is_ahead():
            return
        control, barrier = self.tracking.control, self.tracking.barrier
        with control.one_look():
            promised, pruned = recorded(control, self._retention), False
            unlike = self._retention.exceeds(recorded(control, _NOTHING))
        if self._extension.extend(lambda: self._closed, of_others=unlike):
            if self._retention.exceeds(promised):
                pruned = control.prune(PruneBy(promised), barrier, self._gone_paths, due=True)
            self._retention.record(control)
            promised = self._retention
        if control.prune(PruneBy(promised), barrier, self._gone_paths) or pruned:
            self._remove_replaced()

    def _next(self) -> str | None:
        with self._lock:
            if self._closed or not self._changed:
                self._working = False
                if not self._closed:
                    self._woken.clear()
                return None
            return self._changed.pop()

    def _gone_paths(self) -> set[str]:
        return gone_paths(self.tracking.control, self.tracking.layout)

    def _remove_replaced(self) -> None:
        """Remove tables that a copy has replaced, when the cuts that show them are gone."""
        if self.target.vacuum_hours:
            hours = self.target.cut_retention_hours
            tracking = self.tracking
            for path in remove_replaced(tracking.control, tracking.layout, hours, tracking.barrier):
                self._forget(path)
                logger.info("%s was replaced by a copy, and is in no cut any more: removed", path)

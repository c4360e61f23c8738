"""Idle tables: those that groups change no more, and that have files and commits still which
nothing needs by now."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...config.renaming import whole_of
from ...control.records.replaced_tables import touch
from ...control.records.retention import Retention, pins
from ...delta.intervals import hours_of
from ...delta.log_replay import commit_path
from ...delta.storage import modified
from .file_retention import RETENTION

if TYPE_CHECKING:
    from ...config import Target
    from ..tables.table import Table
    from ..tables.tracking import Tracking

_AT_ONCE, _AGAIN_S = 50, 60.0
"""tables that are looked at, and seconds until the next ones: each may be a request to storage"""
_RETRY_S = 24 * 3600.0


@dataclass(frozen=True)
class _Given:
    """A table was said to be due at a ``version``, while ``pins`` stood."""

    version: int
    pins: frozenset[str]
    at: float


class IdleTables:
    """A table is due once, when all that its last commit has left behind may go; again behind the
    end of a pin, or a day after it failed. One thread's."""

    def __init__(self, tracking: Tracking, target: Target) -> None:
        self._tracking, self._target = tracking, target
        self._log_hours = max(target.commit_retention_hours, Retention.of(target).every)
        self._left: list[Table] = []  # of a round through all
        self._next = -math.inf
        self._given: dict[str, _Given] = {}
        self._changed: dict[str, tuple[int, float]] = {}  # path -> version, and when it was made

    def next(self) -> Table | None:
        """A table that is due; None: none is, as far as was looked. Raises OSError, TargetError."""
        if time.monotonic() < self._next:
            return None
        standing = frozenset(pins(self._tracking.control))
        if not self._left:
            self._left = list(self._tracking.tables.values())
            self._forget_others({whole_of(table.path) for table in self._left})
        for _ in range(min(_AT_ONCE, len(self._left))):
            if self._is_due(table := self._left.pop(), standing):
                return table
        self._next = time.monotonic() + _AGAIN_S
        return None

    def _forget_others(self, paths: set[str]) -> None:
        """Forget what is known of tables that are no more."""
        self._given = {path: one for path, one in self._given.items() if path in paths}
        self._changed = {path: one for path, one in self._changed.items() if path in paths}

    def _is_due(self, table: Table, standing: frozenset[str]) -> bool:
        path, version, now = whole_of(table.path), table.snapshot.version, time.time()
        changed = self._changed_at(table)
        kept = hours_of(table.snapshot.configuration.get(RETENTION[0], "1 week"))
        removable = changed + 3600 * max(self._log_hours, kept)
        if now <= removable:
            return False
        every, note = self._target.vacuum_hours, self._tracking.layout.vacuumed(path)
        vacuumed = os.path.getmtime(note) if os.path.exists(note) else changed
        done, given = vacuumed > removable, self._given.get(path)
        if given is None or given.version != version:
            if every and done:  # by a process before
                self._given[path] = _Given(version, standing, now)
                return False
        elif given.pins <= standing and (done or not every or now - given.at < _RETRY_S):
            return False
        if every and now - vacuumed <= 3600 * every:
            return False
        if every and not os.path.exists(note):
            touch(note)
            os.utime(note, (changed, changed))
        self._given[path] = _Given(version, standing, now)
        return True

    def _changed_at(self, table: Table) -> float:
        """When the table's last commit was made; inf where it is not known."""
        path, version = whole_of(table.path), table.snapshot.version
        if self._changed.get(path, (-1, 0.0))[0] != version:
            written = math.inf
            with suppress(FileNotFoundError):
                written = modified(commit_path(table.folder, version))
            self._changed[path] = version, written
        return self._changed[path][1]

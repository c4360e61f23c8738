"""Idle tables: tables that groups no longer change, but that still have files and commits which
nothing needs any more."""

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
from ...delta.log.log_replay import commit_path
from ...delta.log.retention_properties import retained_hours
from ...delta.store.storage import modified

if TYPE_CHECKING:
    from ...config import Target
    from ..tables.table import Table
    from ..tables.tracking import Tracking

_AT_ONCE, _AGAIN_S = 50, 60.0
"""tables per check, and seconds until the next check: each table may be a request to storage"""
_RETRY_S = 24 * 3600.0


@dataclass(frozen=True)
class _Given:
    """The last time that a table was due: its ``version`` then, and the ``pins`` of that time."""

    version: int
    pins: frozenset[str]
    at: float


class IdleTables:
    """Finds tables without recent changes that are due for upkeep. A table is due once, when all
    files that its last commit superseded may be removed. It is due again after the end of a pin, or
    a day after its upkeep failed. One thread uses this object."""

    def __init__(self, tracking: Tracking, target: Target) -> None:
        self._tracking, self._target = tracking, target
        self._log_hours = max(target.commit_retention_hours, Retention.of(target).every)
        self._left: list[Table] = []  # tables of this round that are not checked yet
        self._next = -math.inf
        self._given: dict[str, _Given] = {}
        self._changed: dict[str, tuple[int, float]] = {}  # path -> version, and when it was made

    def next(self) -> Table | None:
        """Return a table that is due, None if the check found none. Raise OSError, TargetError."""
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
        """Forget the tables that no longer exist."""
        self._given = {path: given for path, given in self._given.items() if path in paths}
        self._changed = {path: at for path, at in self._changed.items() if path in paths}

    def _is_due(self, table: Table, standing: frozenset[str]) -> bool:
        path, version, now = whole_of(table.path), table.snapshot.version, time.time()
        changed = self._changed_at(table)
        retention = retained_hours(table.snapshot.configuration)
        removable = changed + 3600 * max(self._log_hours, retention)
        if now <= removable:
            return False
        every, note = self._target.vacuum_hours, self._tracking.layout.vacuumed(path)
        vacuumed = os.path.getmtime(note) if os.path.exists(note) else changed
        is_vacuumed, given = vacuumed > removable, self._given.get(path)
        if given is None or given.version != version:
            if every and is_vacuumed:  # a previous process did it
                self._given[path] = _Given(version, standing, now)
                return False
        elif given.pins <= standing and (is_vacuumed or not every or now - given.at < _RETRY_S):
            return False
        if every and now - vacuumed <= 3600 * every:
            return False
        if every and not os.path.exists(note):
            touch(note)
            os.utime(note, (changed, changed))
        self._given[path] = _Given(version, standing, now)
        return True

    def _changed_at(self, table: Table) -> float:
        """Return the time of the table's last commit; inf if it is not known."""
        path, version = whole_of(table.path), table.snapshot.version
        if self._changed.get(path, (-1, 0.0))[0] != version:
            written = math.inf
            with suppress(FileNotFoundError):
                written = modified(commit_path(table.folder, version))
            self._changed[path] = version, written
        return self._changed[path][1]

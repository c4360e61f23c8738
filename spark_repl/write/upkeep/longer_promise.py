"""LongerPromise: each table is to keep its files for as long as cuts are promised, before they are.

Where one can't be made to, cuts are promised no longer than before. A table that groups change is
asked again whenever it may go on; one that nothing is applied to any more after a while.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ...config.renaming import whole_of
from ...errors import SparkReplError
from ...runtime.java import jvm_end
from ...runtime.retry import first_line
from .file_retention import keep_files, keep_files_of
from .retained_versions import Promised

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tables.tracking import Tracking

log = logging.getLogger(__name__)

_FAILS = (SparkReplError, OSError, Py4JError, PySparkException)
_AGAIN_S = 600.0


class LongerPromise:
    """``hours``: for so long each table is to keep its files. ``given``: whether all do."""

    def __init__(self, tracking: Tracking, hours: int) -> None:
        self.given = False
        self._tracking, self._hours = tracking, hours
        self._left: set[str] | None = None  # the paths of those that do not yet, as far as known
        self._next = 0.0  # when those are asked again that nothing is applied to any more
        self._said = set[str]()

    def give(self, is_closed: Callable[[], bool], *, of_others: bool) -> bool:
        """Has each table keep its files; returns whether all do. ``of_others``: also those that
        cuts show and nothing is applied to any more. Raises what reading the cuts raises."""
        if self.given:
            return True
        tracking, hours = self._tracking, self._hours
        keeps: dict[str, tuple[str, Callable[[], None]]] = {
            whole_of(table.path): (table.name, partial(keep_files, tracking.commits, table, hours))
            for table in list(tracking.tables.values())
        }
        tracked = set(keeps)
        left = self._listed(of_others=of_others)
        if others := left - tracked if time.monotonic() >= self._next else set[str]():
            for path in others:
                folder = tracking.layout.table(path)
                asked = partial(keep_files_of, tracking.delta, folder, hours, tracking.app)
                keeps[path] = path, asked
        for path, (name, keep) in keeps.items():
            if is_closed():
                return False
            (left.discard if self._keeps(path, name, keep) else left.add)(path)
        if others & left:
            self._next = time.monotonic() + _AGAIN_S
        self.given = not (left if of_others else left & tracked)
        return self.given

    def _listed(self, *, of_others: bool) -> set[str]:
        if self._left is None:
            self._left = set(Promised(self._tracking.control).kept) if of_others else set()
        return self._left

    def _keeps(self, path: str, name: str, keep: Callable[[], None]) -> bool:
        """Whether the table does now: one holds up no other's upkeep."""
        try:
            keep()
        except _FAILS as error:
            if path not in self._said and jvm_end(error) is None:
                self._said.add(path)
                log.warning("cuts are not promised longer yet: %s: %s", name, first_line(error))
            return False
        return True

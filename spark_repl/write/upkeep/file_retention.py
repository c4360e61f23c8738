"""File retention: how long tables keep files that no version names any more, so that readers can
read each cut for as long as it is promised.

Delta's table properties record the time (``delta.log.retention_properties``), and every VACUUM
keeps to them. ``PromisedVersions`` lists
the versions that log clean-up and VACUUM keep; ``RetentionExtension`` extends the retention of all
tables before cuts are promised for longer.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ...config.renaming import is_shared, whole_of
from ...control.records.copies import standing
from ...control.records.retention import pins
from ...control.records.table_paths import announced_after
from ...delta.log import table_protocol
from ...delta.log.add_actions import live_files
from ...delta.log.retention_properties import shorter_properties
from ...delta.log.vacuum import inner_paths
from ...errors import SparkReplError
from ...runtime.java import jvm_end
from ...runtime.retry import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...control.table.control import Control
    from ...control.table.cut import Cut
    from ...delta.log.table_log import TableLog
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits
    from ..tables.tracking import Tracking

logger = logging.getLogger(__name__)

Versions = dict[str, set[int]]
"""path of a Delta table -> its versions"""


def keep_files(commits: TableCommits, table: Table, hours: int) -> None:
    """Extend the table's retention to ``hours`` if it is shorter. Never shorten it, because a user
    may want a longer one. The catalog decides it for a table that it manages. Take the table's
    lock. Raise what a commit to the table raises."""
    if table.snapshot.is_managed or not shorter_properties(table.snapshot.configuration, hours):
        return
    with table.lock:
        commits.refresh(table)
        if short := shorter_properties(table.snapshot.configuration, hours):
            commits.set_properties(table, short)
            logger.info(
                "%s: files that no version names stay %d hours from now on", table.name, hours
            )


def keep_files_of(delta: TableLog, folder: str, hours: int, app: str) -> None:
    """Extend the retention of a table to which nothing is applied any more, because it was dropped
    or waits for its copy. Do nothing if there is no table. Raise TargetError for an unknown table
    feature."""
    snapshot = delta.snapshot(folder)
    if snapshot is None or snapshot.is_managed:
        return
    if short := shorter_properties(snapshot.configuration, hours):
        table_protocol.check(snapshot)
        delta.set_properties(snapshot, short, app)
        logger.info("%s: files that no version names stay %d hours from now on", folder, hours)


def _add(versions: Versions, cut: Cut) -> None:
    for table in cut.tables.values():
        versions.setdefault(whole_of(table.path), set()).add(table.version)


class PromisedVersions:
    """Versions that log clean-up and VACUUM keep, by the path of their Delta table. ``retained``:
    the versions of all cuts; ``pinned``: those of pinned cuts; ``begin``: the first version after
    which a start reads every commit. If several channels feed a table, these are, with their
    ``controls``, the versions that any of them promises."""

    def __init__(self, *controls: Control) -> None:
        self.retained, self.pinned, self._begin = Versions(), Versions(), Versions()
        for control in controls:
            with control.one_look():
                self._read(control)
        self.begin = {path: min(versions) for path, versions in self._begin.items()}

    def _read(self, control: Control) -> None:
        pinned_cuts = {pin.cut for pin in pins(control).values()}
        rows = control.snapshot()
        for path, version in rows.shown_versions:
            self.retained.setdefault(whole_of(path), set()).add(version)
        for row in rows.cut_rows() if pinned_cuts else ():
            if (row["position"], row["at"]) in pinned_cuts:
                _add(self.pinned, rows.cut_of(row))
        position = standing(control)
        for needed in (position.begin, position.needed, position.cut):
            if needed is not None:
                _add(self._begin, needed)
        for created in announced_after(control, position.cut):
            if is_shared(created.path):
                self._begin.setdefault(whole_of(created.path), set()).add(created.since)
        for path, version in (position.copy.since if position.copy else {}).items():
            self._begin.setdefault(path, set()).add(version)


def files_of(folder: str, versions: Iterable[int]) -> set[str]:
    """Return the files, relative to the table at ``folder``, that the ``versions`` name. Raise
    TargetError for a version that can no longer be read."""
    files = set[str | None]()
    for version in versions:
        live = live_files(folder, version)
        files.update(inner_paths(folder, live.paths(), live.vectors().rows))
    return {path for path in files if path is not None}


_FAILS = (SparkReplError, OSError, Py4JError, PySparkException)
_AGAIN_S = 600.0


class RetentionExtension:
    """Extends the retention of all tables to ``hours``, before cuts are promised for that long.

    While the retention of one table can't be extended, cuts are promised no longer than before. For
    a table that groups change, the extension is tried again each time; for a table to which nothing
    is applied any more, after ten minutes. ``extended``: whether all tables have the retention.
    """

    def __init__(self, tracking: Tracking, hours: int) -> None:
        self.extended = False
        self._tracking, self._hours = tracking, hours
        self._left: set[str] | None = None  # paths of tables without it, None: not read yet
        self._next = 0.0  # time of the next try for tables to which nothing is applied
        self._reported = set[str]()

    def extend(self, is_closed: Callable[[], bool], *, of_others: bool) -> bool:
        """Extend the retention of each table, and return whether all have it. ``of_others``: also
        extend that of tables that cuts show and to which nothing is applied any more. Raise what
        reading the cuts raises."""
        if self.extended:
            return True
        tracking, hours = self._tracking, self._hours
        keeps: dict[str, tuple[str, Callable[[], None]]] = {
            whole_of(table.path): (table.name, partial(keep_files, tracking.commits, table, hours))
            for table in list(tracking.tables.values())
        }
        tracked = set(keeps)
        short = self._listed(of_others=of_others)
        if untracked := short - tracked if time.monotonic() >= self._next else set[str]():
            for path in untracked:
                folder = tracking.layout.table(path)
                keeps[path] = (
                    path,
                    partial(keep_files_of, tracking.delta, folder, hours, tracking.app),
                )
        for path, (name, keep) in keeps.items():
            if is_closed():
                return False
            (short.discard if self._keeps(path, name, keep) else short.add)(path)
        if untracked & short:
            self._next = time.monotonic() + _AGAIN_S
        self.extended = not (short if of_others else short & tracked)
        return self.extended

    def _listed(self, *, of_others: bool) -> set[str]:
        if self._left is None:
            self._left = (
                set(PromisedVersions(self._tracking.control).retained) if of_others else set()
            )
        return self._left

    def _keeps(self, path: str, name: str, keep: Callable[[], None]) -> bool:
        """Extend the retention of a table and return whether it worked. A failure does not stop the
        upkeep of other tables."""
        try:
            keep()
        except _FAILS as error:
            if path not in self._reported and jvm_end(error) is None:
                self._reported.add(path)
                logger.warning("cuts are not promised longer yet: %s: %s", name, first_line(error))
            return False
        return True

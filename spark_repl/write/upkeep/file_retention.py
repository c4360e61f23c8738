"""File retention: how long tables keep files that no version names any more, so that readers can
read each cut for as long as it is promised.

Delta's table properties record the time, and every VACUUM keeps to them. ``Promised`` lists the
versions that log clean-up and VACUUM keep; ``LongerPromise`` extends the retention of all tables
before cuts are promised for longer.
"""

from __future__ import annotations

import json
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
from ...delta import features
from ...delta.add_actions import live_files
from ...delta.deletion_vector import inner_path_of
from ...delta.intervals import hours_of
from ...delta.storage import inner_path
from ...errors import SparkReplError
from ...runtime.java import jvm_end
from ...runtime.retry import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...control.table.control import Control
    from ...control.table.cut import Cut
    from ...delta.table_log import TableLog
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits
    from ..tables.tracking import Tracking

log = logging.getLogger(__name__)

_USUAL = {
    "delta.deletedFileRetentionDuration": "interval 1 week",
    "delta.logRetentionDuration": "interval 30 days",
}
"""what Delta takes where a table says nothing"""
RETENTION = tuple(_USUAL)

Versions = dict[str, set[int]]
"""path of a Delta table -> its versions"""


def properties(hours: int) -> dict[str, str]:
    """The properties of a table whose cuts are promised for so long."""
    return dict.fromkeys(RETENTION, f"interval {hours} hours")


def keep_files(commits: TableCommits, table: Table, hours: int) -> None:
    """Makes the table's retention ``hours``, where it is less; nothing is made shorter, which
    somebody may want longer. Takes the table's lock. Raises as a commit of the table's."""
    if not shorter(table.snapshot.configuration, hours):
        return
    with table.lock:
        commits.refresh(table)
        if short := shorter(table.snapshot.configuration, hours):
            commits.set_properties(table, short)
            log.info("%s: files that no version names stay %d hours from now on", table.name, hours)


def keep_files_of(delta: TableLog, folder: str, hours: int, app: str) -> None:
    """The same of a table that nothing is applied to any more, as it was dropped, or waits for its
    copy; nothing where there is none. Raises TargetError for a feature that is not known."""
    snapshot = delta.snapshot(folder)
    short = shorter(snapshot.configuration, hours) if snapshot else {}
    if snapshot and short:
        features.check(snapshot)
        delta.set_properties(snapshot, short, app)
        log.info("%s: files that no version names stay %d hours from now on", folder, hours)


def shorter(there: Mapping[str, str], hours: int) -> dict[str, str]:
    """The properties that are less than so many hours, as they should be."""
    wanted = properties(hours)
    have = {name: hours_of(there.get(name, usual)) for name, usual in _USUAL.items()}
    return {name: to for name, to in wanted.items() if have[name] < hours}


def _add(versions: Versions, cut: Cut) -> None:
    for table in cut.tables.values():
        versions.setdefault(whole_of(table.path), set()).add(table.version)


class Promised:
    """Versions by the path of their Delta table. ``kept``: those of all cuts; ``pinned``: of those
    that are pinned; ``begin``: those behind which a start looks at every commit. Of several
    ``controls``, of the channels that may feed one table, what any of them promises."""

    def __init__(self, *controls: Control) -> None:
        self.kept, self.pinned, self._begin = Versions(), Versions(), Versions()
        for control in controls:
            self._read(control)
        self.begin = {path: min(versions) for path, versions in self._begin.items()}

    def _read(self, control: Control) -> None:
        held = {pin.cut for pin in pins(control).values()}
        rows = control.snapshot()
        for row in rows.cut_rows():
            # What a cut shows its own row tells, or that of another one, which is kept as well.
            for told in json.loads(row["detail"])["tables"].values():
                self.kept.setdefault(whole_of(told["path"]), set()).add(told["version"])
            if (row["position"], row["at"]) in held:
                _add(self.pinned, rows.cut_of(row))
        stands = standing(control)
        for needed in (stands.begin, stands.needed, stands.cut):
            if needed is not None:
                _add(self._begin, needed)
        for made in announced_after(control, stands.cut):
            if is_shared(made.path):
                self._begin.setdefault(whole_of(made.path), set()).add(made.since)
        for path, version in (stands.copy.since if stands.copy else {}).items():
            self._begin.setdefault(path, set()).add(version)


def files_of(folder: str, versions: Iterable[int]) -> set[str]:
    """The files, relative to the table at ``folder``, that its versions name. Raises TargetError
    for a version that can't be read any more."""
    files = set[str | None]()
    for version in versions:
        live = live_files(folder, version)
        for path, add in live.items():
            files.add(inner_path(folder, path))
            if vector := add.get("deletionVector"):
                files.add(inner_path_of(folder, vector))
    return {path for path in files if path is not None}


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

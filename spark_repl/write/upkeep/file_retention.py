"""File retention: for how long a table keeps files that no version names any more, so that each cut
can be read for as long as it is promised: by Delta's properties, which everybody's VACUUM keeps to.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...delta import features
from ...delta.intervals import hours_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...delta.table_log import TableLog
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits

log = logging.getLogger(__name__)

_USUAL = {
    "delta.deletedFileRetentionDuration": "interval 1 week",
    "delta.logRetentionDuration": "interval 30 days",
}
"""what Delta takes where a table says nothing"""
RETENTION = tuple(_USUAL)


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

"""File retention: for how long a table keeps files that no version names any more, so that each cut
can be read for as long as it is promised: by Delta's properties, which everybody's VACUUM keeps to.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .table import Table
    from .table_commits import TableCommits

log = logging.getLogger(__name__)

RETENTION = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
_HOURS = {"week": 168.0, "day": 24.0, "hour": 1.0, "minute": 1 / 60, "second": 1 / 3600}
_PART = re.compile(rf"([+-]?\d+)\s+({'|'.join(_HOURS)})s?")


def properties(hours: int) -> dict[str, str]:
    """The properties of a table whose cuts are promised for so long."""
    return dict.fromkeys(RETENTION, f"interval {hours} hours")


def hours_of(interval: str) -> float:
    """How long an interval of Delta's is, to the second; one that can't be read counts as none."""
    text = interval.lower().strip().removeprefix("interval").strip()
    if not re.fullmatch(rf"({_PART.pattern}\s*)+", text):
        return 0.0
    return sum(int(number) * _HOURS[unit] for number, unit in _PART.findall(text))


def keep_files(commits: TableCommits, table: Table, hours: int) -> None:
    """Makes the table's retention ``hours``, where it is less; nothing is made shorter, which
    somebody may want longer. Takes the table's lock. Raises as a commit of the table's."""
    if not _shorter(table, hours):
        return
    with table.lock:
        commits.refresh(table)
        if short := _shorter(table, hours):
            commits.set_properties(table, short)
            log.info("%s: files that no version names stay %d hours from now on", table.name, hours)


def _shorter(table: Table, hours: int) -> dict[str, str]:
    """The properties that are less than so many hours, as they should be."""
    there: Mapping[str, str] = table.snapshot.configuration
    wanted = properties(hours)
    return {name: to for name, to in wanted.items() if hours_of(there.get(name, "")) < hours}

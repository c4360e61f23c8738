"""Check of statistics, at a start. An earlier version of spark_repl wrote bounds by which other
engines lose rows. The check adds such data files again with corrected bounds, as the same files."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...config.renaming import whole_of
from ...control.records.table_notes import checked_versions, record_checked
from ...delta.files.corrected_statistics import CORRECT, PROPERTY, corrected
from ...errors import ConcurrentChangeError
from ...runtime.threads import Pool

if TYPE_CHECKING:
    from ...delta.log.log_replay import Action
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits
    from ..tables.tracking import Tracking

logger = logging.getLogger(__name__)

_THREADS = 4
_FILES_MAX = 10_000
"""files of one commit; an action has about a kilobyte"""


def check_statistics(tracking: Tracking) -> None:
    """Correct the statistics of all tables that are not recorded as checked, and record them. If
    several channels feed a table, each channel corrects the files of its own shards. Raise what
    reading a table's log and committing to it raise."""
    checked = checked_versions(tracking.control)
    due: dict[str, list[Table]] = {}
    for table in tracking.all_tables():
        if _is_due(table, checked.keys()):
            due.setdefault(table.folder, []).append(table)
    if not due:
        return
    logger.info("the statistics of %d tables are checked, once", len(due))
    with Pool(_THREADS, thread_name_prefix="statistics") as pool:
        versions = list(pool.map(partial(_correct, tracking.commits), due.values()))
    paths = (whole_of(tables[0].path) for tables in due.values())
    checked_now = {p: v for p, v in zip(paths, versions, strict=True) if v is not None}
    if checked_now:
        record_checked(tracking.control, checked_now)


def _is_due(table: Table, checked: Collection[str]) -> bool:
    if table.snapshot.configuration.get(PROPERTY) == CORRECT:
        return False
    return whole_of(table.path) not in checked


def _correct(commits: TableCommits, tables: Sequence[Table]) -> int | None:
    """Return the version from which the statistics of one Delta table, which has the ``tables``,
    are sound. Return None if another commit came first: the next start checks the table again."""
    table = tables[0]
    with table.lock:
        commits.refresh(table)
        were_loaded = table.delta.files is not None
        try:
            adds = _corrections(table, _files(commits, tables))
            for first in range(0, len(adds), _FILES_MAX):
                commits.commit_rewrite(table, adds[first : first + _FILES_MAX])
            if adds:
                logger.info("%s: the statistics of %d files were corrected", table.name, len(adds))
            return table.snapshot.version
        except ConcurrentChangeError as error:
            logger.warning(
                "%s: its statistics are checked at the next start: %s", table.name, error
            )
            return None
        finally:
            if not were_loaded:  # an idle table may have a million files
                table.delta.files = None


def _files(commits: TableCommits, tables: Sequence[Table]) -> dict[str, Action]:
    """Return the live files that no other channel changes. An ``add`` of a file that has lost rows
    since would bring them back, and the commit may land after one of the other channel."""
    if not tables[0].is_shared:
        return dict(commits.all_live(tables[0]).adds)
    own: dict[str, Action] = {}
    for table in tables:
        own |= commits.live(table).adds
    return own


def _corrections(table: Table, files: Mapping[str, Action]) -> list[Action]:
    """Return the ``add`` actions of the files whose statistics are corrected. An ``add`` of a live
    path and deletion vector replaces the previous one."""
    columns = table.all_columns
    adds: list[Action] = []
    for add in files.values():
        stats = corrected(add.get("stats") or "{}", columns)
        if stats is not None:
            adds.append({"add": {**add, "stats": stats, "dataChange": False}})
    return adds

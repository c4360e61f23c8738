"""The check of statistics at a start: data files that an earlier version has written with bounds by
which other engines lose rows are added again with corrected ones, as the same files."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...config.renaming import whole_of
from ...control.records.table_notes import checked_versions, record_checked
from ...delta.corrected_statistics import CORRECT, PROPERTY, corrected
from ...errors import ConcurrentChangeError
from ...runtime.threads import Pool

if TYPE_CHECKING:
    from ...delta.log_replay import Action
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits
    from ..tables.tracking import Tracking

log = logging.getLogger(__name__)

_THREADS = 4
_FILES_MAX = 10_000
"""files of one commit: each is an action of a kilobyte"""


def check_statistics(tracking: Tracking) -> None:
    """Correct the statistics of all tables that are not recorded as checked, and record them. Of a
    table that several channels feed each channel corrects the files of its own shards. Raises what
    reading a table's log and committing to it raise."""
    checked = checked_versions(tracking.control)
    due: dict[str, list[Table]] = {}
    for table in tracking.all_tables():
        if _is_due(table, checked.keys()):
            due.setdefault(table.folder, []).append(table)
    if not due:
        return
    log.info("the statistics of %d tables are checked, once", len(due))
    with Pool(_THREADS, thread_name_prefix="statistics") as pool:
        versions = list(pool.map(partial(_correct, tracking.commits), due.values()))
    paths = (whole_of(tables[0].path) for tables in due.values())
    done = {p: v for p, v in zip(paths, versions, strict=True) if v is not None}
    if done:
        record_checked(tracking.control, done)


def _is_due(table: Table, checked: Collection[str]) -> bool:
    if table.snapshot.configuration.get(PROPERTY) == CORRECT:
        return False
    return whole_of(table.path) not in checked


def _correct(commits: TableCommits, tables: Sequence[Table]) -> int | None:
    """Return the version from which on the statistics of one Delta table, which ``tables`` are in,
    are sound; None if another commit came first, so that the next start checks the table again."""
    table = tables[0]
    with table.lock:
        commits.refresh(table)
        were_loaded = table.delta.files is not None
        try:
            adds = _corrections(table, _files(commits, tables))
            for first in range(0, len(adds), _FILES_MAX):
                commits.rewritten(table, adds[first : first + _FILES_MAX])
            if adds:
                log.info("%s: the statistics of %d files were corrected", table.name, len(adds))
            return table.snapshot.version
        except ConcurrentChangeError as error:
            log.warning("%s: its statistics are checked at the next start: %s", table.name, error)
            return None
        finally:
            if not were_loaded:  # a table may be idle, and have a million files
                table.delta.files = None


def _files(commits: TableCommits, tables: Sequence[Table]) -> dict[str, Action]:
    """Return the live files that no other channel changes: an ``add`` of one that has lost rows
    since would bring them back, and may be sent again behind the other channel's commit."""
    if not tables[0].is_shared:
        return dict(commits.all_live(tables[0]).adds)
    own: dict[str, Action] = {}
    for table in tables:
        own |= commits.live(table).adds
    return own


def _corrections(table: Table, files: Mapping[str, Action]) -> list[Action]:
    """Return the ``add`` actions of the files whose statistics are corrected. An ``add`` of a path
    and deletion vector that are live takes the place of the one before."""
    columns = table.all_columns
    adds: list[Action] = []
    for add in files.values():
        stats = corrected(add.get("stats") or "{}", columns)
        if stats is not None:
            adds.append({"add": {**add, "stats": stats, "dataChange": False}})
    return adds

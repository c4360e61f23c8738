"""Table figures: rows, bytes, last change and last statement of the tables at a cut, for the page.

They come from the tables' own logs. A log is read again only after the table has changed, and only
for a limited time at each call: with many tables some figures are of an earlier version.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from ...delta.files.statistics import record_counts
from ...delta.log.add_actions import live_files
from ...delta.log.log_replay import read_commit
from ...errors import TargetError

if TYPE_CHECKING:
    from ...control.records.channels import Channel
    from ...control.table.cut import Cut

_READING_S = 0.5
"""how long a call may read logs"""
_COMMITS_MOST = 4
"""commits that are read to find the last one with rows: others only compact files"""


@dataclass(frozen=True)
class TableFigures:
    """A table's figures, None if unknown. ``changed_at``: the commit of its last rows;
    ``statement_at``: the last statement that created or changed it."""

    rows: int | None = None
    size_bytes: int | None = None
    changed_at: datetime | None = None
    statement_at: datetime | None = None


class FigureReader:
    """Reads the figures of a channel's tables. Not thread-safe."""

    def __init__(self, at: Channel) -> None:
        self._layout, self._control = at.layout, at.control
        self._read: dict[str, tuple[int, TableFigures]] = {}  # by path: version and figures

    def figures(self, reading_s: float = _READING_S) -> dict[str, TableFigures]:
        """Return the figures of each table of the newest cut, after at most about ``reading_s``
        seconds. Tables whose figures are oldest are read first."""
        cut = self._control.last_cut()
        if cut is None:
            return {}
        self._read_changed(cut, time.monotonic() + reading_s)
        statements = self._statement_times()
        return {
            name: replace(self._read[table.path][1], statement_at=statements.get(table.path))
            for name, table in cut.tables.items()
            if table.path in self._read
        }

    def _read_changed(self, cut: Cut, until: float) -> None:
        """Read the tables that have another version than the figures; unknown tables first."""
        places = {table.path: table.version for table in cut.tables.values()}
        for path in [*self._read]:
            if path not in places:
                del self._read[path]
        order = [path for path in places if path not in self._read]
        order += [path for path in self._read if self._read[path][0] != places[path]]
        for path in order:
            if time.monotonic() > until:
                return
            figures = _figures(self._layout.table(path), places[path])
            self._read.pop(path, None)  # to the end: it is the newest now
            self._read[path] = places[path], figures

    def _statement_times(self) -> dict[str, datetime]:
        """Return by path when a statement last created or changed the table."""
        times = dict[str, datetime]()
        for kind in ("table", "definition"):
            for row in self._control.rows(kind):
                path, at = json.loads(row["detail"]).get("path"), row["at"]
                if path and (path not in times or times[path] < at):
                    times[path] = at
        return times


def _figures(folder: str, version: int) -> TableFigures:
    """Return a version's figures, without ``statement_at``."""
    try:
        sizes = live_files(folder, version).sizes()
        changed_at = _changed_at(folder, version)
    except (OSError, TargetError):
        return TableFigures()
    if not sizes.num_rows:
        return TableFigures(0, 0, changed_at)
    counts = record_counts(sizes["stats"])
    rows = None
    if not counts.null_count:
        rows = int(pc.sum(counts).as_py()) - int(pc.sum(sizes["deleted"]).as_py())
    return TableFigures(rows, int(pc.sum(sizes["size"]).as_py()), changed_at)


def _changed_at(folder: str, version: int) -> datetime | None:
    """Return when the last rows up to ``version`` were committed; None if a newer commit is all
    that the log has."""
    for number in range(version, max(version - _COMMITS_MOST, -1), -1):
        actions = read_commit(folder, number)
        if actions is None:
            return None
        if any(_has_rows(action) for action in actions):
            return _committed_at(actions)
    return None


def _has_rows(action: Mapping[str, Any]) -> bool:
    return any((action.get(kind) or {}).get("dataChange") for kind in ("add", "remove"))


def _committed_at(actions: list[dict[str, Any]]) -> datetime | None:
    for action in actions:
        if info := action.get("commitInfo"):
            return datetime.fromtimestamp(info["timestamp"] / 1000, UTC)
    return None

"""What a table of mode history is left with, one image at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_repl.control.table.cut import Cut
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.extra_model import T, told
from tests.support.local_delta import at_cut, cuts

Row = tuple[Any, ...]
OPEN = (None, None, True)
"""how a version ends that is current: GTID and time of its end, and the flag"""


def moment(log: LogWriter, gno: int) -> Row:
    """GTID and commit time of a transaction."""
    return told(log, gno, "INSERT")[1:3]


def versions(target: Path, cut: Cut | None = None, table: str = "t.a") -> list[Row]:
    """The versions that a cut shows, in their order, without positions: columns, begin, end, flag.
    Positions and order are those of the transactions that the versions name."""
    rows = at_cut(target, cut or cuts(target)[-1])[table]
    places: dict[str, int] = {}
    for row in rows:
        begin, end = row[-8:-4], row[-4:-1]
        for gtid, position in ((begin[0], begin[2]), (end[0], end[2])):
            if position is not None:
                assert places.setdefault(gtid, position) == position
        assert (end[2] is None) == row[-1] == (end == (None,) * 3)
        assert end[2] is None or begin[2] is None or begin[2] <= end[2]
    rows.sort(key=lambda row: (row[-6] or 0, row[-5] or 0))
    return [(*row[:-8], *row[-8:-6], *row[-4:-2], row[-1]) for row in rows]


def current(rows: list[Row]) -> list[Row]:
    """The columns of those that are current, sorted."""
    return sorted((row[:-5] for row in rows if row[-1]), key=repr)


class VersionModel:
    """The versions of a table of ``T``'s columns, in ``log``'s next transaction. ``at``: by GTID
    set, the versions then."""

    def __init__(self, log: LogWriter, table: Table = T) -> None:
        self.log, self.table = log, table
        self.rows: list[Row] = []
        self.there: dict[Any, int] = {}
        self.at: dict[str, list[Row]] = {}

    def first(self, rows: Sequence[Row]) -> None:
        """The log's last transaction has inserted these."""
        self.log.gno -= 1
        self.insert(*rows)
        self.log.gno += 1

    def row(self, key: Any) -> Row:
        """The columns of the row that the source has."""
        return self.rows[self.there[key]][:-5]

    def _end(self, key: Any, gno: int) -> None:
        number = self.there.pop(key)
        self.rows[number] = (*self.rows[number][:-3], *moment(self.log, gno), False)

    def _begin(self, row: Row) -> None:
        self.there[row[0]] = len(self.rows)
        self.rows.append((*row, *moment(self.log, self.log.gno), *OPEN))

    def insert(self, *rows: Row) -> Change:
        for row in rows:
            self._begin(row)
        return insert(self.table, *rows)

    def delete(self, *keys: Any) -> Change:
        images = [self.row(key) for key in keys]
        for key in keys:
            self._end(key, self.log.gno)
        return delete(self.table, *images)

    def update(self, key: Any, row: Row) -> Change:
        before = self.row(key)
        self._end(key, self.log.gno)
        self._begin(row)
        return update(self.table, (before, row))

    def truncate(self) -> None:
        """By the log's last transaction."""
        for key in list(self.there):
            self._end(key, self.log.gno - 1)
        self.seen()

    def transaction(self, *changes: Change, compressed: bool = False) -> None:
        self.log.transaction(*changes, compressed=compressed)
        self.seen()

    def seen(self) -> None:
        last = self.log.gno - 1
        self.at[f"{self.log.source}:{f'1-{last}' if last > 1 else '1'}"] = list(self.rows)

"""EXCHANGE PARTITION: the rows of a partition and all rows of another table change places.

Two commits, the partitioned table's first; no cut shows one without the other. What the other table
gets are rows that the first had before its commit: they are read from that version of its log, so
that behind a crash between the two there is nothing else to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...delta.columns import one_chunk
from ...delta.log_replay import read_commit
from ...errors import StatementError
from ..files.change_data import write_changes
from ..files.commit import check_files
from ..files.compaction import CompactTask, live_rows
from ..files.key_index import write_indexed
from ..files.write_task import LiveFile, Written
from ..tables.table_metadata import is_of, position_of
from .partition_files import taken_out, whole

if TYPE_CHECKING:
    from ...alter.partition_rows import PartitionRows
    from ...control.cut import Cut
    from ...delta.log_replay import Action
    from ...runtime.workers import Workers
    from ..tables.table import Table
    from ..tables.tracking import Tracking

_HINT = (
    "leave it out (spark-repl skip --config F --gtid GTID), and copy both tables after it"
    " (spark-repl snapshot --config F --table DB.T --table DB.T2)"
)


@dataclass(frozen=True)
class ExchangeTask:
    """A data file of which rows go to another table: those of ``gone``. ``every``: all have to be.
    ``to``: the other table, without files; ``change_data``: whether it has Delta's change feed."""

    of: CompactTask
    to: CompactTask
    gone: PartitionRows
    every: bool
    change_data: bool


def move(task: ExchangeTask) -> Written:
    """Writes the rows into the other table's folder. Raises StatementError."""
    (file,), to, out = task.of.files, task.to, Written(task.to.table)
    rows = live_rows(task.of, file)
    arrays = [one_chunk(rows.column(number)) for number in task.gone.columns]
    try:
        chosen = task.gone.of_rows(arrays, rows.num_rows)
        if task.every and not chosen.all():
            raise StatementError(
                "WITHOUT VALIDATION, rows of another partition come into this one: which rows it"
                " has is not known then",
                hint=_HINT,
            )
    except StatementError as error:
        raise error.at(table=task.of.table) from None
    moved = rows.filter(pa.array(chosen))
    if moved.num_rows:
        columns = [one_chunk(column) for column in moved.columns]
        table = pa.Table.from_arrays(columns, names=list(to.columns.physical))
        out.adds += write_indexed(to.index, to.columns, table)
        if task.change_data:
            new = np.zeros(table.num_rows, bool)
            out.changes = write_changes(to.folder, to.columns, {}, table, new)
    return out


@dataclass(frozen=True)
class Exchange:
    """``table`` is the partitioned one, ``gone`` its rows that leave it."""

    tracking: Tracking
    workers: Workers
    table: Table
    other: Table
    gone: PartitionRows

    def partitioned(self, come: Mapping[str, Action]) -> list[Written]:
        """What the partitioned table becomes; ``come``: the other one's files. Raises
        StatementError where a row of theirs does not belong into the partition."""
        left = taken_out(self.tracking, self.workers, self.table, self.gone)
        return [*left, *self._moved(self.other, self.table, come, every=True)]

    def other_one(self, cut: Cut) -> list[Written]:
        """What the other table becomes, of what the partitioned one was. Raises StatementError
        where that is not known."""
        of = CompactTask.of(self.table, self.tracking.key_folder(self.table), ())
        some = {
            path: add
            for path, add in self._files_before(cut).items()
            if whole(add, self.gone, of) is not False
        }
        live = list(self.tracking.commits.live(self.other).adds)
        empty = Written(self.other.name, gone=live)
        return [empty, *self._moved(self.table, self.other, some, every=False)]

    def _moved(
        self, of: Table, to: Table, files: Mapping[str, Action], *, every: bool
    ) -> list[Written]:
        folder, feed = self.tracking.key_folder(of), to.snapshot.has("delta.enableChangeDataFeed")
        into = CompactTask.of(to, self.tracking.key_folder(to), ())
        tasks = [
            ExchangeTask(
                CompactTask.of(of, folder, (LiveFile(path, add.get("deletionVector")),)),
                into, self.gone, every, feed and every,
            )
            for path, add in files.items()
        ]  # fmt: skip
        size = sum(int(add["size"]) for add in files.values())
        here = self.workers.is_small(file_bytes=size)
        written: list[Written] = self.workers.run(move, tasks, here=here)
        check_files(to, [path for part in written for path in part.files])
        return written

    def _files_before(self, cut: Cut) -> Mapping[str, Action]:
        """The files that the partitioned table, which has the statement before ``cut``, had before
        it. Raises StatementError where its log does not say so: it was copied since."""
        folder, commits = self.table.folder, self.tracking.commits
        for number in range(self.table.snapshot.version, 0, -1):
            actions = read_commit(folder, number)
            if actions is None:
                break
            if position_of(actions, commits.app) is None:
                continue  # a compaction, or somebody else's
            if not is_of(actions, cut):
                break
            before = commits.delta.snapshot(folder, number - 1)
            return commits.delta.files(before) if before else {}
        raise StatementError(
            f"which rows {self.table.name} had before it is not in the table's log",
            table=self.other.name,
            hint=_HINT,
        )

"""Row repair: writes the rows of some keys as the source has them, in one commit to their table.

The table's position stays, because its state of the log stays. The commit has an appId of its own.
The target's rows of a key go, and the source's rows of the key come (``certain_rows``).
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...errors import RowsRefused
from ..files.commit import check_files, row_actions
from ..files.discard import discard
from ..files.write_task import WriteTask
from ..tables.table_metadata import repairs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.table.cut import Cut
    from ...decode.stage_task import Part
    from ...gtid import GtidSet
    from ...runtime.workers import Workers
    from ...tables.target_table import TargetTable
    from ..files.write_task import Written
    from ..tables.table import Table
    from ..tables.tracking import Tracking
    from .certain_rows import Keys
    from .direct_writer import DirectWriter


class RowRepair:
    """The repair of one table. The caller owns the target, and no group is being applied."""

    def __init__(self, tracking: Tracking, workers: Workers, writer: DirectWriter) -> None:
        self._tracking, self._workers = tracking, workers
        self._commits, self._writer = tracking.commits, writer

    def commit(self, table: Table, parts: Sequence[Part], cut: Cut) -> int | None:
        """Commit staged rows to the table, which is at ``cut``. Return the version of the commit,
        None if there was nothing to do. Raise RowsRefused for rows that do not fit, TargetError,
        ConcurrentChangeError."""
        with table.lock:
            self._commits.refresh(table)
            with self._commits.explain_gone_files([table]):
                return self._commit(table, parts, cut)

    def _commit(self, table: Table, parts: Sequence[Part], cut: Cut) -> int | None:
        tracking = self._tracking
        in_driver = self._workers.is_small(rows=sum(part.rows for part in parts))
        self._writer.prepare([table], in_driver=in_driver)
        written = self._workers.run(self._writer.task, [self._task(table, parts)], here=in_driver)
        try:
            if faults := [fault for part in written for fault in part.violations]:
                raise RowsRefused(
                    f"the source's row {faults[0].key} has no place in the table"
                    f" ({faults[0].number})"
                )
            written = self._writer.finish({table.name: table}, written)
            check_files(table, [path for part in written for path in part.files])
            actions = row_actions(self._commits, table, written)
        except Exception:  # nothing was committed yet
            self._discard(table, written, None)
            raise
        if not actions:
            return None
        own = tracking.stamp(cut)
        stamp = replace(own, app=repairs_of(own.app))
        try:
            version = self._commits.commit_actions(table, actions, stamp)
        except Exception:
            self._discard(table, written, table.snapshot.version)
            raise
        self._commits.record_commit(table, actions, table.position, version)
        return version

    def _task(self, table: Table, parts: Sequence[Part]) -> WriteTask:
        return WriteTask(
            table.name, table.folder, self._tracking.key_folder(table), table.columns,
            table.definition.primary_key, tuple(parts), self._commits.live_files(table),
            idempotent=True, complete=False, definition=table.definition,
            change_data=table.snapshot.has("delta.enableChangeDataFeed"),
        )  # fmt: skip

    @staticmethod
    def _discard(table: Table, written: Sequence[Written], tried_behind: int | None) -> None:
        for part in written:
            discard(table.folder, part.files, tried_behind=tried_behind)


@dataclass(frozen=True)
class RowsToRepair:
    """Rows that were read from the source for one table.

    ``keys``: digests, sorted. ``behind``, ``until``: the rows were read after this cut and before
    these GTIDs. ``parts``: the staged rows to remove and to add, in the source's ``definition``.
    ``path``: the table's path, relative to the target.

    ``outcome``: the version of the commit, None if the table already had the rows, or RowsRefused.
    ``RowRepairs`` sets it; the thread that read the rows waits for it.
    """

    definition: TargetTable
    path: str
    keys: Keys
    behind: Cut
    until: GtidSet
    parts: tuple[Part, ...]
    outcome: Future[int | None] = field(default_factory=Future)

    @property
    def table(self) -> str:
        return self.definition.name

    @property
    def refused(self) -> BaseException | None:
        """Return the reason why the rows were not committed. Return None also while there is no
        outcome."""
        return self.outcome.exception() if self.outcome.done() else None

"""TableChanges: changes of existing tables by statements, each one Delta commit with its position.

ALTER TABLE changes *metadata only* if every value stays: names, order, new columns that are NULL,
types that Delta stores alike. Otherwise the workers *rewrite* all data files. Either is one commit.
A table's position shows whether it has the commit, so that a statement that is carried out again
after a crash finds what it has done.

``Alterations`` calls it after all checks. Raises StatementError if the log does not determine the
new values, and SettingError if the settings forbid the change. Design:
docs/design/schema-changes.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ...alter.alteration import Altered, CarriedColumn
from ...crash_points import reach
from ...errors import StatementError, about_table
from ...sql.ddl_outcome import DdlOutcome
from ..files.commit import removed, row_actions
from ..files.compaction import CompactTask
from ..files.discard import discard
from ..files.key_index import write_indexed
from ..shared.shard_tables import refresh_columns, shards_beside, siblings_of
from ..shared.shared_metadata import widen
from ..tables.source_description import at_place
from ..tables.table_commits import Outcome
from .altered_columns import (
    add_columns_in_advance,
    already_wide,
    columns_after,
    finds_columns,
    moves_columns,
    needs_wider_types,
    new_metadata,
    rewrite_tasks,
)
from .altered_rows import (
    UNKNOWN_ROWS,
    AlteredRows,
    AlterTask,
    alter_file,
    forbids_null,
    keeps_rows,
    unknown_rows,
    with_new_rows,
)
from .partition_files import remove_partition_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ...alter.partition_rows import PartitionRows
    from ...control.table.cut import Cut
    from ...delta.log.log_replay import Action
    from ...delta.log.stamp import Stamp
    from ...delta.log.table_log import TableLog
    from ...delta.log.table_snapshot import NewTable
    from ...runtime.workers import Workers
    from ...sql.session import Session
    from ...tables.target_table import TargetTable
    from ..files.write_task import LiveFile, Written
    from ..rows.scd2_history import TruncatedVersions
    from ..rows.soft_deletes import Truncated
    from ..tables.table import Table
    from ..tables.tracking import Tracking
    from .altered_rows import MadeRows

logger = logging.getLogger(__name__)

# Files are rewritten in rounds; the status shows progress after each. A round has at least _ROUND
# files for each worker, and there are at most _ROUNDS rounds.
_ROUND, _ROUNDS = 4, 20
_PARTITIONS = {
    "DROP": DdlOutcome.PARTITIONS_DROPPED,
    "TRUNCATE": DdlOutcome.PARTITIONS_EMPTIED,
}


class TableChanges:
    """Changes tables one at a time, while no group is applied."""

    def __init__(
        self,
        tracking: Tracking,
        workers: Workers,
        rewrites: Callable[[str, int, int], None] = lambda table, finished, files: None,
    ) -> None:
        """``rewrites`` is called with a table's name, and how many of its data files are done, of
        how many."""
        self._tracking, self._workers, self._rewrites = tracking, workers, rewrites

    def is_empty(self, table: Table) -> bool:
        """Return whether the table has no data file, so that a statement affects no row."""
        with table.lock:
            self._tracking.commits.refresh(table)
            return not self._tracking.commits.live(table).adds

    def truncate(self, table: Table, cut: Cut, definition: TargetTable | None = None) -> None:
        """Remove all rows of the table, which then gets the new ``definition`` if one is given."""

        def plan() -> StatementChange:
            return self._without_files([table])

        self._commit(table, cut, plan, definition)

    def mark_rows(self, table: Table, rows: Truncated | TruncatedVersions, cut: Cut) -> DdlOutcome:
        """Mark all rows of the table as removed by the TRUNCATE before ``cut``."""
        outcome = DdlOutcome.METADATA

        def plan() -> StatementChange:
            nonlocal outcome
            files: Sequence[LiveFile] = self._tracking.commits.live_files(table)
            if not files:
                return StatementChange()
            outcome = DdlOutcome.REWRITE
            return self._rewrite(table, self._tasks(table, table, rows, files))

        self._commit(table, cut, plan)
        return outcome

    def add_rows(
        self, table: Table, definition: TargetTable, rows: pa.Table, cut: Cut
    ) -> DdlOutcome:
        """Add ``rows``, which represent the statement before ``cut``, to a table. If there is a new
        ``definition``, it has no narrower columns."""
        if self._tracking.has(table, cut):
            table.define_at_place(definition)
            return DdlOutcome.METADATA
        same = definition == table.definition
        altered = Altered(definition, tuple(map(CarriedColumn, range(len(definition.columns)))))

        def plan() -> StatementChange:
            new = None if same else new_metadata(table, altered, self._siblings(table))
            to = CompactTask.of(table, self._tracking.key_folder(table), ())
            adds = write_indexed(to.index, to.columns, rows)
            return StatementChange(
                new, [{"add": add} for add in adds], [add["path"] for add in adds]
            )

        self._commit(table, cut, plan, None if same else definition)
        return DdlOutcome.METADATA

    def alter(
        self, table: Table, altered: Altered[TargetTable], session: Session, cut: Cut
    ) -> DdlOutcome:
        """Give the table its new columns, and its rows their new values. Return how it was done.
        Raise StatementError if the log does not determine the new values."""
        outcome, before = DdlOutcome.METADATA, table.definition
        rows = AlteredRows(before, altered, session)

        def plan() -> StatementChange:
            nonlocal outcome
            files: Sequence[LiveFile] = self._tracking.commits.live_files(table)
            if (files or altered.rows_come) and (reason := unknown_rows(altered)):
                raise StatementError(reason, table=table.name, hint=UNKNOWN_ROWS)
            commits = self._tracking.commits
            add_columns_in_advance(commits, table, altered, self._siblings(table))
            if altered.gone:
                outcome = _PARTITIONS[altered.gone.verb]
                return self._without(table, altered.gone, files)
            new = new_metadata(table, altered, self._siblings(table))
            wide = already_wide(table, altered)
            if keeps_rows(before, altered, session, wide) and finds_columns(table, altered, new):
                # A NULL in a marked row counts as well: readers of the file meet it.
                has_other_rows = before.outlives_source or before.truncated
                nulls = forbids_null(before, altered)
                files = [file for file in files if nulls and (file.vector or has_other_rows)]
            moved = self._moved(table, new)
            if not files and not moved:
                return StatementChange(new)
            outcome = DdlOutcome.REWRITE
            columns = columns_after(table, altered.definition, new)
            after = replace(table, definition=altered.definition, columns=columns, logged=None)
            return self._rewrite(table, self._tasks(table, after, rows, files) + moved, new)

        self._commit(table, cut, plan, altered.definition)
        return outcome

    def drop(self, tables: Sequence[Table], cut: Cut) -> None:
        """Remove the rows of shards from their Delta table."""
        by_folder: dict[str, list[Table]] = {}
        for table in tables:
            by_folder.setdefault(table.folder, []).append(table)
        for shards in by_folder.values():
            self._commit(shards[0], cut, partial(self._without_files, shards))

    def _without_files(self, tables: Sequence[Table]) -> StatementChange:
        commits = self._tracking.commits
        now_ms, live = commits.time.now_ms(), commits.live
        gone = [add for table in tables for add in live(table).adds.values()]
        return StatementChange(actions=[{"remove": removed(add, now_ms)} for add in gone])

    def _without(
        self, table: Table, gone: PartitionRows, files: Sequence[LiveFile]
    ) -> StatementChange:
        """Return the change that removes the rows of partitions from the table."""
        written = remove_partition_rows(self._tracking, self._workers, table, gone)
        actions = row_actions(self._tracking.commits, table, written)
        return StatementChange(None, actions, _files(written))

    def widen_for(self, shaped: TargetTable, stamp: Stamp) -> None:
        """Widen types of the Delta table to which a new shard will belong, if files of other shards
        must be rewritten for it. Otherwise do nothing. Raise SettingError."""
        shards = shards_beside(shaped.name, self._tracking.all_tables())
        if shards and not shards[0].is_shared:
            commits = self._tracking.commits
            with shards[0].lock, commits.explain_gone_files(shards):
                commits.refresh(shards[0])
                if needs_wider_types(shards, shaped):
                    rewrite = partial(self._rewrite_wider, shards)
                    widen(commits, shards[0], shaped, shards, stamp, rewrite)

    def _rewrite_wider(self, shards: Sequence[Table], new: NewTable) -> Sequence[Action]:
        tasks = rewrite_tasks(self._tracking, shards[0], shards, new)
        return self._rewrite(shards[0], tasks, new).actions if tasks else ()

    def _moved(self, table: Table, new: NewTable | None) -> list[AlterTask]:
        """Return the tasks that rewrite files of other shards, if ``new`` gives them other
        columns."""
        if new is None or not table.is_shard or not moves_columns(table, new):
            return []
        return rewrite_tasks(self._tracking, table, self._siblings(table), new)

    def _siblings(self, table: Table) -> list[Table]:
        """Return the other shards in the table's Delta table, as far as they are this channel's."""
        return siblings_of(table, self._tracking.all_tables())

    def _tasks(
        self, table: Table, after: Table, rows: MadeRows, files: Sequence[LiveFile]
    ) -> list[AlterTask]:
        """Return the tasks that turn ``files`` of the table into files of ``after``."""
        to = CompactTask.of(after, self._tracking.key_folder(after), ())
        folder = self._tracking.key_folder(table)
        return [AlterTask(CompactTask.of(table, folder, (file,)), to, rows) for file in files]

    def _rewrite(
        self, table: Table, tasks: Sequence[AlterTask], new: NewTable | None = None
    ) -> StatementChange:
        """Run the tasks and return the change. ``new``: the new metadata, None if it stays."""
        new = new and with_new_rows(table.snapshot, new, table.name)
        written = self._rewritten(table, tasks)
        now_ms = self._tracking.commits.time.now_ms()
        action = self._tracking.commits.action
        gone = [path for part in written for path in part.gone]
        actions: list[Action] = [{"remove": removed(action(table, p), now_ms)} for p in gone]
        actions += [{"add": add} for part in written for add in part.adds]
        return StatementChange(new, actions, [path for part in written for path in part.files])

    def _rewritten(self, table: Table, tasks: Sequence[AlterTask]) -> list[Written]:
        live = self._tracking.commits.all_live(table).adds
        size = sum(int(live[file.path]["size"]) for task in tasks for file in task.of.files)
        logger.warning("%s: %d files are written again, %d bytes", table.name, len(tasks), size)
        in_driver = self._workers.is_small(file_bytes=size)
        written: list[Written] = []
        step = max(_ROUND * self._workers.count, -(-len(tasks) // _ROUNDS))
        for begin in range(0, len(tasks), step):
            self._rewrites(table.name, begin, len(tasks))
            written += self._workers.run(alter_file, tasks[begin : begin + step], here=in_driver)
        return written

    def _commit(
        self,
        table: Table,
        cut: Cut,
        plan: Callable[[], StatementChange],
        definition: TargetTable | None = None,
    ) -> None:
        """Commit what ``plan`` makes of the table as it is, unless the table has it. Raise a
        retryable error if the commit did not land, or if its outcome is unknown."""
        commits, tracking = self._tracking.commits, self._tracking
        with table.lock:
            commits.refresh(table)
            if not tracking.has(table, cut):
                with commits.explain_gone_files([table]):
                    change = plan()
                # Recorded first: a start must know the definition of a table that has the commit.
                if definition is not None:
                    definitions = tracking.definitions
                    definitions.record(table.path, definition, cut.position, cut.group_gtids)
                reach("planned_statement")
                self._try(table, cut, change)
            if definition is not None:
                table.columns = columns_after(table, definition, None)
                table.definition, table.logged = definition, None
                refresh_columns(self._siblings(table))

    def _try(self, table: Table, cut: Cut, change: StatementChange) -> None:
        commits, position = self._tracking.commits, cut.position
        table.delta.pending = position
        try:
            # New metadata is computed from one version: it can't be committed after another one.
            attempt = partial(change.commit_change, commits.delta, table, self._tracking.stamp(cut))
            version = attempt() if change.new else commits.commit_after_sharing(table, attempt)
        except Exception:
            if commits.resolve(table, position) is not Outcome.LANDED:
                discard(table.folder, change.files, tried_behind=table.snapshot.version)
                raise
            logger.warning("%s: a statement's commit landed whose answer was lost", table.name)
            return
        # The files get a new origin: a commit that was planned on the old columns must not land.
        files = replace(commits.all_live(table).after(change.actions), origin=object())
        table.update(commits.delta.advance(table.snapshot, version), position, files)


def _files(written: Sequence[Written]) -> list[str]:
    return [path for part in written for path in part.files]


@dataclass(frozen=True)
class StatementChange:
    """The change of a statement to a table, in one commit. ``new``: the new metadata, None if it
    does not change; ``files``: those that were written for it."""

    new: NewTable | None = None
    actions: Sequence[Action] = ()
    files: Sequence[str] = ()

    def commit_change(self, delta: TableLog, table: Table, stamp: Stamp) -> int:
        """Commit the change and return the version."""
        planned = table.snapshot
        with about_table(table.name):
            actions = list(self.actions)
            if self.new is None:
                return delta.commit(planned, actions, stamp)
            return delta.alter(planned, at_place(self.new, stamp), actions, stamp)

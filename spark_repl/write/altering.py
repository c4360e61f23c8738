"""TableChanges: what statements do to tables that are there: one Delta commit, position in it.

ALTER TABLE goes one of two ways: *metadata only*, where every value stays (names, order, new
columns that are NULL, types that Delta keeps in the same way), or as a *rewrite* of all data files
by the workers. Either is one commit, and a table that has it says so by its position, so that a
statement which is carried out again behind a crash finds what it has done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..crash_points import reach
from ..ddl.alteration import Altered, KeptColumn
from ..ddl.table_modes import outlives_source
from ..ddl.way import Way
from ..delta.public_log import PublicLog
from ..errors import StatementError
from .altered_columns import (
    bring_columns,
    columns_behind,
    finds_columns,
    metadata,
    own_metadata,
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
from .commit import actions_of, removed
from .compaction import CompactTask
from .discard import discard
from .exchange import Exchange
from .key_index import write_indexed
from .partition_files import KeptRows, taken_out
from .table_commits import Outcome

if TYPE_CHECKING:
    import pyarrow as pa

    from ..binlog.definition import TableDefinition
    from ..control.cut import Cut
    from ..ddl.partition_rows import PartitionRows
    from ..ddl.session import Session
    from ..delta.log_replay import Action
    from ..delta.public_log import Rows
    from ..delta.table_log import NewTable
    from ..runtime.workers import Workers
    from .altered_rows import MadeRows
    from .ended_versions import TruncatedVersions
    from .soft_deletes import Truncated
    from .table import Table
    from .tracking import Tracking
    from .written import LiveFile, Written

log = logging.getLogger(__name__)

# Files are written in rounds, behind each of which the status says how far it is: as many files
# for each worker at least, and so many rounds at most.
_ROUND, _ROUNDS = 4, 20
_PARTITIONS = {
    "DROP": Way.PARTITIONS_DROPPED,
    "TRUNCATE": Way.PARTITIONS_EMPTIED,
    "REORGANIZE": Way.VALUES_DROPPED,
}


@dataclass(frozen=True)
class _Change:
    """What one commit does, with actions of ours or by Delta's writer (``rows``). ``files``: those
    that were made for it."""

    new: NewTable | None = None
    actions: Sequence[Action] = ()
    files: Sequence[str] = ()
    rows: Rows | None = None


class TableChanges:
    """Changes tables one at a time, when nothing else is under way."""

    def __init__(
        self,
        tracking: Tracking,
        workers: Workers,
        rewrites: Callable[[str, int, int], None] = lambda table, done, files: None,
    ) -> None:
        """``rewrites`` is told how many data files of a table are done, and of how many."""
        self._tracking, self._workers, self._rewrites = tracking, workers, rewrites

    def is_empty(self, table: Table) -> bool:
        """Whether the table has no data file, so that there is no row of which anything had to be
        known."""
        with table.lock:
            self._tracking.commits.refresh(table)
            return not self._tracking.commits.live_files(table)

    def truncate(self, table: Table, cut: Cut, definition: TableDefinition | None = None) -> None:
        """Takes all rows out of the table, which is of another ``definition`` then."""

        def plan() -> _Change:
            return self._without_files([table]) if self._direct else _Change()

        self._commit(table, cut, plan, definition)

    def mark_rows(self, table: Table, rows: Truncated | TruncatedVersions, cut: Cut) -> Way:
        """Has all rows of the table say that they are gone, by the TRUNCATE before ``cut``."""
        way = Way.METADATA

        def plan() -> _Change:
            nonlocal way
            files: Sequence[LiveFile] = self._tracking.commits.live_files(table)
            if not files:
                return _Change()
            way = Way.REWRITE
            return self._rewrite(table, rows, files) if self._direct else _Change(rows=rows)

        self._commit(table, cut, plan)
        return way

    def add_rows(self, table: Table, definition: TableDefinition, rows: pa.Table, cut: Cut) -> Way:
        """Adds ``rows`` that the statement before ``cut`` is, to a table whose columns are no
        narrower by ``definition``."""
        if self._tracking.has(table, cut):
            table.take_at_place(definition)
            return Way.METADATA
        same = definition == table.definition
        altered = Altered(definition, tuple(map(KeptColumn, range(len(definition.columns)))))

        def plan() -> _Change:
            new = None if same or not self._direct else metadata(self._tracking, table, altered)
            to = CompactTask.of(table, self._tracking.key_folder(table), ())
            adds = write_indexed(to.index, to.columns, rows)
            return _Change(new, [{"add": add} for add in adds], [add["path"] for add in adds])

        self._commit(table, cut, plan, None if same else definition)
        return Way.METADATA

    def alter(self, table: Table, altered: Altered, session: Session, cut: Cut) -> Way:
        """Gives the table its new columns, and its rows theirs; returns the way it went. Raises
        StatementError where the log does not say what rows become."""
        way, before = Way.METADATA, table.definition
        rows = AlteredRows(before, altered, session)

        def plan() -> _Change:
            nonlocal way
            files: Sequence[LiveFile] = self._tracking.commits.live_files(table)
            if (files or altered.rows_come) and (reason := unknown_rows(altered)):
                raise StatementError(reason, table=table.name, hint=UNKNOWN_ROWS)
            bring_columns(self._tracking, table, altered)
            if altered.gone:
                way = _PARTITIONS[altered.gone.verb]
                return self._without(table, altered.gone, files)
            if not self._direct and files:
                self._rewrites(table.name, 0, len(files))
                way, new = Way.REWRITE, own_metadata(table, altered)
                return _Change(with_new_rows(table.snapshot, new, table.name), rows=rows)
            if keeps_rows(before, altered, session) and finds_columns(
                self._tracking, table, altered
            ):
                # A NULL in a row that is marked is one all the same, for who reads the file.
                others = outlives_source(before) or before.truncated
                nulls = forbids_null(before, altered)
                files = [file for file in files if nulls and (file.vector or others)]
            if not files:
                return _Change(metadata(self._tracking, table, altered))
            way = Way.REWRITE
            return self._rewrite(table, rows, files, altered)

        self._commit(table, cut, plan, altered.definition)
        return way

    @property
    def _direct(self) -> bool:
        return self._tracking.delta.direct

    def drop(self, tables: Sequence[Table], cut: Cut) -> None:
        """Takes the rows of shards out of their Delta table."""
        by_folder: dict[str, list[Table]] = {}
        for table in tables:
            by_folder.setdefault(table.folder, []).append(table)
        for shards in by_folder.values():
            self._commit(shards[0], cut, partial(self._without_files, shards))

    def _without_files(self, tables: Sequence[Table]) -> _Change:
        now_ms, live = int(time.time() * 1000), self._tracking.commits.live
        gone = [add for table in tables for add in live(table).adds.values()]
        return _Change(actions=[{"remove": removed(add, now_ms)} for add in gone])

    def exchange(self, table: Table, other: Table, gone: PartitionRows, cut: Cut) -> Way:
        """Has the rows ``gone`` and those of ``other`` change places. Raises StatementError where
        one of them does not belong into the partition, or nobody knows which rows these were."""
        if not self._direct:
            reason = "rows are not exchanged by Delta's public APIs alone"
            raise StatementError(reason, table=table.name, hint=UNKNOWN_ROWS)
        commits = self._tracking.commits
        swap = Exchange(self._tracking, self._workers, table, other, gone)
        with other.lock:
            commits.refresh(other)
            come = commits.live(other).adds
        if table.complete != other.complete:
            for one in (table, other):
                commits.has_other_keys(one, one.snapshot.version)

        def first() -> _Change:
            written = swap.partitioned(come)
            return _Change(None, actions_of(commits, table, written), _files(written))

        def then() -> _Change:
            written = swap.other_one(cut)
            return _Change(None, actions_of(commits, other, written), _files(written))

        self._commit(table, cut, first, beside=other)
        self._commit(other, cut, then, beside=table)
        return Way.EXCHANGED

    def _without(self, table: Table, gone: PartitionRows, files: Sequence[LiveFile]) -> _Change:
        """What takes the rows of partitions out of the table."""
        if not self._direct:
            rows = KeptRows(gone, table.definition.arrow_schema())
            return _Change(rows=None if gone.all_rows or not files else rows)
        written = taken_out(self._tracking, self._workers, table, gone)
        actions = actions_of(self._tracking.commits, table, written)
        return _Change(None, actions, _files(written))

    def _rewrite(
        self,
        table: Table,
        rows: MadeRows,
        files: Sequence[LiveFile],
        altered: Altered | None = None,
    ) -> _Change:
        """``altered``: what becomes of the columns; None: they stay."""
        new, after = None, table
        if altered is not None:
            new = metadata(self._tracking, table, altered)
            new = new and with_new_rows(table.snapshot, new, table.name)
            columns = columns_behind(table, altered.definition, new)
            after = replace(table, definition=altered.definition, columns=columns, logged=None)
        to = CompactTask.of(after, self._tracking.key_folder(after), ())
        folder = self._tracking.key_folder(table)
        tasks = [AlterTask(CompactTask.of(table, folder, (file,)), to, rows) for file in files]
        written = self._rewritten(table, tasks)
        now_ms = int(time.time() * 1000)
        action = self._tracking.commits.action
        gone = [path for part in written for path in part.gone]
        actions: list[Action] = [{"remove": removed(action(table, p), now_ms)} for p in gone]
        actions += [{"add": add} for part in written for add in part.adds]
        return _Change(new, actions, [path for part in written for path in part.files])

    def _rewritten(self, table: Table, tasks: Sequence[AlterTask]) -> list[Written]:
        live = self._tracking.commits.live(table).adds
        size = sum(int(live[file.path]["size"]) for task in tasks for file in task.of.files)
        log.warning("%s: %d files are written anew, %d bytes", table.name, len(tasks), size)
        here = self._workers.is_small(file_bytes=size)
        written: list[Written] = []
        step = max(_ROUND * self._workers.count, -(-len(tasks) // _ROUNDS))
        for done in range(0, len(tasks), step):
            self._rewrites(table.name, done, len(tasks))
            written += self._workers.run(alter_file, tasks[done : done + step], here=here)
        return written

    def _commit(
        self,
        table: Table,
        cut: Cut,
        plan: Callable[[], _Change],
        definition: TableDefinition | None = None,
        *,
        beside: Table | None = None,
    ) -> None:
        """Commits what ``plan`` makes of the table as it is, unless the table has it. Raises what
        may pass when it did not land, or nobody knows. ``beside``: a table of which it is made,
        too."""
        commits, tracking = self._tracking.commits, self._tracking
        with table.lock:
            commits.refresh(table)
            if not tracking.has(table, cut):
                with commits.files_there([table, *filter(None, [beside])]):
                    change = plan()
                if definition is not None:
                    kept = tracking.definitions
                    kept.record(table.path, definition, cut.position, cut.group_gtids)
                reach("planned_statement")
                self._try(table, cut, change)
            if definition is not None:
                table.columns = columns_behind(table, definition, None)
                table.definition, table.logged = definition, None

    def _try(self, table: Table, cut: Cut, change: _Change) -> None:
        commits, position = self._tracking.commits, cut.position
        table.delta.pending = position
        try:
            # Metadata is made of one version's: it goes behind no other.
            send = partial(self._send, table, cut, change)
            version = send() if change.new else commits.behind_sharing(table, send)
        except Exception:
            if commits.settle(table, position) is not Outcome.LANDED:
                discard(table.folder, change.files, tried_behind=table.snapshot.version)
                raise
            log.warning("%s: a statement's commit landed whose answer was lost", table.name)
            return
        if not self._direct:
            commits.merged(table, position)
            return
        # Of another origin: what was planned on the columns before must not land.
        files = replace(commits.all_live(table).behind(change.actions), origin=object())
        table.take(commits.delta.altered(table.snapshot, version), position, files)

    def _send(self, table: Table, cut: Cut, change: _Change) -> int:
        delta, planned, stamp = self._tracking.delta, table.snapshot, self._tracking.stamp(cut)
        if isinstance(delta, PublicLog) and not change.actions:
            schema = change.new.schema_string if change.new else planned.schema_string
            return delta.overwrite(planned, schema, change.rows, stamp)
        actions = list(change.actions)
        if change.new is None:
            return delta.commit(planned, actions, stamp)
        return delta.alter(planned, change.new, actions, stamp)


def _files(written: Sequence[Written]) -> list[str]:
    return [path for part in written for path in part.files]

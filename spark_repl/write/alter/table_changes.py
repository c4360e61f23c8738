"""TableChanges: changes of existing tables by statements, each one Delta commit with its position.

ALTER TABLE is carried out by *metadata only* if every value stays (names, order, new columns that
are NULL, types that Delta stores alike), else by a *rewrite* of all data files by the workers.
Either is one commit. A table's position shows whether it has the commit, so that a statement that
is carried out again after a crash finds what it has done.
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
from ...rules.table_mode import outlives_source
from ...sql.ddl_outcome import DdlOutcome
from ..files.commit import removed, row_actions
from ..files.compaction import CompactTask
from ..files.discard import discard
from ..files.key_index import write_indexed
from ..shared.shard_tables import beside, look_again, others_of
from ..shared.shared_metadata import widen
from ..tables.table_commits import Outcome
from .altered_columns import (
    bring_columns,
    columns_behind,
    finds_columns,
    held_wide,
    metadata,
    moves_columns,
    needs_room,
    rewritten,
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
from .partition_files import taken_out

if TYPE_CHECKING:
    import pyarrow as pa

    from ...alter.partition_rows import PartitionRows
    from ...control.table.cut import Cut
    from ...delta.log_replay import Action
    from ...delta.snapshot import NewTable
    from ...delta.stamp import Stamp
    from ...runtime.workers import Workers
    from ...sql.session import Session
    from ...tables.table_definition import TableDefinition
    from ..files.write_task import LiveFile, Written
    from ..rows.scd2_history import TruncatedVersions
    from ..rows.soft_deletes import Truncated
    from ..tables.table import Table
    from ..tables.tracking import Tracking
    from .altered_rows import MadeRows

log = logging.getLogger(__name__)

# Files are written in rounds, behind each of which the status says how far it is: as many files
# for each worker at least, and so many rounds at most.
_ROUND, _ROUNDS = 4, 20
_PARTITIONS = {
    "DROP": DdlOutcome.PARTITIONS_DROPPED,
    "TRUNCATE": DdlOutcome.PARTITIONS_EMPTIED,
}


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
            return not self._tracking.commits.live(table).adds

    def truncate(self, table: Table, cut: Cut, definition: TableDefinition | None = None) -> None:
        """Takes all rows out of the table, which is of another ``definition`` then."""

        def plan() -> StatementChange:
            return self._without_files([table])

        self._commit(table, cut, plan, definition)

    def mark_rows(self, table: Table, rows: Truncated | TruncatedVersions, cut: Cut) -> DdlOutcome:
        """Has all rows of the table say that they are gone, by the TRUNCATE before ``cut``."""
        way = DdlOutcome.METADATA

        def plan() -> StatementChange:
            nonlocal way
            files: Sequence[LiveFile] = self._tracking.commits.live_files(table)
            if not files:
                return StatementChange()
            way = DdlOutcome.REWRITE
            return self._rewrite(table, self._tasks(table, table, rows, files))

        self._commit(table, cut, plan)
        return way

    def add_rows(
        self, table: Table, definition: TableDefinition, rows: pa.Table, cut: Cut
    ) -> DdlOutcome:
        """Adds ``rows`` that the statement before ``cut`` is, to a table whose columns are no
        narrower by ``definition``."""
        if self._tracking.has(table, cut):
            table.take_at_place(definition)
            return DdlOutcome.METADATA
        same = definition == table.definition
        altered = Altered(definition, tuple(map(CarriedColumn, range(len(definition.columns)))))

        def plan() -> StatementChange:
            new = None if same else metadata(self._tracking, table, altered)
            to = CompactTask.of(table, self._tracking.key_folder(table), ())
            adds = write_indexed(to.index, to.columns, rows)
            return StatementChange(
                new, [{"add": add} for add in adds], [add["path"] for add in adds]
            )

        self._commit(table, cut, plan, None if same else definition)
        return DdlOutcome.METADATA

    def alter(self, table: Table, altered: Altered, session: Session, cut: Cut) -> DdlOutcome:
        """Gives the table its new columns, and its rows theirs; returns the way it went. Raises
        StatementError where the log does not say what rows become."""
        way, before = DdlOutcome.METADATA, table.definition
        rows = AlteredRows(before, altered, session)

        def plan() -> StatementChange:
            nonlocal way
            files: Sequence[LiveFile] = self._tracking.commits.live_files(table)
            if (files or altered.rows_come) and (reason := unknown_rows(altered)):
                raise StatementError(reason, table=table.name, hint=UNKNOWN_ROWS)
            bring_columns(self._tracking, table, altered)
            if altered.gone:
                way = _PARTITIONS[altered.gone.verb]
                return self._without(table, altered.gone, files)
            new = metadata(self._tracking, table, altered)
            held = held_wide(table, altered)
            if keeps_rows(before, altered, session, held) and finds_columns(table, altered, new):
                # A NULL in a row that is marked is one all the same, for who reads the file.
                others = outlives_source(before) or before.truncated
                nulls = forbids_null(before, altered)
                files = [file for file in files if nulls and (file.vector or others)]
            moved = self._moved(table, new)
            if not files and not moved:
                return StatementChange(new)
            way = DdlOutcome.REWRITE
            columns = columns_behind(table, altered.definition, new)
            after = replace(table, definition=altered.definition, columns=columns, logged=None)
            return self._rewrite(table, self._tasks(table, after, rows, files) + moved, new)

        self._commit(table, cut, plan, altered.definition)
        return way

    def drop(self, tables: Sequence[Table], cut: Cut) -> None:
        """Takes the rows of shards out of their Delta table."""
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
        """What takes the rows of partitions out of the table."""
        written = taken_out(self._tracking, self._workers, table, gone)
        actions = row_actions(self._tracking.commits, table, written)
        return StatementChange(None, actions, _files(written))

    def make_room(self, shaped: TableDefinition, stamp: Stamp) -> None:
        """Gives the Delta table that a new shard is to be in types that hold its values, where
        others' files have to be written anew for it; nothing else. Raises SettingError."""
        shards = beside(shaped.name, self._tracking.all_tables())
        if shards and not shards[0].is_shared:
            commits = self._tracking.commits
            with shards[0].lock, commits.files_there(shards):
                commits.refresh(shards[0])
                if needs_room(shards, shaped):
                    rewrite = partial(self._made_room, shards)
                    widen(commits, shards[0], shaped, shards, stamp, rewrite)

    def _made_room(self, shards: Sequence[Table], new: NewTable) -> Sequence[Action]:
        tasks = rewritten(self._tracking, shards[0], shards, new)
        return self._rewrite(shards[0], tasks, new).actions if tasks else ()

    def _moved(self, table: Table, new: NewTable | None) -> list[AlterTask]:
        """What writes files of other shards anew, where ``new`` gives them other columns."""
        if new is None or not table.is_shard or not moves_columns(table, new):
            return []
        others = others_of(table, self._tracking.all_tables())
        return rewritten(self._tracking, table, others, new)

    def _tasks(
        self, table: Table, after: Table, rows: MadeRows, files: Sequence[LiveFile]
    ) -> list[AlterTask]:
        """What makes ``files`` of the table those of ``after``."""
        to = CompactTask.of(after, self._tracking.key_folder(after), ())
        folder = self._tracking.key_folder(table)
        return [AlterTask(CompactTask.of(table, folder, (file,)), to, rows) for file in files]

    def _rewrite(
        self, table: Table, tasks: Sequence[AlterTask], new: NewTable | None = None
    ) -> StatementChange:
        """``new``: what becomes of the metadata; None: it stays."""
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
        plan: Callable[[], StatementChange],
        definition: TableDefinition | None = None,
    ) -> None:
        """Commit what ``plan`` makes of the table as it is, unless the table has it. Raise a
        retryable error if the commit did not land, or if its outcome is unknown."""
        commits, tracking = self._tracking.commits, self._tracking
        with table.lock:
            commits.refresh(table)
            if not tracking.has(table, cut):
                with commits.files_there([table]):
                    change = plan()
                if definition is not None:
                    kept = tracking.definitions
                    kept.record(table.path, definition, cut.position, cut.group_gtids)
                reach("planned_statement")
                self._try(table, cut, change)
            if definition is not None:
                table.columns = columns_behind(table, definition, None)
                table.definition, table.logged = definition, None
                look_again(others_of(table, tracking.all_tables()))

    def _try(self, table: Table, cut: Cut, change: StatementChange) -> None:
        commits, position = self._tracking.commits, cut.position
        table.delta.pending = position
        try:
            # Metadata is made of one version's: it goes behind no other.
            send = partial(change.send, self._tracking, table, cut)
            version = send() if change.new else commits.behind_sharing(table, send)
        except Exception:
            if commits.settle(table, position) is not Outcome.LANDED:
                discard(table.folder, change.files, tried_behind=table.snapshot.version)
                raise
            log.warning("%s: a statement's commit landed whose answer was lost", table.name)
            return
        # Of another origin: what was planned on the columns before must not land.
        files = replace(commits.all_live(table).behind(change.actions), origin=object())
        table.take(commits.delta.advance(table.snapshot, version), position, files)


def _files(written: Sequence[Written]) -> list[str]:
    return [path for part in written for path in part.files]


@dataclass(frozen=True)
class StatementChange:
    """``new``: what becomes of the metadata, None: it stays. ``files``: those that were made for
    it."""

    new: NewTable | None = None
    actions: Sequence[Action] = ()
    files: Sequence[str] = ()

    def send(self, tracking: Tracking, table: Table, cut: Cut) -> int:
        """Commits it, as what comes before ``cut``; returns the version."""
        delta, planned, stamp = tracking.delta, table.snapshot, tracking.stamp(cut)
        with about_table(table.name):
            actions = list(self.actions)
            if self.new is None:
                return delta.commit(planned, actions, stamp)
            return delta.alter(planned, self.new, actions, stamp)

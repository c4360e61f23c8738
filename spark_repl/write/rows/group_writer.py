"""GroupWriter: writes the row changes of one group to all its tables, each in one Delta commit.

``apply.group.group_committer`` calls ``write`` with a group that the workers have read. The way is
plan, write, check, commit: the tasks write files, nothing is visible before the commits, and
``checked`` is the last place at which an error leaves all tables as they were. Tables commit side
by side. A table that has the group from an earlier attempt is passed over, so a group can be
written again after any failure.

Invariants: the lock of each Delta table that changes is held from planning to the last commit. If a
commit's answer is lost, ``_resolve`` reads the tables' logs to find out what landed, and removes
only files that no table will get. Raises RowError for the lowest failing transaction before
anything is committed, SchemaError for a definition that does not fit, and FencedError or
FormerOwnerError for another process's commit. Design: docs/design/direct-writer.md.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from ...crash_points import armed, reach
from ...decode.stage_task import SHARD_MAX_BYTES, Staged, bytes_of, rows_of, same_shape, shares
from ...delta.log.checkpoint_schedule import EVERY
from ...errors import FencedError, SchemaError, SparkReplError
from ...runtime.retry import temporary
from ...runtime.threads import Pool
from ..files.commit import commit_rows
from ..files.discard import discard
from ..files.write_task import WriteTask, Written, by_table, faults_of
from ..tables.logged_shape import LoggedCharsets, check_definition, has_other_key
from ..tables.row_error import at_first_change, row_error
from ..tables.table_commits import Outcome
from ..tables.tracking import left_out_before
from ..upkeep.scheduler import UpkeepScheduler
from ..upkeep.table_maintenance import TableMaintenance
from .direct_writer import DirectWriter

if TYPE_CHECKING:
    from ...config import Config
    from ...control.table.cut import Cut
    from ...decode.stage_task import Part
    from ...delta.log.stamp import Stamp
    from ...runtime.workers import Workers
    from ...schedule.group import StagedGroup
    from ...tables.source_table import SourceTable
    from ..files.commit import TablePart
    from ..tables.table import Table
    from ..tables.tracking import Tracking

logger = logging.getLogger(__name__)

_COMMITS_AT_ONCE = 4


class GroupWriter:
    """Plans, writes, checks and commits a group, table by table. ``DirectWriter`` implements how
    changes of a table are written. Several threads may call ``write``, for different tables.
    ``lacks``: as for the upkeep scheduler."""

    def __init__(
        self, tracking: Tracking, workers: Workers, config: Config,
        lacks: Callable[[str, str], None] = lambda name, why: None,
    ) -> None:  # fmt: skip
        self._tracking, self._commits, self.workers = tracking, tracking.commits, workers
        self._writer = DirectWriter(tracking, workers)
        maintenance = TableMaintenance(tracking, workers, config.target)
        self._upkeep = UpkeepScheduler(
            tracking, config.target, maintenance.maintain, maintenance.forget, lacks,
            at_rest=maintenance.compact_at_rest,
        )  # fmt: skip
        self._write_seconds = self._commit_seconds = 0.0
        self._statements = 0
        self._seconds: deque[float] = deque(maxlen=100_000)  # of each table's commit
        self.seconds: dict[str, float] = {}
        """seconds of each table's tasks and commits"""
        self._pool = Pool(_COMMITS_AT_ONCE, thread_name_prefix="commit")

    @property
    def writer(self) -> DirectWriter:
        """Return the writer of tables' changes."""
        return self._writer

    def write(
        self,
        staged: StagedGroup,
        cut: Cut,
        *,
        begins: Callable[[], None],
        checked: Callable[[], None],
    ) -> dict[str, int]:
        """Commit the group to every table that does not have it yet. ``cut`` is after the group.
        Return, for each table without history, how many changes of rows from before its copy were
        ignored.

        ``begins`` is called when everything is planned and the workers are needed. ``checked`` is
        called when everything fits, immediately before the commits: if it raises, nothing is
        committed. Raise RowError for the first failing transaction before anything is committed.
        """
        parts: dict[str, list[Part]] = {}
        for output in staged.by_worker:
            for piece in output.parts:
                parts.setdefault(piece.table, []).append(piece)
        group = staged.group
        # Tables that this group creates, and definitions that its TABLE_MAPs tell, are recorded as
        # of the state before the group.
        before = replace(
            cut,
            position=group.start,
            gtid_executed=str(group.executed),
            group_gtids="",
            source=cut.begin,
        )
        with ExitStack() as locks:
            tables = self._tables(staged.by_worker, parts, before, locks)
            locks.enter_context(self._commits.explain_gone_files(tables.values()))
            # A table may have the group from an earlier attempt.
            lacking = {name: t for name, t in tables.items() if t.position < cut.position}
            tasks = self._tasks(lacking, parts, group.idempotent)
            written = self._write(lacking, tasks, begins=begins, checked=checked)
            self._commit_or_resolve(lacking, written, cut)
        self._upkeep.schedule(tables)
        passed_over = dict[str, int]()
        for part in written:
            if tables[part.table].without_history and part.passed_over:
                passed_over[part.table] = passed_over.get(part.table, 0) + part.passed_over
        return passed_over

    def _write(
        self,
        tables: Mapping[str, Table],
        tasks: list[WriteTask],
        *,
        begins: Callable[[], None],
        checked: Callable[[], None],
    ) -> list[Written]:
        """Run the tasks, and return what they wrote, which fits. Raise RowError."""
        rows = sum(rows_of(task.parts) for task in tasks)
        in_driver = self.workers.is_small(rows=rows)
        self._writer.prepare(tables.values(), in_driver=in_driver)
        began = time.perf_counter()
        reach("planned")
        begins()
        written = self.workers.run(self._writer.task, tasks, here=in_driver)
        try:
            if not faults_of(written):
                written = self._writer.finish(tables, written)
            self._write_seconds += time.perf_counter() - began
            if faults := faults_of(written):
                first = min(faults, key=lambda fault: fault.position)
                raise row_error(first, tables[first.table])
            checked()
        except Exception:  # nothing was committed yet
            self._discard(written)
            raise
        return written

    def _commit_or_resolve(
        self, tables: Mapping[str, Table], written: list[Written], cut: Cut
    ) -> None:
        began = time.perf_counter()
        try:
            self._commit_tables(tables, written, cut)
        except Exception as error:
            if not self._resolve(tables, written, cut.position, error):
                raise
            logger.warning("a commit landed whose answer was lost: %s", error)
        self._commit_seconds += time.perf_counter() - began

    def schedule_upkeep(self, names: Sequence[str]) -> None:
        """Schedule upkeep of tables that a statement has changed, whenever their logs or the
        control table have grown enough to need it."""
        self._statements += 1
        tables = [t for t in map(self._tracking.tables.get, names) if t is not None]
        due = [t.name for t in tables if t.snapshot.version % EVERY == 0 and t.snapshot.version]
        if due or self._statements % EVERY == 0:
            self._upkeep.schedule(due or [t.name for t in tables] or [""])

    def phases(self) -> dict[str, float]:
        """Return seconds: for writing files and for commits, and the median and the longest of the
        tables' commits."""
        seconds = {"write_s": self._write_seconds, "commit_s": self._commit_seconds}
        if self._seconds:
            seconds |= {"commit_p50_s": median(self._seconds), "commit_max_s": max(self._seconds)}
        return seconds

    def close(self) -> None:
        """Finish the upkeep that is currently running."""
        self._upkeep.close()
        self._pool.shutdown()

    def _resolve(
        self,
        tables: Mapping[str, Table],
        written: list[Written],
        position: int,
        error: Exception,
    ) -> bool:
        """Find out, after ``error`` in a commit or in its answer, which tables have the group, and
        remove the files of tables that will not get it. Return whether all changed tables have it.

        Raise FencedError and FormerOwnerError if a commit in between is another process's. Raise
        ``error`` if the log can't be read now: nothing is removed then.
        """
        per_table, landed = by_table(tables, written), True
        for name, table in tables.items():
            if not any(part.changes_table for part in per_table[name]):
                continue
            try:
                outcome = self._commits.resolve(table, position)
            except Exception as unseen:
                lasting = isinstance(unseen, SparkReplError) and not temporary(unseen)
                if lasting or isinstance(error, FencedError):
                    raise
                raise error from unseen
            if outcome is not Outcome.LANDED:
                landed = False
                self._discard(per_table[name], tried_behind=table.snapshot.version)
        if not landed and isinstance(error, FencedError):
            raise self._commits.not_ours(error.table or "") from error
        return landed

    def _tables(
        self,
        staged: Sequence[Staged],
        parts: Mapping[str, list[Part]],
        before: Cut,
        locks: ExitStack,
    ) -> dict[str, Table]:
        """Return the tables that the group changes, by name. Each is locked until the group has
        landed."""
        definitions: dict[str, SourceTable] = {}
        for part in staged:
            for name, logged in part.origins.items():
                self._tracking.filters.source_names.claim(name, logged)
            for name, definition in part.definitions.items():
                first = definitions.setdefault(name, definition)
                if not same_shape(first, definition):
                    raise SchemaError("the definition changes without a DDL statement", table=name)
        tables, locked = {}, set[int]()
        charsets = LoggedCharsets(self._tracking.definitions, self._tracking.foreign_keys, before)
        self._tracking.record_logged_names(definitions)
        tables_by_name = {
            name: self._live_or_created(name, definition, before, parts.get(name, ()))
            for name, definition in sorted(definitions.items())
        }
        changed = {name: table for name, table in tables_by_name.items() if name in parts}
        for table in changed.values():
            if id(table.delta) not in locked:  # shards share it
                locks.enter_context(table.lock)
                locked.add(id(table.delta))
        self._commits.refresh_all([*changed.values()])
        for name, table in changed.items():
            definition = definitions[name]
            if has_other_key(table, definition):
                logger.warning("%s: its rows are told apart by another key now", name)
                self._tracking.record_key(table, definition.primary_key, before)
            check_definition(table, definition)
            charsets.record(table, definition)
            tables[name] = table
        return tables

    def _live_or_created(
        self, name: str, definition: SourceTable, before: Cut, parts: Iterable[Part]
    ) -> Table:
        """Return the table of that name. Create it from its TABLE_MAP if it does not exist."""
        table = self._tracking.live(name)
        if table is not None:
            return table
        with at_first_change(parts):
            if self._tracking.filters.left_out_before(name):
                raise left_out_before(name)
            logger.info("%s is made from its TABLE_MAP", name)
            return self._tracking.create(definition, self._tracking.stamp(before))

    def _tasks(
        self,
        tables: Mapping[str, Table],
        parts: Mapping[str, list[Part]],
        idempotent: Container[str],
    ) -> list[WriteTask]:
        """Return the group's write tasks, the heaviest first."""
        rows = sum(rows_of(pieces) for pieces in parts.values())
        share = rows // (self.workers.count + 1)
        tasks = [
            task
            for name, table in tables.items()
            for task in self._tasks_of(table, parts[name], share, idempotent=name in idempotent)
        ]
        return sorted(tasks, key=lambda task: -rows_of(task.parts))

    def _tasks_of(
        self, table: Table, parts: list[Part], share: int, *, idempotent: bool
    ) -> list[WriteTask]:
        """Return one task for each shard, or several for a shard that is too large. Each task
        writes a file. Return a single task if the table's rows are at most a worker's ``share`` of
        the group's rows, and small enough for one shard."""
        shards: dict[int, list[Part]] = {}
        whole = any(part.whole for part in parts)
        is_little = rows_of(parts) <= share and bytes_of(parts) <= SHARD_MAX_BYTES
        together = is_little or whole
        for part in parts:
            shards.setdefault(0 if together else part.shard, []).append(part)
        files = self._commits.live_files(table)
        return [
            WriteTask(
                table.name,
                table.folder,
                self._tracking.key_folder(table),
                table.columns,
                table.definition.lookup_key,
                own,
                files,
                idempotent,
                table.has_source_rows_alone and not idempotent,
                table.definition,
                change_data=table.snapshot.has("delta.enableChangeDataFeed"),
                replaces=table.definition.truncated,
            )
            for _, pieces in sorted(shards.items())
            for own in shares(pieces, 1 if whole else bytes_of(pieces) // SHARD_MAX_BYTES)
        ]

    def _commit_tables(self, tables: Mapping[str, Table], written: list[Written], cut: Cut) -> None:
        stamp = self._tracking.stamp(cut)
        per_table = by_table(tables, written)
        shared: dict[int, list[TablePart]] = {}  # by Delta table
        for name, table in tables.items():
            if any(part.changes_table for part in per_table[name]):
                shared.setdefault(id(table.delta), []).append((table, per_table[name]))
        changed = [*shared.values()]
        reach("before_commit")
        if armed("between_tables") and len(changed) > 1:  # only in a crash test
            self._commit_parts(changed.pop(0), stamp)
            reach("between_tables")
        waiting = [self._pool.submit(self._commit_parts, parts, stamp) for parts in changed]
        errors = [error for error in (future.exception() for future in waiting) if error]
        if errors:
            raise errors[0]
        reach("after_commit")

    def _commit_parts(self, parts: Sequence[TablePart], stamp: Stamp) -> None:
        began = time.perf_counter()
        commit_rows(self._commits, parts, stamp)
        seconds = time.perf_counter() - began
        self._seconds.append(seconds)
        for table, written in parts:
            # One commit holds the parts of several shards: divide its time among them.
            own = seconds / len(parts) + sum(part.seconds for part in written)
            self.seconds[table.name] = self.seconds.get(table.name, 0.0) + own

    def _discard(self, written: list[Written], *, tried_behind: int | None = None) -> None:
        """Remove the files of a group that was not committed, or not known to be."""
        for part in written:
            folder = self._tracking.tables[part.table].folder
            discard(folder, part.files, tried_behind=tried_behind)

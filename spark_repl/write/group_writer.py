"""GroupWriter: staged net changes of a group -> data files -> one commit per table."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Container, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

from ..binlog.definition import TableDefinition
from ..binlog.json.diff import CANNOT_APPLY
from ..config import Config
from ..control.control import Cut
from ..crash_points import armed, reach
from ..decode.changes import DUPLICATE_KEY
from ..decode.stage import Part, Staged, same_shape
from ..delta.partitions import NO_PARTITION, NO_PARTITION_HINT, TAKEN_FOR_NULL
from ..delta.storage import remove_if_there
from ..errors import FencedError, RowError, SchemaError, SparkReplError
from ..position import RelayPosition
from ..runtime.retry import temporary
from ..runtime.workers import HERE_BYTES, Workers
from .commit import commit, marked_rows
from .compaction import CompactTask
from .direct import LiveFile, Violation, WriteTask, Written, write
from .discard import discard
from .key_index import IndexTask, build
from .rewrite import RewriteTask, rewrite
from .table import Table
from .table_commits import Outcome
from .tracking import Tracking, user_metadata
from .upkeep import Upkeep

if TYPE_CHECKING:
    from .merge import MergeLanes

log = logging.getLogger(__name__)

_HERE_ROWS = 4000
_COMMITS_AT_ONCE = 4


class RowFault(RowError):
    """A row change that doesn't fit; ``position`` is that of its transaction."""


class GroupWriter:
    """The writers' driver side. Direct writes are planned on each table's tracked snapshot."""

    def __init__(self, tracking: Tracking, workers: Workers, config: Config) -> None:
        self.tracking, self.commits = tracking, tracking.commits
        self.workers, self.config = workers, config
        direct = config.apply.writer == "direct"
        self._upkeep = Upkeep(tracking, workers, config.target, compaction=direct)
        self._write_seconds = self._commit_seconds = 0.0
        self._commits: deque[float] = deque(maxlen=100_000)  # seconds of each table's
        self._lanes: MergeLanes | None = None
        self._function: Callable[[WriteTask], Written] = write
        if config.apply.writer == "merge":
            from .merge import MergeLanes, stage_net  # and pandas with it

            self._function = stage_net
            self._lanes = MergeLanes(workers.spark, tracking.commits)
        self._pool = ThreadPoolExecutor(_COMMITS_AT_ONCE, thread_name_prefix="commit")

    def write(
        self,
        staged: list[Staged],
        before: Cut,
        cut: Cut,
        *,
        idempotent: Container[str],
        begins: Callable[[], None],
        checked: Callable[[], None],
    ) -> dict[str, int]:
        """Commits the group to every table that isn't there yet; returns row changes per table.
        ``before``: where the group begins, ``cut``: where it ends. ``begins`` is called when
        everything is planned and the workers are needed, ``checked`` when everything fits and is
        about to be committed: what that raises prevents it.

        Raises RowFault (lowest failing transaction first) before anything is committed.
        """
        changes: dict[str, int] = {}
        parts: dict[str, list[Part]] = {}
        for part in staged:
            for name, count in part.changes.items():
                changes[name] = changes.get(name, 0) + count
            for piece in part.parts:
                parts.setdefault(piece.table, []).append(piece)
        with ExitStack() as held:
            tables = self._tables(staged, parts, before, held)
            held.enter_context(self.commits.files_there(tables.values()))
            self._write(tables, parts, cut, idempotent=idempotent, begins=begins, checked=checked)
        self._upkeep.look(tables)
        return changes

    def _write(
        self,
        tables: dict[str, Table],
        parts: dict[str, list[Part]],
        cut: Cut,
        *,
        idempotent: Container[str],
        begins: Callable[[], None],
        checked: Callable[[], None],
    ) -> None:
        # A table may have landed in an attempt before this one.
        tables = {n: t for n, t in tables.items() if t.position < cut.position}
        rows = sum(_rows(pieces) for pieces in parts.values())
        share = rows // (self.workers.count + 1)
        tasks = [
            task
            for name, table in tables.items()
            for task in self._tasks(table, parts[name], share, idempotent=name in idempotent)
        ]
        tasks.sort(key=lambda task: -_rows(task.parts))
        self._complete_indexes(tables.values())
        began = time.perf_counter()
        reach("planned")
        begins()
        written = self.workers.run(self._function, tasks, here=rows <= _HERE_ROWS)
        faults = [fault for part in written for fault in part.violations]
        try:
            if self._lanes and not faults:
                faults = self._check(self._lanes, tables, written)
            if not faults:
                written += self._rewrite(tables, written)
            self._write_seconds += time.perf_counter() - began
            if faults:
                first = min(faults, key=lambda fault: fault.position)
                raise self._fault(first, tables[first.table])
            checked()
        except Exception:  # nothing was committed yet
            self._discard(written)
            raise
        began = time.perf_counter()
        try:
            self._commit(tables, written, cut)
        except Exception as error:
            if not self._settle(tables, written, cut.position, error):
                raise
            log.warning("a commit landed whose answer was lost: %s", error)
        self._commit_seconds += time.perf_counter() - began

    def phases(self) -> dict[str, float]:
        """Seconds: writing files, committing; the median and the longest of the tables' commits."""
        found = {"write_s": self._write_seconds, "commit_s": self._commit_seconds}
        if self._commits:
            found |= {"commit_p50_s": median(self._commits), "commit_max_s": max(self._commits)}
        return found

    def close(self) -> None:
        """Ends the upkeep that is under way."""
        self._upkeep.close()
        self._pool.shutdown()

    def _settle(
        self, tables: dict[str, Table], written: list[Written], position: int, error: Exception
    ) -> bool:
        """After ``error`` in a commit, or in its answer: looks which tables have the group, and
        removes the files of those that will not have it. Returns whether all that change have.

        Raises FencedError and FormerOwnerError when a commit in between is not this process's, and
        ``error`` where nothing can be asked now: nothing is removed then.
        """
        mine, landed = _by_table(tables, written), True
        for name, table in tables.items():
            if not any(part.changes_table for part in mine[name]):
                continue
            try:
                outcome = self.commits.settle(table, position)
            except Exception as unseen:
                told = isinstance(unseen, SparkReplError) and not temporary(unseen)
                if told or isinstance(error, FencedError):
                    raise
                raise error from unseen
            if outcome is not Outcome.LANDED:
                landed = False
                self._discard(mine[name], tried_behind=table.snapshot.version)
        if not landed and isinstance(error, FencedError):
            raise self.commits.not_ours(error.table or "") from error
        return landed

    def _tables(
        self, staged: list[Staged], parts: dict[str, list[Part]], before: Cut, held: ExitStack
    ) -> dict[str, Table]:
        """The tables that the group changes, by name, each held until the group has landed."""
        definitions: dict[str, TableDefinition] = {}
        for part in staged:
            for name, definition in part.definitions.items():
                first = definitions.setdefault(name, definition)
                if not same_shape(first, definition):
                    raise SchemaError("the definition changes without a DDL statement", table=name)
        found = {}
        self.tracking.see_logged(definitions)
        for name, definition in sorted(definitions.items()):
            table = self.tracking.tables.get(name)
            if table is None:
                log.info("%s is made from its TABLE_MAP", name)
                said = user_metadata(before, self.tracking.control.channel)
                table = self.tracking.create(
                    definition, complete=False, position=before.position, user_metadata=said
                )
            if name not in parts:
                continue
            check_definition(table, definition)
            held.enter_context(table.lock)
            self.commits.refresh(table)
            found[name] = table
        return found

    def _tasks(
        self, table: Table, parts: list[Part], share: int, *, idempotent: bool
    ) -> list[WriteTask]:
        """A task a shard, each making a file; one alone for what is about a worker's
        ``share`` of the group's rows."""
        shards: dict[int, list[Part]] = {}
        together = any(part.whole for part in parts) or _rows(parts) <= share
        for part in parts:
            shards.setdefault(0 if together else part.shard, []).append(part)
        files = () if self._lanes else self.commits.live_files(table)
        return [
            WriteTask(
                table.name,
                table.folder,
                self.tracking.layout.keys(table.path),
                table.columns,
                table.definition.primary_key,
                tuple(pieces),
                files,
                idempotent,
                table.complete and not idempotent,
                table.definition,
                os.path.join(self.tracking.layout.staging(self.tracking.control.epoch), "merge"),
                change_data=table.snapshot.has("delta.enableChangeDataFeed"),
            )
            for _, pieces in sorted(shards.items())
        ]

    def _rewrite(self, tables: dict[str, Table], written: list[Written]) -> list[Written]:
        """Of tables without deletion vectors: their files that lose rows, written anew."""
        mine = _by_table(tables, written)
        without = [t for t in tables.values() if not t.has_vectors]
        tasks, size = [], 0
        for table in without:
            keys = self.tracking.layout.keys(table.path)
            for path, rows in marked_rows(mine[table.name]).items():
                old = self.commits.action(table, path)
                size += old["size"]
                file = LiveFile(path, old.get("deletionVector"))
                tasks.append(RewriteTask(CompactTask.of(table, keys, (file,)), rows.serialize()))
        return self.workers.run(rewrite, tasks, here=size <= HERE_BYTES)

    def _complete_indexes(self, tables: Iterable[Table]) -> None:
        """Files that others wrote have no key index yet: made side by side, before any look-up."""
        if self._lanes:
            return
        tasks = []
        for table in tables:
            index = self.tracking.key_index(table)
            live = self.commits.live(table).adds
            tasks += [IndexTask(index, path) for path in index.missing(live)]
        self.workers.run(build, tasks, here=len(tasks) < 2)

    def _commit(self, tables: dict[str, Table], written: list[Written], cut: Cut) -> None:
        metadata = user_metadata(cut, self.tracking.control.channel)
        mine = _by_table(tables, written)
        changed = [name for name in tables if any(w.changes_table for w in mine[name])]
        reach("before_commit")
        if armed("between_tables") and len(changed) > 1:
            first = changed.pop(0)
            self._commit_one(tables[first], mine[first], cut.position, metadata)
            reach("between_tables")
        waiting = [
            self._pool.submit(self._commit_one, tables[name], mine[name], cut.position, metadata)
            for name in changed
        ]
        errors = [found for found in (future.exception() for future in waiting) if found]
        if errors:
            raise errors[0]
        reach("after_commit")
        for path in (path for part in written for path in part.staged):
            os.remove(path)

    def _commit_one(
        self, table: Table, written: list[Written], position: int, metadata: str
    ) -> None:
        began = time.perf_counter()
        if self._lanes:
            self._lanes.commit(table, written, position, metadata)
        else:
            commit(self.commits, table, written, position, metadata)
        self._commits.append(time.perf_counter() - began)

    def _check(
        self, lanes: MergeLanes, tables: dict[str, Table], written: list[Written]
    ) -> list[Violation]:
        """The merge writer's look-ups, all before its first commit."""
        mine = _by_table(tables, written)
        changed = [name for name in tables if any(w.changes_table for w in mine[name])]
        found = self._pool.map(lambda name: lanes.check(tables[name], mine[name]), changed)
        return [fault for faults in found for fault in faults]

    def _discard(self, written: list[Written], *, tried_behind: int | None = None) -> None:
        """The files of a group that was not committed, or not seen to be."""
        for part in written:
            folder = self.tracking.tables[part.table].folder
            discard(folder, part.files, tried_behind=tried_behind)
            for path in part.staged:
                remove_if_there(path)

    def _fault(self, found: Violation, table: Table) -> RowFault:
        hint = "exec_mode = idempotent overwrites and passes over such rows, as MySQL's does"
        if found.number == CANNOT_APPLY:
            message = f"Could not apply JSON diff in table {table.definition.table} ({found.key})"
            hint = "the target's document is not the source's: copy the table again"
        elif found.number == NO_PARTITION:
            message = f"Table has no partition for a value ({found.key}): {TAKEN_FOR_NULL}"
            hint = NO_PARTITION_HINT
        elif found.number == DUPLICATE_KEY:
            message = f"Duplicate entry ({found.key}) for key 'PRIMARY'"
        else:
            message = f"Can't find record in '{table.definition.table}' ({found.key})"
            if not table.complete:
                message += "; the table is incomplete: it was not created in this log"
                hint = "apply the log from the table's creation on; " + hint
        place = RelayPosition.unpack(found.position)
        return RowFault(message, number=found.number, position=place, table=table.name, hint=hint)


def _rows(parts: Iterable[Part]) -> int:
    return sum(part.rows for part in parts)


def _by_table(tables: dict[str, Table], written: list[Written]) -> dict[str, list[Written]]:
    return {name: [part for part in written if part.table == name] for name in tables}


def check_definition(table: Table, logged: TableDefinition) -> None:
    """The rows must fit the Delta table: the same names, types and key."""
    if table.columns.fits(logged.arrow_schema()) and (
        logged.primary_key == table.definition.primary_key
    ):
        return
    hint = "a statement that this log does not hold changed the table: use an empty target"
    if [c.form for c in logged.columns] != [c.form for c in table.definition.columns]:
        hint = (
            "target.zero_dates, time_as, json_as or geometry_as is not what the table was made with"
        )
    wanted = ", ".join(f"{c.name} {c.type_name}" for c in logged.columns)
    raise SchemaError(
        f"the logged rows have the columns ({wanted}; key {logged.primary_key}), the Delta table"
        f" ({table.columns.describe()}; key {table.definition.primary_key})",
        table=table.name,
        hint=hint,
    )

"""FirstCopy: all tables of the source into an empty target, in chunks, without a lock.

Chunks are committed in order, each commit with the number of its last chunk, so a copy that was
killed goes on behind what landed. The log from before the copy is applied afterwards (sink/copies).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from ..config import Config
from ..errors import SourceError, TargetError
from ..gtid import GtidSet
from ..relay.connection import DumpConnection, check_source, connect
from ..sink.control import Control
from ..sink.copies import Copy, last_copy, record_copy
from ..sink.delta_log import DeltaLog
from ..sink.layout import Layout
from ..sink.tracking import Table, TableOptions, Tracking
from .chunk import Copied, CopyTask, copy_chunk, copy_rows
from .source_tables import SourceTable, chunk_ends, full_name, list_tables, quoted, wheres

log = logging.getLogger(__name__)

Run = Callable[[Callable[[CopyTask], Copied], list[CopyTask]], list[Copied]]


@dataclass(frozen=True)
class CopyResult:
    tables: int
    rows: int
    seconds: float
    start: GtidSet
    until: GtidSet


def plan_copy(config: Config, only: tuple[str, ...] = ()) -> Copy:
    """Notes where the source is, before any row is read; a plan that is there already stays.

    Raises TargetError for a target that has been written to, SourceError for a source that can't
    be followed.
    """
    control = Control(Layout(config.target.path).control, config.channel)
    before = last_copy(control)
    if before is not None:
        return before
    if control.exists() and (control.cuts() or control.rows("table")):
        raise TargetError(
            "the target has tables already: a first copy goes into an empty one",
            file=config.target.path, hint="give another target.path",
        )  # fmt: skip
    connection = DumpConnection(config.source)
    try:
        server = connection.server()
        check_source(server, config.source)
        connection.replicas()  # the privilege that following needs
        tables = list_tables(connection.rows, only)
        bounds = {t.definition.name: chunk_ends(connection.rows, t) for t in tables}
    finally:
        connection.close()
    copy = Copy(server.executed, bounds)
    control.claim()
    try:
        record_copy(control, copy)
    finally:
        control.release()
    return copy


class FirstCopy:
    """Does what was planned. ``run`` gives tasks to the workers; ``told`` hears (rows, of)."""

    def __init__(
        self, spark: SparkSession, config: Config, run: Run, told: Callable[[int, int], None]
    ) -> None:
        self.config, self._run, self._told = config, run, told
        self.layout = Layout(config.target.path)
        self.control = Control(self.layout.control, config.channel)
        options = TableOptions.of(config.target)
        self.tracking = Tracking(self.layout, self.control, DeltaLog(spark), options)
        self._app = f"{self.tracking.app}:copy"
        self.rows = self._expected = 0

    def copy(self, *, take_over: bool = False) -> CopyResult:
        """Raises SourceError, SchemaError, FencedError; started again it goes on."""
        began = time.perf_counter()
        planned = last_copy(self.control)
        assert planned is not None
        if planned.until is not None:
            return CopyResult(len(planned.bounds), 0, 0.0, planned.start, planned.until)
        self.control.claim(take_over=take_over)
        try:
            self.tracking.load(None)
            done = self._tables(planned)
        finally:
            self.control.release()
        assert done.until is not None
        seconds = time.perf_counter() - began
        return CopyResult(len(done.bounds), self.rows, seconds, done.start, done.until)

    def _tables(self, copy: Copy) -> Copy:
        connection = DumpConnection(self.config.source)
        try:
            tables = list_tables(connection.rows, tuple(copy.bounds)) if copy.bounds else []
            self._expected = sum(table.rows for table in tables)
            for table in tables:
                if table.definition.primary_key:
                    self._keyed(table, copy.bounds[table.definition.name])
                else:
                    copy = self._locked(table, copy, connection)
            until = connection.server().executed
        finally:
            connection.close()
        copy = replace(copy, until=until)
        record_copy(self.control, copy)
        return copy

    def _target(self, source: SourceTable) -> tuple[Table, int]:
        """The Delta table, made if need be, and how many chunks it has."""
        name = source.definition.name
        table = self.tracking.tables.get(name)
        if table is None:
            table = self.tracking.create(
                source.definition, complete=False, position=0, user_metadata="{}"
            )
        if table.definition != self.tracking.options.forms.apply(source.definition):
            raise TargetError(
                "the table's definition, or how its values are to be kept (zero_dates, time_as,"
                " geometry_as), was changed during the copy", table=name,
                hint="begin again with an empty target",
            )  # fmt: skip
        return table, self.tracking.delta.last_txn(table.snapshot, self._app) or 0

    def _task(self, table: Table, where: str) -> CopyTask:
        config = self.config
        return CopyTask(
            config.source, table.definition, table.columns, table.folder, where,
            config.target.zero_dates,
        )  # fmt: skip

    def _keyed(self, source: SourceTable, ends: tuple[str, ...]) -> None:
        table, done = self._target(source)
        definition = source.definition
        key = quoted(definition.columns[definition.primary_key[0]].name)
        chunks = wheres(key, ends)
        step = self.config.apply.workers * 2
        while done < len(chunks):
            part = chunks[done : done + step]
            found = self._run(copy_chunk, [self._task(table, where) for where in part])
            done += len(part)
            self._commit(table, found, done)

    def _locked(self, source: SourceTable, copy: Copy, connection: DumpConnection) -> Copy:
        """A table without a key: its rows as of a moment whose GTID set is known exactly.

        The lock keeps writers of this table out while the set is read and the view is opened, not
        while the rows are read. START TRANSACTION would release it, so another connection reads.
        """
        table, done = self._target(source)
        if done:
            return copy
        view = connect(self.config.source)
        try:
            try:
                connection.query(f"LOCK TABLES {full_name(source.definition)} READ")
            except SourceError as error:
                error.hint = (
                    "a table without a key can only be copied under a momentary lock: GRANT LOCK"
                    " TABLES ON *.* TO the account, or give the table a key"
                )
                raise error.at(table=source.definition.name) from None
            executed = connection.server().executed
            with view.cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            connection.query("UNLOCK TABLES")
            found = copy_rows(self._task(table, ""), view)
        finally:
            view.close()
        copy = replace(copy, exact={**copy.exact, source.definition.name: executed})
        record_copy(self.control, copy)
        self._commit(table, [found], 1)
        return copy

    def _commit(self, table: Table, found: list[Copied], done: int) -> None:
        actions: list[dict[str, Any]] = [{"add": add} for part in found for add in part.adds]
        delta = self.tracking.delta
        delta.commit(table.snapshot, actions, self._app, done, "{}")
        snapshot = delta.snapshot(table.folder)
        assert snapshot is not None
        table.snapshot = snapshot
        self.rows += sum(part.rows for part in found)
        self._told(self.rows, max(self._expected, self.rows))

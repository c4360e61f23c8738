"""First copy: tables of the source into fresh Delta tables, in chunks, not locked while read.

A table's chunks are committed in order, each commit with the number of its last chunk, so a copy
that was killed continues after its last committed chunk. The log from before the copy is applied
afterwards (control/records/copies).

``run`` and ``snapshot`` call it. Raises SourceError, NoTableError if the source drops a table
meanwhile, and ChangedTableError if a statement changes one. Design: docs/design/new-copies.md.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from rich.filesize import decimal

from ..catalog.managed import managed_tables
from ..config.renaming import SHARD
from ..control.records.channels import layout_of
from ..control.records.copies import Copy, last_copy, record_copy
from ..control.table.control import Control
from ..delta.log.log_replay import last_user_metadata
from ..delta.log.stamp import Stamp
from ..delta.log.table_log import TableLog
from ..errors import (
    BEGIN_AGAIN,
    ChangedTableError,
    FencedError,
    NoTableError,
    SchemaError,
    SourceError,
    SourceLostError,
    SparkReplError,
    Stopped,
)
from ..gtid import GtidSet
from ..rules.replication_filters import ReplicationFilters
from ..runtime.starting_session import is_built, rests
from ..runtime.threads import Pool, thread
from ..source.connection import DumpConnection, connect
from ..write.files.commit import check_files
from ..write.tables.source_description import COPY_START
from ..write.tables.table_metadata import copies_of
from ..write.tables.target_options import TargetOptions
from ..write.tables.tracking import Tracking
from .copy_chunk import Copied, CopyTask, copy_chunk, copy_rows, load, patiently
from .privileges import lock_hint
from .source_tables import ListedTable, full_name, list_tables, quoted, wheres

if TYPE_CHECKING:
    from ..config import Config
    from ..runtime.starting_session import Session
    from ..write.tables.table import Table

logger = logging.getLogger(__name__)

_CORES = threading.Semaphore(os.cpu_count() or 1)
"""chunks that this process copies at a time, for all its channels"""

T = TypeVar("T")

_LOCK_WAIT_S = 20
_FEW_ROWS, _ALONE_S = 5_000_000, 5.0
"""rows and seconds for which Spark is not started: a start takes two cores for 4 s, in which they
copy 3,000,000 rows"""
_TABLES_AT_ONCE = 4
_ROWS_OF_A_RATE = 1000
"""least rows of a copy whose rate is shown: with fewer, it takes longer to create the tables"""
_LOCK_HINT = (
    "a long transaction, or a prepared XA branch (XA RECOVER), has changed the table: end it, and"
    " run the copy again"
)

Run = Callable[[Callable[[Any], Any], list[Any]], list[Any]]


@dataclass(frozen=True)
class CopyResult:
    """Counts of a finished copy: ``seconds`` of this run, the log's ``start``, and ``until``, the
    GTID set that the source had executed at its end. ``bytes``: of the files that this run wrote;
    None if another process made the copy."""

    tables: int
    rows: int
    seconds: float
    start: GtidSet
    until: GtidSet
    bytes: int | None = None

    @property
    def summary(self) -> str:
        """Tables, rows, bytes and seconds as one line. If the copy has enough rows, the line also
        has the rows a second."""
        plural = "" if self.tables == 1 else "s"
        size = "" if self.bytes is None else f", {decimal(self.bytes)} of files"
        rate = f": {self.rows_per_s:,} rows/s" if self.rows >= _ROWS_OF_A_RATE else ""
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        return f"{self.tables:,} table{plural}, {rows}{size} in {self.seconds:,.1f} s{rate}"

    @property
    def rows_per_s(self) -> int:
        return round(self.rows / max(self.seconds, 1e-3))


class FirstCopy:
    """A copy that follows the recorded plan.

    ``run`` gives tasks to the workers. If ``spark`` is not built yet, this process copies chunks
    until the workers are ready. If the session rests, it is started for a copy of more than
    ``_FEW_ROWS`` rows, or of more than ``_ALONE_S`` seconds. ``report`` is called with (rows so
    far, rows expected). ``control``: the control table of an applier in this process that owns the
    target. ``stop`` ends the copy between two chunks. With ``lenient``, a table that a statement
    changes while it is read is left unfinished: the applier finds the statement in the log, and
    requests another copy of the table.
    """

    def __init__(
        self,
        spark: Session,
        config: Config,
        run: Run,
        report: Callable[[int, int], None],
        control: Control | None = None,
        stop: threading.Event | None = None,
        *,
        lenient: bool = False,
    ) -> None:
        self._lenient, self._unfinished = lenient, dict[str, str]()
        self.config, self._run, self._report = config, run, report
        self._stop, self._ending = stop or threading.Event(), threading.Event()
        self.layout = layout_of(config)
        self._owned = control is not None
        self.control = control or Control(self.layout.control, config.channel)
        options = TargetOptions.of(config)
        self.control.lease_s = config.apply.lease_s
        self._delta, self.config = TableLog(managed_tables(config)), config
        self._mask_key = options.columns.key
        self._filters = ReplicationFilters.of(config)
        self.tracking = Tracking(self.layout, self.control, self._delta, options)
        self._commits = self.tracking.commits
        self.rows, self._bytes, self._expected = 0, 0, 0
        self._counting, self._ready = threading.Lock(), threading.Event()
        self._in_driver = threading.Semaphore(min(config.apply.workers, os.cpu_count() or 1))
        self._rests, self._began = rests(spark), time.monotonic()
        if is_built(spark):
            self._ready.set()

    def copy(self, *, take_over: bool = False) -> CopyResult:
        """Copy the planned tables; a second run continues after the last committed chunk. Raise
        SourceError, SchemaError, FencedError or Stopped."""
        began = time.perf_counter()
        planned = last_copy(self.control)
        assert planned is not None
        if planned.until is not None:
            return CopyResult(len(planned.bounds), 0, 0.0, planned.start, planned.until, 0)
        if not self._owned:
            self.control.claim(take_over=take_over)
        try:
            copied = self._tables(planned)
        finally:
            if not self._owned:
                self.control.release()
        assert copied.until is not None
        seconds = time.perf_counter() - began
        return CopyResult(
            len(copied.bounds), self.rows, seconds, copied.start, copied.until, self._bytes
        )

    def _tables(self, copy: Copy) -> Copy:
        tables = self._planned(list(copy.bounds))
        self._make_shards(tables, copy)
        read = (table for table in tables if table.definition.name not in copy.without_rows)
        self._expected = sum(table.rows for table in read)
        views = [table for table in tables if table.definition.name in copy.views]
        keyed = [table for table in tables if table.definition.name not in copy.views]
        if self._owned:  # one table at a time: the applier's jobs would wait for all tables'
            for table in keyed:
                self._keyed(table, copy)
            copy = self._views(views, copy)
        else:
            copy = self._side_by_side(keyed, views, copy)
        if self._stop.is_set():
            raise Stopped
        # After the last row was read: no copied row has a change beyond these GTIDs.
        until = self._query(lambda source: source.server().executed)
        if self._lenient and not self._owned:
            self._compare(copy)
        copy = replace(copy, until=until, rows=self.rows, unfinished=self._unfinished)
        record_copy(self.control, copy)
        return copy

    def _make_shards(self, tables: list[ListedTable], copy: Copy) -> None:
        """Create all shards' tables before any has files: a later shard may need a wider type."""
        for table in (each for each in tables if SHARD in copy.paths[each.definition.name]):
            with self._leaving(table):
                self._target(table, copy)

    def _compare(self, copy: Copy) -> None:
        """Leave tables unfinished whose definition on the source differs from the plan, even if no
        error showed that while they were read."""
        names = [n for n in copy.bounds if n in copy.digests and n not in self._unfinished]
        for table in self._planned(names):
            name = table.definition.name
            if table.digest != copy.digests[name]:
                self._unfinish(name, "the source has altered or rebuilt it since the plan")

    def _planned(self, names: list[str]) -> list[ListedTable]:
        """Return the tables as they are now; leave a table unfinished that a statement has removed
        since. Raise NoTableError unless the copy is lenient: then no applier looks for that
        statement."""

        def listed(source: DumpConnection) -> list[ListedTable]:
            return list_tables(source.rows, tuple(names), self._filters) if names else []

        while True:
            try:
                return self._query(listed)
            except NoTableError as error:
                if not self._lenient or error.table is None:
                    raise
                self._unfinish(error.table, error)
                names.remove(error.table)

    def _side_by_side(self, keyed: list[ListedTable], views: list[ListedTable], copy: Copy) -> Copy:
        """Copy several tables at once."""
        with Pool(_TABLES_AT_ONCE, thread_name_prefix="copy") as pool:
            try:
                if self._ready.is_set():
                    pool.submit(self._load)
                elif not self._rests:
                    self._begin_load()
                futures = [pool.submit(self._keyed, table, copy) for table in keyed]
                copy = self._views(views, copy)
                for future in as_completed(futures):
                    future.result()
            except BaseException:  # also Ctrl-C: the other tables stop where they are
                self._ending.set()
                pool.shutdown(cancel_futures=True)
                raise
        return copy

    def _begin_load(self) -> None:
        """Load the workers' modules on a thread, not in the pool: the copy may end before Spark has
        started."""
        thread(self._load, "load").start()

    def _load(self) -> None:
        """Load the workers' modules, as soon as Spark has started. If this fails, the first job
        raises its error."""
        with suppress(Exception):
            self._run(load, [None] * self.config.apply.workers)
        self._ready.set()

    def _copy_chunks(self, tasks: list[CopyTask]) -> list[Copied]:
        """Copy chunks on the workers; or in this process, a bounded number at a time, until the
        workers are ready."""
        if self._ready.is_set():
            return self._run(copy_chunk, tasks)
        with self._counting:  # the expected number is an estimate of the server's
            large = self._expected > _FEW_ROWS or time.monotonic() - self._began > _ALONE_S
            begins = self._rests and large
            self._rests = self._rests and not begins
        if begins:
            self._begin_load()
        with self._in_driver, _CORES:
            copied = [copy_chunk(task) for task in tasks]
            pa.default_memory_pool().release_unused()
            return copied

    def _views(self, tables: list[ListedTable], copy: Copy) -> Copy:
        for table in tables:
            if not self._ends:
                with self._leaving(table):
                    copy = self._locked(table, copy)
        return copy

    @property
    def _ends(self) -> bool:
        return self._ending.is_set() or self._stop.is_set()

    def _query(self, question: Callable[[DumpConnection], T]) -> T:
        """Return the source's answer, over a new connection: one that stays open may break."""

        def ask() -> T:
            connection = DumpConnection(self.config.source)
            try:
                return question(connection)
            finally:
                connection.close()

        return patiently(self.config.source, ask)

    def _target(self, source: ListedTable, copy: Copy) -> tuple[Table, int]:
        """Return the Delta table, created if need be, and how many chunks it has."""
        name, base = source.definition.name, copy.behind
        table = self.tracking.create_copy(
            source.definition,
            copy.paths[name],
            self.tracking.stamp(base) if base else self._first_stamp(copy),
            without_rows=name in copy.without_rows,
        )
        if table.definition != self.tracking.shaped(source.definition):
            raise ChangedTableError(
                "the table's definition, or how its values are to be kept (zero_dates, time_as,"
                " json_as, geometry_as), was changed during the copy", table=name,
                hint=BEGIN_AGAIN,
            )  # fmt: skip
        return table, self._delta.last_txn(table.snapshot, self._app(table)) or 0

    def _first_stamp(self, copy: Copy) -> Stamp:
        """Return the stamp of a new table to which no change of the log has been applied yet."""
        start = json.dumps({COPY_START: str(copy.start)})
        return Stamp(self.tracking.app, 0, start)

    def _app(self, table: Table) -> str:
        return copies_of(self.tracking.app, table.path)

    def _task(self, table: Table, where: str, gtid_executed: GtidSet) -> CopyTask:
        config = self.config
        return CopyTask(
            config.source, table.definition, table.columns, table.folder, where,
            self.tracking.options.forms, self._mask_key, str(gtid_executed),
        )  # fmt: skip

    def _keyed(self, source: ListedTable, copy: Copy) -> None:
        if not self._ends:
            with self._leaving(source):
                if source.definition.name in copy.without_rows:
                    self._target(source, copy)
                    logger.info("%s begins empty: no rows are copied", source.definition.name)
                else:
                    self._chunks(source, copy)

    @contextmanager
    def _leaving(self, source: ListedTable) -> Iterator[None]:
        """Return a context that leaves the table unfinished after an error, if the source has
        changed its definition since. Raise the error if the definition is unchanged."""
        try:
            yield
        except SparkReplError as error:
            if not self._lenient or isinstance(error, SourceLostError | FencedError):
                raise
            if not isinstance(error, ChangedTableError | NoTableError) and self._is_as_read(source):
                raise
            self._unfinish(source.definition.name, error)

    def _is_as_read(self, source: ListedTable) -> bool:
        name = source.definition.name
        try:
            now = self._query(
                lambda connection: list_tables(connection.rows, (name,), self._filters)
            )
        except (NoTableError, SchemaError):
            return False  # dropped, or altered to a definition that can't be read
        return bool(now) and now[0].definition == source.definition

    def _unfinish(self, name: str, error: SparkReplError | str) -> None:
        logger.warning("%s was changed while it was copied: %s", name, error)
        self._unfinished[name] = str(error)

    def _chunks(self, source: ListedTable, copy: Copy) -> None:
        table, loaded = self._target(source, copy)
        definition = source.definition
        key = quoted(definition.columns[definition.primary_key[0]].name)
        chunks = wheres(key, copy.bounds[definition.name])
        while loaded < len(chunks) and not self._ends:
            step = self.config.apply.workers * 2 if self._ready.is_set() else 1
            part = chunks[loaded : loaded + step]
            copied = self._copy_chunks([self._task(table, where, copy.start) for where in part])
            loaded += len(part)
            self._commit(table, copied, Stamp(self._app(table), loaded, "{}"))

    def _locked(self, source: ListedTable, copy: Copy) -> Copy:
        """Copy a table whose log can't be applied twice, as of a moment whose GTID set is exact.

        The lock keeps writers of this table out while the set is read and the view is opened, not
        while the rows are read. START TRANSACTION would release it, so another connection reads.
        """
        table, loaded = self._target(source, copy)
        if loaded:
            return self._as_landed(table, copy)
        executed, copied = self._query(lambda connection: self._view(table, source, connection))
        copy = replace(copy, exact={**copy.exact, source.definition.name: executed})
        record_copy(self.control, copy)
        stamp = Stamp(self._app(table), 1, json.dumps({"exact": str(executed)}))
        self._commit(table, [copied], stamp)
        return copy

    def _as_landed(self, table: Table, copy: Copy) -> Copy:
        """Return the copy with the GTID set of the committed rows, which their commit records. A
        commit whose answer was late may have replaced the one recorded last."""
        metadata = last_user_metadata(table.folder, table.snapshot.version, self._app(table))
        exact = json.loads(metadata or "{}").get("exact")
        if exact is None or copy.exact.get(table.name) == GtidSet.parse(exact):
            return copy
        copy = replace(copy, exact={**copy.exact, table.name: GtidSet.parse(exact)})
        record_copy(self.control, copy)
        return copy

    def _view(
        self, table: Table, source: ListedTable, connection: DumpConnection
    ) -> tuple[GtidSet, Copied]:
        view = connect(self.config.source)
        try:
            try:
                connection.query(f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_S}")
                connection.query(f"LOCK TABLES {full_name(source.definition)} READ")
            except SourceError as error:
                if isinstance(error, SourceLostError | NoTableError) and error.number != 1205:
                    raise
                name = source.definition.name_on_source
                hint = _LOCK_HINT if error.number == 1205 else lock_hint(connection.rows, name)
                raise SourceError(  # also for an error that is retried elsewhere
                    error.message, number=error.number, table=source.definition.name, hint=hint
                ) from None
            executed = connection.server().executed
            with view.cursor() as cursor:
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            connection.query("UNLOCK TABLES")
            return executed, copy_rows(self._task(table, "", executed), view)
        finally:
            view.close()

    def _commit(self, table: Table, copied: list[Copied], stamp: Stamp) -> None:
        check_files(table, [add["path"] for part in copied for add in part.adds])
        actions: list[dict[str, Any]] = [{"add": add} for part in copied for add in part.adds]
        with table.lock:  # other shards may be copied beside it
            version = self._commits.commit_actions(table, actions, stamp)
            table.plan_on(self._delta.advance(table.snapshot, version))
        if replaced := sum(part.text_errors for part in copied):
            logger.warning(
                "%s: %d values have bytes without a character, which became U+FFFD"
                " (target.text_errors)", table.name, replaced,
            )  # fmt: skip
        with self._counting:
            self.rows += sum(part.rows for part in copied)
            self._bytes += sum(add["size"] for part in copied for add in part.adds)
            self._report(self.rows, max(self._expected, self.rows))

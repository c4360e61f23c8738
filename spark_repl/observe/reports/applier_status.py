"""ApplierStatus: what the running applier is doing, kept in ``_repl/status.json`` for `status`.

The file is replaced in one step. A restart needs nothing of it: positions are in the tables. Column
names are those of MySQL's performance_schema (replication_applier_status_by_worker).

The coordinator and the tasks beside the applier report to it, and ``status``, the page and the
metrics read the file. Design: docs/design/observing.md.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ... import formats
from ...errors import FormatError, SparkReplError
from ...runtime.executor_disk import spark_scratch_folder
from ...runtime.private_files import private_opener
from ...runtime.store_requests import paused_s, repeat_counts, request_counts
from .latency import Latency, Times
from .progress_history import Backlog, Counts, ProgressHistory
from .rates import Rates
from .statement_status import Rewrite, StatementRow, StatementStatus
from .worker_status import STAGING, Failure, Shares, WorkerStatus, now

if TYPE_CHECKING:
    from ...config import Apply, Config
    from ...position import RelayPosition
    from ...runtime.retry import Retry
    from ...schedule.group import Group

WAITING_FOR_WORK = "Replica has read all relay log; waiting for more updates"
DELAYED = "Waiting until SOURCE_DELAY seconds after source executed event"
PACED = "Waiting until apply.max_commits_per_hour allows the next commit"
# States that may last, with no later report that would have them written.
_LASTING = (WAITING_FOR_WORK, DELAYED, PACED)

_EVERY_S = 0.5
_COUNTED = ("transactions", "row_changes", "groups", "waves", "cuts", "statements", "already",
            "skipped", "zero_dates", "text_errors")  # fmt: skip
_FORMAT = 1
_NAMED_MOST = 20


@dataclass
class Counters:
    """Counts of this run.

    ``already``: transactions that some table had before; ``task_retries``: attempts that Spark
    repeated after an executor was lost.
    """

    transactions: int = 0
    row_changes: int = 0
    groups: int = 0
    cuts: int = 0
    statements: int = 0
    retries: int = 0
    task_retries: int = 0
    already: int = 0
    skipped: int = 0
    at_start: int = 0
    zero_dates: int = 0
    text_errors: int = 0
    warnings: list[str] = field(default_factory=list)
    waves: int = 0
    ways: dict[str, int] = field(default_factory=dict)
    """statements by the way in which they were carried out"""
    filters: dict[str, int] = field(default_factory=dict)
    """decisions of filter rules, by kind of rule"""
    row_filters: dict[str, int] = field(default_factory=dict)
    """row changes that row filters left out, by table"""
    passed_over: dict[str, int] = field(default_factory=dict)
    """row changes by table that are no INSERT of a table that takes only INSERTs, and row changes
    of keys from before the copy of a table without history"""


@dataclass(frozen=True)
class Result:
    """Result of one run.

    ``relay_position``: FILE:OFFSET up to which everything is applied; ``tail``: the incomplete
    transaction at the end of the log, if any.
    """

    counters: Counters
    seconds: float
    gtid_executed: str
    position: RelayPosition
    relay_position: str
    tail: str | None


class ApplierStatus:
    """The applier's state. Safe from any thread.

    It writes the file at most twice a second, in states that last, and at the end. It never
    replaces the file of an owner with a later ``epoch``.

    ``counters`` are increased. ``on_group`` is called with the counters and the end position of
    each committed group. ``ahead`` returns the backlog after a packed position. ``notes``: notices
    of other parts, read at each write; ``answers``: whether this process carries out requests of
    others.
    """

    def __init__(
        self, path: str, config: Config, epoch: int, counters: Counters | None = None,
        on_group: Callable[[Counters, int], None] | None = None,
        ahead: Callable[[int], Backlog] | None = None, notes: Mapping[str, Notice] | None = None,
        answers: Callable[[], bool] = bool,
    ) -> None:  # fmt: skip
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path, self.epoch, self.counters = path, epoch, counters or Counters()
        self._on_group = on_group or (lambda counters, end: None)
        self._backlog_at = ahead or (lambda position: Backlog())
        self._rates, self._latency = Rates(), Latency()
        self._position: int | None = None
        self._stream: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._written = 0.0
        self._own: tuple[int, ...] | None = None  # the file that was written last
        self.coordinator: dict[str, Any] = {
            "CHANNEL_NAME": config.channel,
            "THREAD_ID": os.getpid(),
            "SERVICE_STATE": "ON",
            "PROCESSLIST_STATE": STAGING,
            **Failure().columns("LAST_ERROR"),
            "LAST_ERROR_HINT": "",
            "LAST_ERROR_KIND": "",
            "PROCESSING_TRANSACTION": "",
        }
        self._workers = WorkerStatus(config.apply.workers)
        self._ahead: dict[str, str] = {}
        self._copy: dict[str, Any] = {}
        self.xa_age_limit_s = config.apply.xa_age_limit_s
        self._notes, self._answers = {} if notes is None else notes, answers  # looked at each time
        before = _of_run_before(path)
        self._statements = StatementStatus(before.get("statements", {}).get("last", ()))
        self._history = ProgressHistory(before.get("past", {}).get("samples", ()))
        self._statements.counts = self.counters.ways

    def reload(self, apply: Apply) -> None:
        """Use the new value of ``xa_age_limit_s``."""
        self.xa_age_limit_s = apply.xa_age_limit_s

    def write_notes(self) -> None:
        """Write the status after a notice has changed: an idle applier writes none by itself."""
        self._write(at_once=True)

    def stands_at(self, position: int) -> None:
        """Record the position at which this run begins."""
        self._position = position

    def state(self, text: str, processing: str) -> None:
        """Record the coordinator's state, and the transactions in progress (a GTID set)."""
        with self._lock:
            self.coordinator["PROCESSLIST_STATE"] = text
            self.coordinator["PROCESSING_TRANSACTION"] = processing
        self._write(at_once=text in _LASTING)

    def works(self, group: Group, state: str) -> None:
        """Record the state of the workers of a group."""
        with self._lock:
            self._workers.state(group.slot, group.shares, state)
        self.state(state, str(group.gtids))

    def waits(self, slot: int, begins: bool) -> None:
        """Record that a group begins or ends to wait for its turn."""
        with self._lock:
            self._workers.waits(slot, begins)
        self._write(at_once=begins)

    def applied(self, slot: int, shares: Shares, position: int) -> None:
        """Record that a group, which ends at ``position``, is committed. Its counts were added
        before."""
        with self._lock:
            self._workers.applied(slot, shares)
            self._position = position
            self.coordinator["PROCESSING_TRANSACTION"] = ""
        self._write()
        self._on_group(self.counters, position)

    def count(self, **more: int) -> None:
        """Add to the counters of these names."""
        with self._lock:
            for name, number in more.items():
                setattr(self.counters, name, getattr(self.counters, name) + number)

    def filtered(self, *decided: Mapping[str, int]) -> None:
        """Count decisions of filter rules by kind, row changes that row filters left out by table,
        and skipped row changes by table."""
        counters = self.counters
        counted = (counters.filters, counters.row_filters, counters.passed_over)
        with self._lock:
            for counts, more in zip(counted, decided, strict=True):
                for name, number in more.items():
                    counts[name] = counts.get(name, 0) + number

    def changed(self, tables: Mapping[str, int], seconds: Mapping[str, float] = {}) -> None:
        """Count the row changes of a group by table, and record the seconds of writing each table
        in this run."""
        with self._lock:
            self._rates.count(tables)
            self._rates.seconds = seconds

    def landed(self, commit_times: Times, *, is_cut: bool) -> None:
        """Record transactions that are committed to the tables. ``commit_times``: commits on the
        source, in microseconds UTC; ``is_cut``: whether a cut shows them."""
        with self._lock:
            self._latency.landed(commit_times)
            if is_cut:
                self._latency.cut()

    def streams(self, progress: Mapping[str, Any]) -> None:
        """Record Spark's progress report for the stream's last batch."""
        with self._lock:
            self._stream = dict(progress)
        self._write(at_once=True)

    def statement(self, row: StatementRow) -> None:
        """Record an applied statement."""
        with self._lock:
            self._statements.applied(row)
        self._write()

    def rewrites(self, table: str, done: int, files: int) -> None:
        """Record the progress of a statement that rewrites a table's files."""
        with self._lock:
            gtid = self.coordinator["PROCESSING_TRANSACTION"]
            self._statements.rewrite = Rewrite(table, done, files, gtid)
        self._write(at_once=True)

    def copies(self, tables: Sequence[str], rows: int, expected: int) -> None:
        """Record the progress of a copy that runs in the background; without tables there is
        none."""
        names, number = list(tables[:_NAMED_MOST]), len(tables)
        copy = {"tables": names, "number": number, "rows": rows, "expected": expected}
        with self._lock:
            self._copy = copy if tables else {}
        self._write(at_once=not tables)

    def warns(self, texts: Sequence[str]) -> None:
        """Add warnings to the run's result."""
        with self._lock:
            self.counters.warnings.extend(texts)

    def task_retries(self, number: int) -> None:
        """Record how many attempts at tasks Spark has repeated so far."""
        with self._lock:
            self.counters.task_retries = number

    def transient(self, retry: Retry) -> None:
        """Record a temporary error, before the next attempt."""
        with self._lock:
            self.counters.retries += 1
            self._workers.transient(retry.slot, retry.workers, retry.error, retry.code)
        self._write(at_once=True)

    def pauses(self) -> None:
        """Record that a request to the object store will be repeated."""
        self._write()

    def failed(self, slot: int, workers: Iterable[int], error: BaseException) -> None:
        """Record an error of these workers in a group. The applier will stop."""
        with self._lock:
            self._workers.failed(slot, workers, error)

    def turned_away(self, workers: Iterable[int], error: BaseException) -> None:
        """Record that these workers' transactions follow a failed one, and are not committed."""
        with self._lock:
            self._workers.turned_away(workers, error)

    def stopped(self, error: BaseException | None, ahead: Mapping[str, str] = {}) -> None:
        """Record the applier's end. ``ahead``: positions of the tables that are ahead of the last
        cut."""
        with self._lock:
            self._ahead = dict(ahead)
            self.coordinator |= {"SERVICE_STATE": "OFF", "PROCESSLIST_STATE": ""}
            self._statements.rewrite, self._copy = None, {}
            if error is not None:
                self.coordinator |= Failure.of(error).columns("LAST_ERROR")
                self.coordinator["LAST_ERROR_HINT"] = getattr(error, "hint", None) or ""
                self.coordinator["LAST_ERROR_KIND"] = type(error).__name__
        self._write(at_once=True)

    def _write(self, *, at_once: bool = False) -> None:
        with self._lock:
            moment = time.monotonic()
            if not at_once and moment - self._written < _EVERY_S:
                return
            self._written = moment
            channel, service = (self.coordinator[n] for n in ("CHANNEL_NAME", "SERVICE_STATE"))
            fields = {
                "at": now(),
                "epoch": self.epoch,
                "retries": self.counters.retries,
                "task_retries": self.counters.task_retries,
                "xa_age_limit_s": self.xa_age_limit_s,
                "answers": self._answers(),
                "scratch": spark_scratch_folder(),
                "notes": [asdict(note) for note in list(self._notes.values())],
                "coordinator": self.coordinator,
                "statements": self._statements.fields(),
                "ahead": self._ahead,
                "workers": self._workers.rows(channel, service=service),
                **self._figures(),
            }
            fresh = f"{self.path}.{os.getpid()}.new"
            try:
                if _file_of(self.path) != self._own and _epoch_of(self.path) > self.epoch:
                    return
                with open(fresh, "w", encoding="utf-8", opener=private_opener) as file:
                    file.write(formats.stamp(json.dumps(fields), _FORMAT))
                self._own = _file_of(fresh)
                os.replace(fresh, self.path)
            except OSError:
                return  # only this look is lost; a lasting failure shows where data is written

    def _figures(self) -> dict[str, Any]:
        """Return the counts for rates, lag and the histogram. The caller holds the lock."""
        counters = self.counters
        counted = {name: getattr(counters, name) for name in _COUNTED}
        backlog = None if self._position is None else self._backlog_at(self._position)
        if backlog is not None:
            self._history.record(backlog, Counts(*(counted[name] for name in Counts._fields)))
        return {
            "counters": counted,
            "filters": dict(counters.filters),
            "row_filters": dict(counters.row_filters),
            "passed_over": dict(counters.passed_over),
            "store_requests": request_counts(),
            "store_repeats": repeat_counts(),
            "store_paused_s": round(paused_s(), 1),
            "rates": self._rates.fields(counters.transactions, counters.row_changes),
            "commit_to_cut": self._latency.fields(),
            "log": {} if backlog is None else backlog.fields(),
            "past": self._history.fields(),
            "copy": self._copy,
            "stream": self._stream,
        }


def read_applier_status(path: str) -> dict[str, Any] | None:
    """Return the applier's last record. Raise SparkReplError if it is damaged.

    Return None if there is none, or if a later version wrote it.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = formats.unstamp(file.read(), _FORMAT, "the status", path)
        fields: dict[str, Any] = json.loads(text)
    except (FileNotFoundError, FormatError):
        return None
    except ValueError as error:
        raise SparkReplError("the status file is damaged", file=path) from error
    return fields


def _of_run_before(path: str) -> dict[str, Any]:
    """Return the previous run's record; {} if it can't be read."""
    with suppress(SparkReplError):
        return read_applier_status(path) or {}
    return {}


def _file_of(path: str) -> tuple[int, ...] | None:
    """Return what distinguishes a file from its replacement, without reading it."""
    with suppress(FileNotFoundError):
        stat = os.stat(path)
        return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
    return None


def _epoch_of(path: str) -> int:
    """Return the epoch of the status file; 0 if no file can be read."""
    with suppress(SparkReplError):
        return int((read_applier_status(path) or {}).get("epoch", 0))
    return 0


@dataclass(frozen=True)
class Notice:
    """A deviation that stops nothing: ``what`` differs from the configuration, and a ``hint``."""

    what: str
    hint: str


def lost_file_notice(table: str, why: str) -> Notice | None:
    """Return the notice about a table that lacks a file, with the reason ``why``; None for ""."""
    if not why:
        return None
    return Notice(
        f"a file of {table} is gone: {why}",
        "bring it back from a backup, or copy the table again: spark-repl snapshot --config F"
        f" --table {table}",
    )

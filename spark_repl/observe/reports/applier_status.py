"""ApplierStatus: what the running applier is doing, kept in ``_repl/status.json`` for `status`.

The file is replaced atomically and says nothing that a restart needs: positions are in the tables.
Column names are those of MySQL's performance_schema (replication_applier_status_by_worker).
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
from ...runtime.private_files import opener
from .latency import Latency, Times
from .progress_history import Backlog, Counts, ProgressHistory
from .rates import Rates
from .statement_status import Rewrite, StatementRow, StatementStatus
from .worker_status import STAGING, Failure, Shares, WorkerStatus, now

if TYPE_CHECKING:
    from ...config import Apply, Config
    from ...position import RelayPosition
    from ...runtime.retry import Retry

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
    """What this run has done. ``already``: transactions that some table had from before;
    ``task_retries``: attempts of Spark's own at a task, where an executor was lost."""

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
    """how many statements went each way"""
    filters: dict[str, int] = field(default_factory=dict)
    """how often rules of filters have decided, by their kind"""
    row_filters: dict[str, int] = field(default_factory=dict)
    """row changes that row filters have left out, by table"""
    passed_over: dict[str, int] = field(default_factory=dict)
    """those that are no INSERTs of tables that only take these, and keys of rows from before the
    copy of a table without history, by table"""


@dataclass(frozen=True)
class Result:
    """What one run did. ``relay_position``: FILE:OFFSET up to which everything is applied;
    ``tail``: bytes at the end of the log that are no whole transaction."""

    counters: Counters
    seconds: float
    gtid_executed: str
    position: RelayPosition
    relay_position: str
    tail: str | None


class ApplierStatus:
    """The applier's state, reported by any thread. Writes the file at most twice a second, at
    states that last, and at the end; never over what the owner of a later ``epoch`` has written.
    ``counters`` are added to; ``on_group`` is told of each group that has landed: the counters,
    and its end. ``ahead``: what the log holds behind a packed position; ``notes``: of others;
    ``answers``: whether requests of others are carried out beside it."""

    def __init__(
        self, path: str, config: Config, epoch: int, counters: Counters | None = None,
        on_group: Callable[[Counters, int], None] | None = None,
        ahead: Callable[[int], Backlog] | None = None, notes: Mapping[str, Notice] | None = None,
        answers: Callable[[], bool] = bool,
    ) -> None:  # fmt: skip
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path, self.epoch, self.counters = path, epoch, counters or Counters()
        self._on_group = on_group or (lambda counters, end: None)
        self._look = ahead or (lambda position: Backlog())
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
            "PROCESSING_TRANSACTION": "",
        }
        self._workers = WorkerStatus(config.apply.workers)
        self._ahead: dict[str, str] = {}
        self._copy: dict[str, Any] = {}
        self.xa_age_limit_s = config.apply.xa_age_limit_s
        self._notes, self._answers = {} if notes is None else notes, answers  # looked at each time
        before = _of_run_before(path)
        self._statements = StatementStatus(before.get("statements", {}).get("last", ()))
        self._past = ProgressHistory(before.get("past", {}).get("samples", ()))
        self._statements.counts = self.counters.ways

    def reload(self, apply: Apply) -> None:
        """Takes over what may change meanwhile."""
        self.xa_age_limit_s = apply.xa_age_limit_s

    def stands_at(self, position: int) -> None:
        """Where this run begins."""
        self._position = position

    def state(self, text: str, processing: str) -> None:
        """What the coordinator does now, and on which transactions (a GTID set)."""
        with self._lock:
            self.coordinator["PROCESSLIST_STATE"] = text
            self.coordinator["PROCESSING_TRANSACTION"] = processing
        self._write(at_once=text in _LASTING)

    def works(self, slot: int, shares: Shares, text: str, processing: str) -> None:
        """What those workers do now that have a share of a group."""
        with self._lock:
            self._workers.state(slot, shares, text)
        self.state(text, processing)

    def waits(self, slot: int, begins: bool) -> None:
        """A group waits for its turn, or has waited."""
        with self._lock:
            self._workers.waits(slot, begins)
        self._write(at_once=begins)

    def applied(self, slot: int, shares: Shares, position: int) -> None:
        """A group has landed, which ends at ``position``; it has been counted."""
        with self._lock:
            self._workers.applied(slot, shares)
            self._position = position
            self.coordinator["PROCESSING_TRANSACTION"] = ""
        self._write()
        self._on_group(self.counters, position)

    def count(self, **more: int) -> None:
        """Adds to the counters of these names."""
        with self._lock:
            for name, number in more.items():
                setattr(self.counters, name, getattr(self.counters, name) + number)

    def filtered(self, *decided: Mapping[str, int]) -> None:
        """How often rules of filters have decided, by their kind; row changes that row filters have
        left out, by table; those that were passed over."""
        counters = self.counters
        counted = (counters.filters, counters.row_filters, counters.passed_over)
        with self._lock:
            for counts, more in zip(counted, decided, strict=True):
                for name, number in more.items():
                    counts[name] = counts.get(name, 0) + number

    def changed(self, tables: Mapping[str, int], seconds: Mapping[str, float] = {}) -> None:
        """How many rows of these tables a group has changed, and for how many seconds tables were
        written in this run."""
        with self._lock:
            self._rates.count(tables)
            self._rates.seconds = seconds

    def landed(self, commit_times: Times, *, is_cut: bool) -> None:
        """When the transactions that have landed were committed on the source, in microseconds;
        whether a cut shows them."""
        with self._lock:
            self._latency.landed(commit_times)
            if is_cut:
                self._latency.cut()

    def streams(self, progress: Mapping[str, Any]) -> None:
        """What Spark says of the stream's last batch."""
        with self._lock:
            self._stream = dict(progress)
        self._write(at_once=True)

    def statement(self, row: StatementRow) -> None:
        """A statement was applied, and how."""
        with self._lock:
            self._statements.applied(row)
        self._write()

    def rewrites(self, table: str, done: int, files: int) -> None:
        """A statement has a table's files written anew, of which so many are done."""
        with self._lock:
            gtid = self.coordinator["PROCESSING_TRANSACTION"]
            self._statements.rewrite = Rewrite(table, done, files, gtid)
        self._write(at_once=True)

    def copies(self, tables: Sequence[str], rows: int, expected: int) -> None:
        """How many rows of these tables are copied beside the applier; without tables: none are."""
        some, number = list(tables[:_NAMED_MOST]), len(tables)
        copy = {"tables": some, "number": number, "rows": rows, "expected": expected}
        with self._lock:
            self._copy = copy if tables else {}
        self._write(at_once=not tables)

    def warns(self, texts: Sequence[str]) -> None:
        with self._lock:
            self.counters.warnings.extend(texts)

    def task_retries(self, number: int) -> None:
        """How many attempts at a task Spark has made anew by now."""
        with self._lock:
            self.counters.task_retries = number

    def transient(self, retry: Retry) -> None:
        """A temporary error, before the next attempt."""
        with self._lock:
            self.counters.retries += 1
            self._workers.transient(retry.slot, retry.workers, retry.error, retry.code)
        self._write(at_once=True)

    def failed(self, slot: int, workers: Iterable[int], error: BaseException) -> None:
        """What these workers can't apply of a group: the applier will stop."""
        with self._lock:
            self._workers.failed(slot, workers, error)

    def turned_away(self, workers: Iterable[int], error: BaseException) -> None:
        """What these workers have stands behind what failed, and is not committed."""
        with self._lock:
            self._workers.turned_away(workers, error)

    def stopped(self, error: BaseException | None, ahead: Mapping[str, str] = {}) -> None:
        """``ahead``: the tables that hold more than the last cut shows, up to where."""
        with self._lock:
            self._ahead = dict(ahead)
            self.coordinator |= {"SERVICE_STATE": "OFF", "PROCESSLIST_STATE": ""}
            self._statements.rewrite, self._copy = None, {}
            if error is not None:
                self.coordinator |= Failure.of(error).columns("LAST_ERROR")
                self.coordinator["LAST_ERROR_HINT"] = getattr(error, "hint", None) or ""
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
                with open(fresh, "w", encoding="utf-8", opener=opener) as file:
                    file.write(formats.stamp(json.dumps(fields), _FORMAT))
                self._own = _file_of(fresh)
                os.replace(fresh, self.path)
            except OSError:
                return  # only a look at it is lost; what fails for good fails where data is written

    def _figures(self) -> dict[str, Any]:
        """What is counted, for rates, lag and the histogram. The lock is held."""
        counters = self.counters
        counted = {name: getattr(counters, name) for name in _COUNTED}
        log = None if self._position is None else self._look(self._position)
        if log is not None:
            self._past.note(log, Counts(*(counted[name] for name in Counts._fields)))
        return {
            "counters": counted,
            "filters": dict(counters.filters),
            "row_filters": dict(counters.row_filters),
            "passed_over": dict(counters.passed_over),
            "rates": self._rates.fields(counters.transactions, counters.row_changes),
            "commit_to_cut": self._latency.fields(),
            "log": {} if log is None else log.fields(),
            "past": self._past.fields(),
            "copy": self._copy,
            "stream": self._stream,
        }


def read_applier_status(path: str) -> dict[str, Any] | None:
    """What the applier wrote last; None when it never did, or one of a later version did. Raises
    SparkReplError for damage."""
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
    """Its last statements and its past; nothing where its file can't be read."""
    with suppress(SparkReplError):
        return read_applier_status(path) or {}
    return {}


def _file_of(path: str) -> tuple[int, ...] | None:
    """Tells a file from one that was put in its place, without reading it."""
    with suppress(FileNotFoundError):
        stat = os.stat(path)
        return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
    return None


def _epoch_of(path: str) -> int:
    """The epoch of the status file at ``path``; 0 where there is none that can be read."""
    with suppress(SparkReplError):
        return int((read_applier_status(path) or {}).get("epoch", 0))
    return 0


@dataclass(frozen=True)
class Notice:
    """``what`` is not as it was asked for; what to do about it: ``hint``."""

    what: str
    hint: str


def lost_file_notice(table: str, why: str) -> Notice | None:
    """The note of a table that lacks a file, as ``why`` says; None for "": it lacks none."""
    if not why:
        return None
    return Notice(
        f"a file of {table} is gone: {why}",
        "bring it back from a backup, or copy the table again: spark-repl snapshot --config F"
        f" --table {table}",
    )

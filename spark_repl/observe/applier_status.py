"""ApplierStatus: what the running applier is doing, kept in ``_repl/status.json`` for `status`.

The file is replaced atomically and says nothing that a restart needs: positions are in the tables.
Column names are those of MySQL's performance_schema (replication_applier_status_by_worker).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import formats
from ..errors import FormatError, SparkReplError
from .worker_status import Failure, Shares, WorkerStatus, now

if TYPE_CHECKING:
    from ..config import Config
    from ..position import RelayPosition

WAITING_FOR_WORK = "Replica has read all relay log; waiting for more updates"
DELAYED = "Waiting until SOURCE_DELAY seconds after source executed event"
# States that may last, with no later report that would have them written.
_LASTING = (WAITING_FOR_WORK, DELAYED)

_EVERY_S = 0.5
_FORMAT = 1


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
    warnings: list[str] = field(default_factory=list)
    waves: int = 0


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
    and its end."""

    def __init__(
        self,
        path: str,
        config: Config,
        epoch: int,
        counters: Counters | None = None,
        on_group: Callable[[Counters, int], None] | None = None,
    ) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path, self.epoch, self.counters = path, epoch, counters or Counters()
        self._on_group = on_group or (lambda counters, end: None)
        self._lock = threading.Lock()
        self._written = 0.0
        self.coordinator: dict[str, Any] = {
            "CHANNEL_NAME": config.channel,
            "THREAD_ID": os.getpid(),
            "SERVICE_STATE": "ON",
            "PROCESSLIST_STATE": WAITING_FOR_WORK,
            **Failure().columns("LAST_ERROR"),
            "PROCESSING_TRANSACTION": "",
        }
        self._workers = WorkerStatus(config.apply.workers)
        self._xa_age_limit_s = config.apply.xa_age_limit_s

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
            self.coordinator["PROCESSING_TRANSACTION"] = ""
        self._write()
        self._on_group(self.counters, position)

    def count(self, **more: int) -> None:
        """Adds to the counters of these names."""
        with self._lock:
            for name, number in more.items():
                setattr(self.counters, name, getattr(self.counters, name) + number)

    def warns(self, texts: Sequence[str]) -> None:
        with self._lock:
            self.counters.warnings.extend(texts)

    def task_retries(self, number: int) -> None:
        """How many attempts at a task Spark has made anew by now."""
        with self._lock:
            self.counters.task_retries = number

    def transient(self, error: BaseException, attempt: int, slot: int) -> None:
        """A temporary error, before its ``attempt``-th retry."""
        with self._lock:
            self.counters.retries += 1
            self._workers.transient(slot, error, attempt)
        self._write(at_once=True)

    def failed(self, workers: Iterable[int], error: BaseException) -> None:
        """What these workers can't apply: the applier will stop."""
        with self._lock:
            self._workers.failed(workers, error)

    def stopped(self, error: BaseException | None) -> None:
        with self._lock:
            self.coordinator |= {"SERVICE_STATE": "OFF", "PROCESSLIST_STATE": ""}
            if error is not None:
                self.coordinator |= Failure.of(error).columns("LAST_ERROR")
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
                "xa_age_limit_s": self._xa_age_limit_s,
                "coordinator": self.coordinator,
                "workers": self._workers.rows(channel, service=service),
            }
            fresh = f"{self.path}.{os.getpid()}.new"
            try:
                if _epoch_of(self.path) > self.epoch:
                    return
                with open(fresh, "w", encoding="utf-8") as file:
                    file.write(formats.stamp(json.dumps(fields), _FORMAT))
                os.replace(fresh, self.path)
            except OSError:
                return  # only a look at it is lost; what fails for good fails where data is written


def read(path: str) -> dict[str, Any] | None:
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


def _epoch_of(path: str) -> int:
    """The epoch of the status file at ``path``; 0 where there is none that can be read."""
    with suppress(SparkReplError):
        return int((read(path) or {}).get("epoch", 0))
    return 0

"""ApplierStatus: what the running applier is doing, kept in ``_repl/status.json`` for `status`.

The file is replaced atomically and says nothing that a restart needs: positions are in the tables.
Column names are those of MySQL's performance_schema (replication_applier_status_by_worker).
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .apply.commit_order import WAITING
from .config import Config
from .errors import SparkReplError

WAITING_FOR_WORK = "Replica has read all relay log; waiting for more updates"
STAGING = "Reading event from the relay log"
APPLYING = "Applying batch of row changes"
DELAYED = "Waiting until SOURCE_DELAY seconds after source executed event"
# They may last, with nothing behind them that would be written.
_LASTING = (WAITING_FOR_WORK, DELAYED)

_EVERY_S = 0.5
_NO_RETRIES = {
    "RETRIES_COUNT": 0,
    "LAST_TRANSIENT_ERROR_NUMBER": 0,
    "LAST_TRANSIENT_ERROR_MESSAGE": "",
    "LAST_TRANSIENT_ERROR_TIMESTAMP": None,
}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


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


class ApplierStatus:
    """One row per worker; any thread may report. Writes at most twice a second, and at the end."""

    def __init__(self, path: str, config: Config) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path = path
        self._lock = threading.Lock()
        self._written = 0.0
        self._waiting = 0  # groups, for the one before them
        self.retries = self.task_retries = 0
        self.coordinator: dict[str, Any] = {
            "CHANNEL_NAME": config.channel,
            "THREAD_ID": os.getpid(),
            "SERVICE_STATE": "ON",
            "PROCESSLIST_STATE": WAITING_FOR_WORK,
            "LAST_ERROR_NUMBER": 0,
            "LAST_ERROR_MESSAGE": "",
            "LAST_ERROR_TIMESTAMP": None,
            "PROCESSING_TRANSACTION": "",
        }
        # The workers share each group, so what is said of one is said of all.
        self._workers, self._xa_age_limit_s = config.apply.workers, config.apply.xa_age_limit_s
        self.worker: dict[str, Any] = {
            "SERVICE_STATE": "ON",
            "PROCESSLIST_STATE": "Waiting for an event from Coordinator",
            "LAST_ERROR_NUMBER": 0,
            "LAST_ERROR_MESSAGE": "",
            "LAST_ERROR_TIMESTAMP": None,
            "LAST_APPLIED_TRANSACTION": "",
            "LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP": None,
            **{f"LAST_APPLIED_TRANSACTION_{name}": value for name, value in _NO_RETRIES.items()},
            "APPLYING_TRANSACTION": "",
            "APPLYING_TRANSACTION_START_APPLY_TIMESTAMP": None,
            **{f"APPLYING_TRANSACTION_{name}": value for name, value in _NO_RETRIES.items()},
        }

    def state(self, text: str, applying: str | None = None) -> None:
        """What all workers do now, and on which transactions (a GTID set)."""
        with self._lock:
            self.coordinator["PROCESSLIST_STATE"] = text
            self.worker["PROCESSLIST_STATE"] = text
            if applying is not None and self.worker["APPLYING_TRANSACTION"] != applying:
                self.worker["APPLYING_TRANSACTION"] = applying
                self.worker["APPLYING_TRANSACTION_START_APPLY_TIMESTAMP"] = _now()
            if applying is not None:
                self.coordinator["PROCESSING_TRANSACTION"] = applying
        self._write(at_once=text in _LASTING)

    def waits(self, begins: bool) -> None:
        """A group waits for its turn, or has waited: said of the workers, whatever the one that has
        its turn does meanwhile."""
        with self._lock:
            self._waiting += 1 if begins else -1
        self._write(at_once=begins)

    def applied(self, gtids: str) -> None:
        with self._lock:
            self.worker["LAST_APPLIED_TRANSACTION"] = gtids
            self.worker["LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP"] = _now()
            self.worker["APPLYING_TRANSACTION"] = ""
            tried = self.worker["APPLYING_TRANSACTION_RETRIES_COUNT"]
            for name, none in _NO_RETRIES.items():
                found = self.worker[f"APPLYING_TRANSACTION_{name}"] if tried else none
                self.worker[f"LAST_APPLIED_TRANSACTION_{name}"] = found
            self.worker["APPLYING_TRANSACTION_RETRIES_COUNT"] = 0
            self.coordinator["PROCESSING_TRANSACTION"] = ""
        self._write()

    def transient(self, error: BaseException, attempt: int) -> None:
        """A temporary error, before its ``attempt``-th retry."""
        with self._lock:
            self.retries += 1
            self.worker["APPLYING_TRANSACTION_RETRIES_COUNT"] = attempt
            name = "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_"
            self.worker[name + "NUMBER"] = getattr(error, "number", 0)
            self.worker[name + "MESSAGE"] = str(error).partition("\n")[0]
            self.worker[name + "TIMESTAMP"] = _now()
        self._write(at_once=True)

    def stopped(self, error: BaseException | None) -> None:
        with self._lock:
            for row in (self.coordinator, self.worker):
                row["SERVICE_STATE"] = "OFF"
                row["PROCESSLIST_STATE"] = ""
                if error is not None:
                    row["LAST_ERROR_NUMBER"] = getattr(error, "number", 0)
                    row["LAST_ERROR_MESSAGE"] = str(error)
                    row["LAST_ERROR_TIMESTAMP"] = _now()
        self._write(at_once=True)

    def _write(self, *, at_once: bool = False) -> None:
        with self._lock:
            now = time.monotonic()
            if not at_once and now - self._written < _EVERY_S:
                return
            self._written = now
            channel = self.coordinator["CHANNEL_NAME"]
            shown = {"PROCESSLIST_STATE": WAITING} if self._waiting else {}
            found = {
                "at": _now(),
                "retries": self.retries,
                "task_retries": self.task_retries,
                "xa_age_limit_s": self._xa_age_limit_s,
                "coordinator": self.coordinator,
                "workers": [
                    {"CHANNEL_NAME": channel, "WORKER_ID": number + 1, **self.worker, **shown}
                    for number in range(self._workers)
                ],
            }
            fresh = f"{self.path}.{os.getpid()}.new"
            try:
                with open(fresh, "w", encoding="utf-8") as file:
                    json.dump(found, file)
                os.replace(fresh, self.path)
            except OSError:
                return  # only a look at it is lost; what fails for good fails where data is written


def read(path: str) -> dict[str, Any] | None:
    """What the applier wrote last; None when it never did. Raises SparkReplError for damage."""
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SparkReplError("the status file is damaged", file=path) from error
    return found

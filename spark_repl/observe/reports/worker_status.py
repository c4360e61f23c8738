"""WorkerStatus: rows of replication_applier_status_by_worker.

A worker has a share of a group: whole transactions. The row names the last of them. If a worker has
several groups in progress, its state and transaction are those of the first group that waits for
its turn, or else of the first group.

A worker's retries are those of its own reading, and those of writing the group if its changes were
to be written. MySQL's columns are followed by what a worker has met since the applier's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

WAITING = "Waiting for preceding transaction to commit"
IDLE = "Waiting for an event from Coordinator"
STAGING = "Reading event from the relay log"
APPLYING = "Applying batch of row changes"

Shares = Mapping[int, str]
"""worker, from 0 -> the last transaction that it has of a group"""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class Failure:
    number: int = 0
    message: str = ""
    at: str | None = None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        number = getattr(error, "number", 0) or getattr(error, "errno", 0) or 0
        return cls(number, str(error), now())

    def columns(self, name: str) -> dict[str, Any]:
        fields = {"NUMBER": self.number, "MESSAGE": self.message, "TIMESTAMP": self.at}
        return {f"{name}_{column}": value for column, value in fields.items()}


@dataclass
class Work:
    """A group in progress, with the ``retries`` and their last errors by worker."""

    shares: Shares
    state: str = STAGING
    waits: bool = False
    began: str = field(default_factory=now)
    retries: dict[int, int] = field(default_factory=dict)
    transient: dict[int, Failure] = field(default_factory=dict)

    def of(self, worker: int, *, ended: str | None = None) -> Transaction:
        """Return a worker's share of the group as a transaction, with its retries."""
        return Transaction(
            self.shares[worker], self.began, ended, self.retries.get(worker, 0),
            self.transient.get(worker, Failure()),
        )  # fmt: skip


@dataclass(frozen=True)
class Transaction:
    """A transaction that is being applied, or was applied."""

    name: str = ""
    began: str | None = None
    ended: str | None = None
    retries: int = 0
    transient: Failure = Failure()

    def columns(self, name: str) -> dict[str, Any]:
        return {
            name: self.name,
            f"{name}_START_APPLY_TIMESTAMP": self.began,
            f"{name}_RETRIES_COUNT": self.retries,
            **self.transient.columns(f"{name}_LAST_TRANSIENT_ERROR"),
        }


@dataclass
class Worker:
    """The state of a worker. ``applied_in``: the slot of the group of its ``last`` transaction;
    ``failed_in``: the slot of the group of its ``error``, None if the error is only 3030."""

    last: Transaction = Transaction()
    applied_in: int | None = None
    error: Failure = Failure()
    failed_in: int | None = None
    retries: int = 0
    transient: Failure = Failure()


class WorkerStatus:
    """State of the workers. Groups are named by their slot in the commit order. Not thread-safe."""

    def __init__(self, count: int) -> None:
        self._workers = [Worker() for _ in range(count)]
        self._work: dict[int, Work] = {}  # by slot, in the order in which they began

    def state(self, slot: int, shares: Shares, state: str) -> None:
        self._work.setdefault(slot, Work(shares)).state = state

    def waits(self, slot: int, begins: bool) -> None:
        """Record that a group begins or ends to wait for its turn."""
        if slot in self._work:
            self._work[slot].waits = begins

    def transient(
        self, slot: int, workers: Iterable[int], error: BaseException, number: int
    ) -> None:
        """Record a temporary error of a group, with its MySQL ``number``: these workers will retry.

        This includes a group that is already applied: a statement whose cut is pending.
        """
        text = str(error).partition("\n")[0] or type(error).__name__
        failure = Failure(number, text, now())
        work = self._work.get(slot)
        for index in workers:
            worker = self._workers[index]
            if work is not None:
                work.retries[index] = work.retries.get(index, 0) + 1
                work.transient[index] = failure
            elif worker.applied_in == slot:
                again = worker.last.retries + 1
                worker.last = replace(worker.last, retries=again, transient=failure)
            else:
                continue
            worker.retries += 1
            worker.transient = failure

    def applied(self, slot: int, shares: Shares) -> None:
        work = self._work.pop(slot, None) or Work(shares)
        for number in shares:
            self._workers[number].last = work.of(number, ended=now())
            self._workers[number].applied_in = slot

    def failed(self, slot: int, workers: Iterable[int], error: BaseException) -> None:
        """Record an error of these workers' own transactions. The first group's error counts."""
        for worker in (self._workers[number] for number in workers):
            if worker.failed_in is None or slot < worker.failed_in:
                worker.error, worker.failed_in = Failure.of(error), slot

    def turned_away(self, workers: Iterable[int], error: BaseException) -> None:
        """Record error 3030 of workers whose transactions follow a failed one.

        It never replaces a worker's own error.
        """
        for worker in (self._workers[number] for number in workers):
            if worker.failed_in is None:
                worker.error = Failure.of(error)

    def rows(self, channel: str, *, service: str) -> list[dict[str, Any]]:
        return [
            {"CHANNEL_NAME": channel, "WORKER_ID": n + 1, "SERVICE_STATE": service, **self._row(n)}
            for n in range(len(self._workers))
        ]

    def _row(self, number: int) -> dict[str, Any]:
        worker = self._workers[number]
        under_way = [work for work in self._work.values() if number in work.shares]
        state, applying = IDLE, Transaction()
        if under_way:
            shown = next((work for work in under_way if work.waits), under_way[0])
            state = WAITING if shown.waits else shown.state
            applying = shown.of(number)
        return {
            "PROCESSLIST_STATE": state,
            **worker.error.columns("LAST_ERROR"),
            **worker.last.columns("LAST_APPLIED_TRANSACTION"),
            "LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP": worker.last.ended,
            **applying.columns("APPLYING_TRANSACTION"),
            "COUNT_TRANSACTIONS_RETRIES": worker.retries,
            **worker.transient.columns("LAST_TRANSIENT_ERROR"),
        }

"""WorkerStatus: what each worker is doing, as rows of replication_applier_status_by_worker.

A worker has a share of a group, whole transactions; of several the last one is named. A group is
tried again as a whole, so its retries are those of every worker that has a share in it, and of no
other. Behind MySQL's columns stand what a worker has met since the applier's start.
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
        return cls(getattr(error, "number", 0), str(error), now())

    def columns(self, name: str) -> dict[str, Any]:
        fields = {"NUMBER": self.number, "MESSAGE": self.message, "TIMESTAMP": self.at}
        return {f"{name}_{column}": value for column, value in fields.items()}


@dataclass
class Work:
    """A group under way."""

    shares: Shares
    state: str = STAGING
    waits: bool = False
    began: str = field(default_factory=now)
    retries: int = 0
    transient: Failure = Failure()


@dataclass(frozen=True)
class Transaction:
    """A transaction that is being applied, or was."""

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
    last: Transaction = Transaction()
    error: Failure = Failure()
    retries: int = 0
    transient: Failure = Failure()


class WorkerStatus:
    """The workers' state, by groups that are named by their slot in the commit order. Not
    thread-safe."""

    def __init__(self, count: int) -> None:
        self._workers = [Worker() for _ in range(count)]
        self._work: dict[int, Work] = {}  # by slot, in the order in which they began

    def state(self, slot: int, shares: Shares, state: str) -> None:
        self._work.setdefault(slot, Work(shares)).state = state

    def waits(self, slot: int, begins: bool) -> None:
        """A group waits for its turn, or has waited, whatever the one before it does meanwhile."""
        if slot in self._work:
            self._work[slot].waits = begins

    def transient(self, slot: int, error: BaseException, attempt: int) -> None:
        """A temporary error of a group, before its ``attempt``-th retry."""
        if (work := self._work.get(slot)) is None:
            return
        failure = replace(Failure.of(error), message=str(error).partition("\n")[0])
        work.retries, work.transient = attempt, failure
        for number in work.shares:
            self._workers[number].retries += 1
            self._workers[number].transient = failure

    def applied(self, slot: int, shares: Shares) -> None:
        work = self._work.pop(slot, None) or Work(shares)
        for number, name in shares.items():
            self._workers[number].last = Transaction(
                name, work.began, now(), work.retries, work.transient
            )

    def failed(self, workers: Iterable[int], error: BaseException) -> None:
        for number in workers:
            self._workers[number].error = Failure.of(error)

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
            first = under_way[0]
            state = WAITING if any(work.waits for work in under_way) else first.state
            applying = Transaction(
                first.shares[number], first.began, None, first.retries, first.transient
            )
        return {
            "PROCESSLIST_STATE": state,
            **worker.error.columns("LAST_ERROR"),
            **worker.last.columns("LAST_APPLIED_TRANSACTION"),
            "LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP": worker.last.ended,
            **applying.columns("APPLYING_TRANSACTION"),
            "COUNT_TRANSACTIONS_RETRIES": worker.retries,
            **worker.transient.columns("LAST_TRANSIENT_ERROR"),
        }

"""RunningApplier: the parts of an applier between one start, or going back, and the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...observe.reports.applier_status import Result
from ...position import RelayPosition

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from ...control.table.cut import Waiting
    from ...observe.reports.applier_status import ApplierStatus, Counters
    from ...relay.index import TransactionIndex
    from ...runtime.retry import Retries
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog
    from ..group.coordinator import Coordinator
    from ..group.pipeline import Pipeline


@dataclass(frozen=True)
class RunningApplier:
    """The target, the log, and the parts that apply the log, until the applier goes back or
    ends."""

    tracking: Tracking
    applied: AppliedLog
    coordinator: Coordinator
    pipeline: Pipeline
    retries: Retries
    checkpoint: str
    status: ApplierStatus

    @property
    def position(self) -> int:
        """Return the packed end of the last transaction that every table has."""
        return self.pipeline.mark.position

    @property
    def waiting(self) -> Mapping[str, Waiting]:
        """Return the tables that no cut shows until they are copied."""
        return self.tracking.waiting

    def source_of(self, position: int) -> dict[str, Any]:
        """Return the source position of the transaction that ends at the packed position."""
        return self.applied.source_of(position)

    def phases(self) -> dict[str, float]:
        """Return the seconds that each phase of the work has taken; reading runs in parallel with
        the commits."""
        phases = {"wait_s": self.coordinator.wait_seconds, **self.pipeline.phases()}
        return {name: round(seconds, 3) for name, seconds in phases.items()}

    def result(self, counters: Counters, seconds: float, stop: threading.Event) -> Result:
        """Return the result so far. Raise LogError if the log is damaged after it, unless the
        applier was asked to ``stop``."""
        mark, applied = self.pipeline.mark, self.applied
        tail = None if self.coordinator.reached_until else _tail(applied.refresh(), stop)
        executed, end = str(mark.executed), mark.position
        name = applied.name_of(end)
        return Result(counters, seconds, executed, RelayPosition.unpack(end), name, tail)


def _tail(index: TransactionIndex, stop: threading.Event) -> str | None:
    if index.damage and not stop.is_set():
        raise index.damage
    return str(index.tail) if index.tail else None

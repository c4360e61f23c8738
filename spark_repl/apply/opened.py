"""Opened: the target and the log, as one start of the applier has found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..observe.applier_status import Result
from ..position import RelayPosition

if TYPE_CHECKING:
    import threading

    from ..observe.applier_status import ApplierStatus, Counters
    from ..relay.index import TransactionIndex
    from ..runtime.retry import Retries
    from ..write.tracking import Tracking
    from .applied_log import AppliedLog
    from .coordinator import Coordinator


@dataclass(frozen=True)
class Opened:
    """What an applier works with until it goes back, or ends."""

    tracking: Tracking
    applied: AppliedLog
    coordinator: Coordinator
    retries: Retries
    checkpoint: str
    status: ApplierStatus

    def result(self, counters: Counters, seconds: float, stop: threading.Event) -> Result:
        """What stands now. Raises LogError where the log is damaged behind it, unless the applier
        was to ``stop``."""
        coordinator, applied = self.coordinator, self.applied
        tail = None if coordinator.reached_until else _tail(applied.refresh(), stop)
        executed, end = str(coordinator.executed), coordinator.position
        name = applied.name_of(end)
        return Result(counters, seconds, executed, RelayPosition.unpack(end), name, tail)


def _tail(index: TransactionIndex, stop: threading.Event) -> str | None:
    if index.damage and not stop.is_set():
        raise index.damage
    return str(index.tail) if index.tail else None

"""Opened: the target and the log, as one start of the applier has found them."""

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
    from ..group.coordinator import Coordinator
    from ..log.applied_log import AppliedLog


@dataclass(frozen=True)
class Opened:
    """What an applier works with until it goes back, or ends."""

    tracking: Tracking
    applied: AppliedLog
    coordinator: Coordinator
    retries: Retries
    checkpoint: str
    status: ApplierStatus

    @property
    def position(self) -> int:
        """Packed end of the last transaction that every table has."""
        return self.coordinator.position

    @property
    def waiting(self) -> Mapping[str, Waiting]:
        """The tables that no cut shows until they are copied."""
        return self.tracking.waiting

    def source_of(self, position: int) -> dict[str, Any]:
        """Where the source has what ends at the packed position."""
        return self.applied.source_of(position)

    def phases(self) -> dict[str, float]:
        """Seconds that the phases of the work have taken."""
        return self.coordinator.phases()

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

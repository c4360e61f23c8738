"""Opened: the target and the log, as one start of the applier has found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..observe.applier_status import ApplierStatus
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

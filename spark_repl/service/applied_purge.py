"""Purging of applied files of the relay log, which every table has passed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..control.records.channels import control_of, layout_of
from ..control.records.copies import standing
from ..control.records.durability_barrier import DurabilityBarrier
from ..control.records.log_identity import recorded
from ..errors import ConfigError, LogError
from ..position import OFFSET_BITS
from ..receiver.purge import Purged, deciding, purge
from ..relay.log import read_while_purged
from ..runtime.companion import Companion
from ..runtime.retry import until_stopped

if TYPE_CHECKING:
    from ..apply.start.replica import Replica
    from ..config import Config
    from ..control.table.control import Control
    from ..relay.log import RelayLog
    from ..runtime.retry import Wait
    from .supervisor import Supervisor

logger = logging.getLogger(__name__)

Purge = Callable[..., Purged]
"""``purge_applied``"""

_POLL_S = 0.5
_PURGE_EVERY_S, _IDLE_PURGE_EVERY_S = 5.0, 600.0
"""seconds between purges, and while neither the log's files nor the applier's place change: each
reads the control table, which costs requests on an object store"""


def applied_file(control: Control, relay: RelayLog) -> int:
    """Return the number of the applier's current file; earlier files are no longer needed.

    Return 0 if it is unknown. The last cut lists every table, so a table without changes does not
    hold a file back.
    """
    cut = standing(control).needed
    if cut is None:
        return 0
    for log in recorded(control):
        number = (cut.position >> OFFSET_BITS) - log.base
        if log.log_id == cut.log_id and relay.holds(number):
            same = log.fingerprints.get(number) == relay.fingerprint(number)
            return number if same else 0
    return 0


def purge_applied(
    config: Config, control: Control | None = None, make_durable: Callable[[], None] | None = None
) -> Purged:
    """Remove relay log files that every table has passed, after the tables were made durable.

    ``make_durable`` makes them durable. A running applier passes its own ``control`` and
    ``make_durable``,
    which have already read the control table. Raise ConfigError if no receiver writes the log,
    OSError if a table can't be made durable; nothing is removed then.
    """
    control = control or control_of(config)
    folder = Path(config.relay.path)
    if make_durable is None:
        make_durable = DurabilityBarrier(control, layout_of(config))
    with deciding(folder):
        relay, keep_from = read_while_purged(config.relay.path, partial(applied_file, control))
        if relay.files[0].number < keep_from:
            make_durable()
        return purge(folder, keep_from)


def watch(
    receiver: Supervisor,
    applier: Replica,
    *,
    purge: Purge = purge_applied,
    wait: Wait = until_stopped,
) -> Companion:
    """Return a thread that purges applied files, and stops the applier after a receiver's error."""
    looked = purged = time.monotonic()
    warned, place = "", tuple[object, ...]()

    def turn() -> bool:
        nonlocal looked, purged, warned, place
        if receiver.error is not None:
            applier.stop()
            return False
        if time.monotonic() - looked <= _PURGE_EVERY_S:
            return True
        current = _place(receiver.config, applier)
        if current != place or time.monotonic() - purged > _IDLE_PURGE_EVERY_S:
            tracking = applier.tracking
            now = partial(purge, receiver.config, tracking.control, tracking.barrier)
            warned = _log_purged(now, warned)
            purged, place = time.monotonic(), current
        looked = time.monotonic()
        return True

    attempts = receiver.config.apply.transaction_retries
    return Companion(
        "watch over the receiver", turn, applier.fail, pause_s=_POLL_S, attempts=attempts,
        wait=wait,
    )  # fmt: skip


def _place(config: Config, applier: Replica) -> tuple[object, ...]:
    """Return the names of the log's files, and the applier's position."""
    return (*sorted(Path(config.relay.path).glob("relay.*")), applier.position)


def _log_purged(purge: Callable[[], Purged], warned: str) -> str:
    """Purge, log the result, and return its warning; ``warned``: the last one, not logged again."""
    try:
        purged = purge()
    except (LogError, ConfigError) as error:  # the receiver is beginning a new log
        logger.info("nothing purged: %s", error)
        return warned
    if purged.files:
        logger.info("purged %s to %s, %d bytes", purged.files[0], purged.files[-1], purged.bytes)
    if purged.warning and purged.warning != warned:
        logger.warning("%s", purged.warning)
    return purged.warning

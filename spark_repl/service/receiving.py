"""The receiver as a process of its own, and the position at which a new relay log begins."""

from __future__ import annotations

import logging
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ..control.records.channels import control_of
from ..control.records.copies import standing
from ..control.records.operator_decisions import skipped
from ..errors import SparkReplError
from ..gtid import GtidSet
from ..receiver.receiver import Receiver
from ..relay.source_place import SourcePlace
from ..source.connection import present_gtids
from .command_process import at_signals

if TYPE_CHECKING:
    from ..config import Config

logger = logging.getLogger(__name__)


def executed_of(config: Config) -> GtidSet | None:
    """Return the target's GTID set, after which a new relay log begins. None: no target yet."""
    return standing(control_of(config)).executed


def place_of(config: Config) -> tuple[str, int] | None:
    """Return the source's file and position up to which the target has everything.

    A new relay log without auto_position begins there. Return None without a target, or if the
    target does not record it.
    """
    cut = standing(control_of(config)).needed
    place = SourcePlace.of(cut.source) if cut else None
    return (place.file, place.position) if place else None


def _skipped(config: Config) -> GtidSet:
    """Return the GTIDs of ``spark-repl skip``; none if the target can't be read now."""
    try:
        return skipped(control_of(config))
    except (SparkReplError, OSError) as error:
        logger.warning("what is to be left out is not known: %s", error)
        return GtidSet()


def receive(config: Config, *, parent: int = 0, from_end: bool = False) -> dict[str, Any]:
    """Run the receiver in this process until SIGTERM, or until ``parent`` is gone.

    A new log begins after the target's transactions; with ``from_end`` after the source's. Raise
    SourceError if the source refuses, LogError if the relay log can't be written.
    """
    begin = present_gtids(config.source)[0] if from_end else executed_of(config)
    place = None if config.source.auto_position else place_of(config)
    receiver = Receiver(
        config,
        begin,
        place,
        keep_on=lambda: not parent or os.getppid() == parent,
        skipped=partial(_skipped, config),
    )
    at_signals(receiver.stop)
    began = time.perf_counter()
    receiver.run()
    return {
        "transactions": receiver.writer.transactions,
        "seconds": round(time.perf_counter() - began, 3),
        "received_transaction_set": str(receiver.writer.received),
        "relay_position": f"{receiver.writer.number:06d}:{receiver.writer.whole}",
    }

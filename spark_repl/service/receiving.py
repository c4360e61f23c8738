"""The receiver by itself, and where a new relay log begins: behind what the target has."""

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

log = logging.getLogger(__name__)


def executed_of(config: Config) -> GtidSet | None:
    """The GTID set that the target has: a new relay log begins behind it. None: no target yet."""
    return standing(control_of(config)).executed


def place_of(config: Config) -> tuple[str, int] | None:
    """The file and position of the source up to which the target has everything: a new relay log of
    a receiver without auto_position begins there. None: no target yet, or it does not say it."""
    cut = standing(control_of(config)).needed
    place = SourcePlace.of(cut.source) if cut else None
    return (place.file, place.position) if place else None


def _skipped(config: Config) -> GtidSet:
    """Return what ``spark-repl skip`` has recorded. The receiver does not wait for the target."""
    try:
        return skipped(control_of(config))
    except (SparkReplError, OSError) as error:
        log.warning("what is to be left out is not known: %s", error)
        return GtidSet()


def receive(config: Config, *, parent: int = 0, from_end: bool = False) -> dict[str, Any]:
    """Runs the receiver in this process until SIGTERM, or until ``parent`` is gone. A new log
    begins behind what the target has; with ``from_end`` behind what the source has.

    Raises SourceError when the source refuses, LogError when the relay log can't be written.
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

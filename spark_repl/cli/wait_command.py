"""``spark-repl wait``: until readers can see a set of transactions."""

from __future__ import annotations

import argparse
import time

from ..control.cut_wait import wait_at
from .inspect import channel_of, emit


def wait(options: argparse.Namespace) -> int:
    """Ends when a cut holds all of them. Raises TargetError at the timeout."""
    began = time.monotonic()
    at = channel_of(options)
    cut = wait_at(at.control, at.layout.target, options.gtid, options.timeout)
    seconds = round(time.monotonic() - began, 3)
    emit({"gtid_executed": cut.gtid_executed, "seconds": seconds}, options.json)
    return 0

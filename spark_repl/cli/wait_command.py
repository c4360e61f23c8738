"""``spark-repl wait``: until readers can see a set of transactions."""

from __future__ import annotations

import argparse
import time

from ..control.cut_wait import wait_for
from .inspect import emit, target_of


def wait(options: argparse.Namespace) -> int:
    """Ends when a cut holds all of them. Raises TargetError at the timeout."""
    began = time.monotonic()
    cut = wait_for(target_of(options), options.gtid, options.timeout)
    seconds = round(time.monotonic() - began, 3)
    emit({"gtid_executed": cut.gtid_executed, "seconds": seconds}, options.json)
    return 0

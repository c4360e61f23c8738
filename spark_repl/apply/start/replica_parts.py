"""What an applier is made of that reaches out of its process, or is told to wait: whoever makes a
``Replica`` may give it another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...config.rules import LISTEN
from ...control.table.control import Control
from ...decode.cascades.logged_changes import read_logged_changes
from ...decode.stage import stage
from ...delta.table_log import TableLog
from ...observe.reports.applier_status import ApplierStatus
from ...runtime.retry import until_stopped
from ...runtime.workers import Workers
from ...write.cascades.emulated_cascades import emulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...decode.staged import Staged, StageTask
    from ...runtime.retry import Wait
    from ...write.cascades.emulated_cascades import Cascaded, CascadeTask

_EMULATE = partial(emulate, read_logged_changes)


@dataclass(frozen=True)
class Parts:
    """The parts; those that are not given are those of every run."""

    workers: Callable[[SparkSession, int], Workers] = Workers
    delta_log: Callable[[], TableLog] = TableLog
    stage: Callable[[StageTask], Staged] = stage
    """a worker's part of reading a group"""
    emulate: Callable[[CascadeTask], Cascaded] = _EMULATE
    """and of following what foreign keys have done with it"""
    control: Callable[[str, str], Control] = Control
    """the control table at a path, of a channel"""
    wait: Wait = until_stopped
    """how it waits before it tries something again"""
    status: Callable[..., ApplierStatus] = ApplierStatus
    listen: str = LISTEN
    """where it has a page that nobody has asked for"""

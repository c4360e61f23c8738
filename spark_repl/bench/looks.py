"""Looks: what is asked of a target besides applying to it, each the best of some, in seconds.

What a new process asks is asked as if this one were new: Delta has no log open.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..control.control import Control
from ..control.cut_reader import find_cut
from ..control.cut_wait import wait_for
from ..observe.status import status

if TYPE_CHECKING:
    from ..config import Config

_LOOKS = 5


def looks(spark: Any, config: Config) -> dict[str, float]:
    """A start, a takeover from an owner that is there still, a status, the newest cut and all of
    them, a wait for what is there."""
    target = config.target.path
    newest = Control.existing(target).last_cut()
    assert newest is not None
    asked: dict[str, Callable[[], object]] = {
        "status": lambda: status(target),
        "cut": lambda: find_cut(Control.existing(target), "latest"),
        "cuts": lambda: Control.existing(target).cuts(),
        "wait": lambda: wait_for(target, newest.gtid_executed),
    }
    seconds = {"start": start(spark, config), "takeover": _takeover(spark, config)}
    return seconds | {name: _best(_timed(look)) for name, look in asked.items()}


def start(spark: Any, config: Config) -> float:
    from ..apply.replica import Replica

    def one() -> float:
        _forget(spark)
        began = time.perf_counter()
        with Replica(spark, config):
            return time.perf_counter() - began

    return _best(one)


def _takeover(spark: Any, config: Config) -> float:
    from ..apply.replica import Replica

    def one() -> float:
        with Replica(spark, config):
            _forget(spark)
            began = time.perf_counter()
            with Replica(spark, config, take_over=True):
                return time.perf_counter() - began

    return _best(one)


def _forget(spark: Any) -> None:
    """Has Delta open each log anew."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _timed(look: Callable[[], object]) -> Callable[[], float]:
    def one() -> float:
        began = time.perf_counter()
        look()
        return time.perf_counter() - began

    return one


def _best(one: Callable[[], float]) -> float:
    return min(one() for _ in range(_LOOKS))

"""``bench endurance``: what a target that has been followed for so many hours costs beside a new
one: what is asked of it, as a new process would, and groups."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..control.control import Control
from ..control.cut_reader import find_cut
from ..control.cut_wait import wait_for
from ..observe.status import status
from .old_target import make_old

if TYPE_CHECKING:
    from ..config import Config
    from ..schedule.stops import Until
    from .recorded import Recording

_LOOKS = 5


def bench_endurance(recording: Recording, hours: int, rate: float) -> dict[str, Any]:
    """Looks at a target that is new and one of ``hours``, and applies a recording behind what is
    prepared to each, in turns of one session; ``rate``: commits of each table in a second. Times
    are in seconds, of a group from its reading to its cut."""
    from ..runtime.session import build_session

    base = recording.config()
    spark = build_session(master=f"local[{base.apply.workers}]")
    figures: dict[str, Any] = {"hours": hours, "commits_per_table": 0}
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder:
        for name in ("warm_up", "new", "old", "new_again", "old_again"):
            config = base.override({"target.path": os.path.join(folder, name)})
            _apply(spark, config, recording.prepared)
            if name.startswith("old"):
                figures["commits_per_table"] = make_old(config, hours, rate)
            # Spark ends Python processes that were idle for a minute: this starts them again.
            _apply(spark, config, recording.prepared)
            figures[name] = _measured(spark, config)
            shutil.rmtree(config.target.path)
    del figures["warm_up"]
    return figures


def _apply(spark: Any, config: Config, until: Until | None = None) -> list[float]:
    """Seconds until the first group is shown, the stream's start with it, then from cut to cut."""
    from ..apply.replica import Replica

    times = list[float]()

    def on_group(*_: Any) -> None:
        times.append(time.perf_counter())

    with Replica(spark, config, on_group, until=until) as replica:
        times.append(time.perf_counter())
        replica.apply()
    return np.diff(times).tolist()


def _measured(spark: Any, config: Config) -> dict[str, float]:
    seconds = _looks(spark, config)
    first, *groups = _apply(spark, config)
    seconds |= {"first_group": first}
    seconds |= {f"group_p{share}": float(np.percentile(groups, share)) for share in (50, 99)}
    return {f"{name}_s": round(value, 4) for name, value in seconds.items()}


def _looks(spark: Any, config: Config) -> dict[str, float]:
    """The best of some of each: a start, a takeover from an owner that is there still, a status,
    the newest cut and all of them, a wait for what is there."""
    target = config.target.path
    newest = Control.existing(target).last_cut()
    assert newest is not None
    asked: dict[str, Callable[[], object]] = {
        "status": lambda: status(target),
        "cut": lambda: find_cut(Control.existing(target), "latest"),
        "cuts": lambda: Control.existing(target).cuts(),
        "wait": lambda: wait_for(target, newest.gtid_executed),
    }
    seconds = {"start": _start(spark, config), "takeover": _takeover(spark, config)}
    return seconds | {name: _best(_timed(look)) for name, look in asked.items()}


def _start(spark: Any, config: Config) -> float:
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

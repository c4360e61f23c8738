"""``bench endurance``: costs of a target that was followed for many days, compared with a new one.

Measured are the questions that a new process asks, and a live load.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from ..control.cuts.cut_reader import find_cut
from ..control.cuts.cut_wait import wait_for
from ..control.table.control import Control
from ..delta.store.storage import remove_folder
from ..observe.status.status import status
from ..runtime.object_store import canonical, is_remote
from .growing_log import GrowingLog
from .memory import Memory
from .old_target import make_old

if TYPE_CHECKING:
    from ..config import Config
    from .recorded import Recording

_LOOKS = 5
_PARTS = ("lake", "relay", "state")
_FIGURES = ("commit_to_cut_p50_s", "commit_to_cut_p99_s", "status_s", "rss_mib")


@dataclass(frozen=True)
class Age:
    """Age of a target: ``days`` of ``commits_per_day``, spread over its tables."""

    days: float
    commits_per_day: int

    def give(self, config: Config) -> int:
        """Age the target, and return the number of commits per table."""
        last = Control.existing(config.target.path).last_cut()
        assert last is not None
        return make_old(config, self.days * 24, self.commits_per_day / 86400 / len(last.tables))


def bench_endurance(recording: Recording, age: Age, rate: float, below: str = "") -> dict[str, Any]:
    """Compare a new target with one of an ``age``, alternately in one session.

    Each target gets the recording after its prepared part, at ``rate`` transactions per second.
    Times are in seconds; a transaction's time is from the log to its cut. Figures of old targets
    are the worse of two. ``below``: folder of the targets, also in a bucket; by default a temporary
    folder. Raise ConfigError.
    """
    from ..runtime.spark_session import build_session

    base = recording.config()
    spark = build_session(master=f"local[{base.apply.workers}]", delta=False)
    figures: dict[str, Any] = {"age_days": age.days, "rate": rate, "commits_per_table": 0}
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder:
        for name in ("warm_up", "new", "old", "new_again", "old_again"):
            target, relay, state = (os.path.join(folder, f"{name}_{part}") for part in _PARTS)
            target = canonical(os.path.join(below, name)) if below else target
            config = base.override({"target.path": target, "relay.path": relay})
            config = config.override({"target.state_path": state}) if is_remote(target) else config
            assert recording.prepared is not None
            growing = GrowingLog(recording.relay, relay, recording.prepared)
            _apply(spark, config)
            if name.startswith("old"):
                figures["commits_per_table"] = age.give(config)
            # Spark ends Python processes that were idle for a minute: this starts them again.
            _apply(spark, config)
            figures[name] = _looks(spark, config) | _load(spark, config, growing, rate)
            remove_folder(target)
    del figures["warm_up"]
    worse = {name: max(figures[old][name] for old in ("old", "old_again")) for name in _FIGURES}
    return worse | figures


def _apply(spark: Any, config: Config) -> None:
    """Apply all that the log holds."""
    from ..apply.start.replica import Replica

    with Replica(spark, config) as replica:
        replica.apply()


def _load(spark: Any, config: Config, growing: GrowingLog, rate: float) -> dict[str, float]:
    """Apply the first transaction, with the stream's start, and then the others as they arrive,
    until the last one's cut."""
    from ..apply.start.replica import Replica

    ends, shown, lands = list[int](), list[float](), Event()

    def on_group(_: Any, end: int) -> None:
        ends.append(end)
        shown.append(time.perf_counter())
        lands.set()
        if end >= growing.ends[-1]:
            replica.stop()

    def feed() -> None:
        growing.add()
        lands.wait()
        growing.grow(rate)

    with (
        Memory() as memory,
        ThreadPoolExecutor(1) as pool,
        Replica(spark, config, on_group) as replica,
    ):
        began = time.perf_counter()
        fed = pool.submit(feed)
        try:
            replica.apply(follow=True)
        finally:
            lands.set()
        fed.result()
    waited = np.array(shown)[np.searchsorted(ends, growing.ends[1:])] - growing.at[1:]
    seconds = {
        f"commit_to_cut_p{share}_s": round(float(np.percentile(waited, share)), 4)
        for share in (50, 99)
    }
    return {"first_group_s": round(shown[0] - began, 4), **seconds, "rss_mib": memory.peak_mib}


def _looks(spark: Any, config: Config) -> dict[str, float]:
    """Return the best times of six operations: a start, a takeover from a live owner, a status,
    reading the newest cut, reading all cuts, and a wait for transactions that a cut has."""
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
    seconds |= {name: _best(_timed(look)) for name, look in asked.items()}
    return {f"{name}_s": round(value, 4) for name, value in seconds.items()}


def _start(spark: Any, config: Config) -> float:
    from ..apply.start.replica import Replica

    def one() -> float:
        began = time.perf_counter()
        with Replica(spark, config):
            return time.perf_counter() - began

    return _best(one)


def _takeover(spark: Any, config: Config) -> float:
    from ..apply.start.replica import Replica

    def one() -> float:
        with Replica(spark, config):
            began = time.perf_counter()
            with Replica(spark, config, take_over=True):
                return time.perf_counter() - began

    return _best(one)


def _timed(look: Callable[[], object]) -> Callable[[], float]:
    def one() -> float:
        began = time.perf_counter()
        look()
        return time.perf_counter() - began

    return one


def _best(one: Callable[[], float]) -> float:
    return min(one() for _ in range(_LOOKS))

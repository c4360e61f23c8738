"""SharedJvm: one JVM for several channels; each has a session of its own, and its share of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..runtime.workers import POOL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..config import Config

_MANY = 6
"""so many workers take less memory and time if compiled kernels are loaded once for all of them"""
_IDLE = 2
"""so many Python workers may wait for more to do; others end, and are forked again in 20 ms"""
_DAEMON = "spark_repl.service.many_workers_daemon"


class SharedJvm:
    """Spark has as many slots as all channels have workers, and gives them out by channel (a fair
    scheduler's pools), so that one whose tasks wait for its source leaves the others theirs."""

    def __init__(self, configs: Sequence[Config], master: str | None) -> None:
        workers = sum(config.apply.workers for config in configs)
        self._master = master or f"local[{workers}]"
        self._settings = {"spark.scheduler.mode": "FAIR"}
        if workers >= _MANY and self._master.startswith("local"):
            self._settings["spark.python.daemon.module"] = _DAEMON
            self._settings["spark.python.factory.idleWorkerMaxPoolSize"] = str(_IDLE)
        self._making = threading.Lock()
        self._first: SparkSession | None = None

    def session_of(self, config: Config) -> Callable[[], SparkSession]:
        """What gives the channel's session, which has settings, streams and data sources of its
        own."""
        return partial(self._session, config)

    def _session(self, config: Config) -> SparkSession:
        from pyspark.java_gateway import ensure_callback_server_started

        from ..runtime.spark_session import build_session

        with self._making:
            if self._first is None:
                made = build_session(master=self._master, settings=self._settings, delta=False)
                # Two first streams at one moment would each begin it.
                ensure_callback_server_started(  # type: ignore[no-untyped-call]
                    made.sparkContext._gateway
                )
                self._first = made
        session = self._first.newSession()
        session.conf.set(POOL, config.channel)
        session.sparkContext.setLocalProperty("spark.scheduler.pool", config.channel)
        return session

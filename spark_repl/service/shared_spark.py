"""SharedSpark: one JVM for several channels, each with a session and a share of the slots."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..runtime.spark_jobs import CONNECT
from ..runtime.workers import POOL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from ..config import Config

_MANY = 6
"""number of workers from which loading compiled kernels once for all saves memory and time"""
_IDLE = 2
"""most idle Python workers; others end, and are forked again in 20 ms"""
_DAEMON = "spark_repl.service.many_workers_daemon"


def _catalog_settings(configs: Sequence[Config]) -> dict[str, str]:
    """Return the settings of the catalog of all channels. Raise ConfigError if they name several:
    a JVM has one."""
    given = [config.catalog.spark_settings() for config in configs]
    named = [settings for settings in given if settings]
    if any(settings != named[0] for settings in named):
        raise ConfigError(
            "the channels of one process name several metastores (catalog.metastore)",
            hint="start one run for each metastore",
        )
    return named[0] if named else {}


class SharedSpark:
    """Spark with one slot per worker of all channels, in a fair scheduler with a pool per channel.

    If a channel's tasks wait for its source, they do not occupy the slots of other channels. Raise
    ConfigError for a ``master`` of Spark Connect, which has no pools.
    """

    def __init__(self, configs: Sequence[Config], master: str | None) -> None:
        if master and master.startswith(CONNECT):
            raise ConfigError(
                "several channels in one process need executors of their own, not Spark Connect",
                hint="start one run for each channel with this --master",
            )
        workers = sum(config.apply.workers for config in configs)
        self._master = master or f"local[{workers}]"
        self._settings = {"spark.scheduler.mode": "FAIR"}
        if workers >= _MANY and self._master.startswith("local"):
            self._settings["spark.python.daemon.module"] = _DAEMON
            self._settings["spark.python.factory.idleWorkerMaxPoolSize"] = str(_IDLE)
        self._settings |= _catalog_settings(configs)
        self._making = threading.Lock()
        self._first: SparkSession | None = None

    def session_of(self, config: Config) -> Callable[[], SparkSession]:
        """Return a function that returns the channel's session, with its own settings, streams and
        data sources."""
        return partial(self._session, config)

    def _session(self, config: Config) -> SparkSession:
        from pyspark.java_gateway import ensure_callback_server_started

        from ..runtime.spark_session import build_session

        with self._making:
            if self._first is None:
                session = build_session(master=self._master, settings=self._settings, delta=False)
                # Two channels that begin their first streams at once would each start it.
                ensure_callback_server_started(  # type: ignore[no-untyped-call]
                    session.sparkContext._gateway
                )
                self._first = session
        session = self._first.newSession()
        session.conf.set(POOL, config.channel)
        return session

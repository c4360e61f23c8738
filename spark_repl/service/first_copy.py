"""The first copy of all tables, with its bar, by a Spark session that is there."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..config import Config
    from ..copy.first_copy import CopyResult


def copy_tables(
    spark: SparkSession,
    config: Config,
    *,
    take_over: bool,
    stop: threading.Event | None = None,
    lenient: bool = False,
    bar: bool = True,
) -> CopyResult:
    """The first copy as it is planned, or what is left of it. ``lenient``: tables that statements
    change meanwhile are left out; ``bar``: its progress is shown. Raises Stopped."""
    from ..copy.first_copy import FirstCopy
    from ..observe.progress import CopyProgress
    from ..runtime.workers import Workers

    workers = Workers(spark, config.apply.workers)
    with CopyProgress(config, shown=bar) as progress:
        copy = FirstCopy(spark, config, workers.run, progress.told, stop=stop, lenient=lenient)
        return copy.copy(take_over=take_over)

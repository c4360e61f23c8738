"""The first copy of all tables, with its bar, by a Spark session that is there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    told: Callable[[int, int], None] = lambda rows, expected: None,
) -> CopyResult:
    """The first copy as it is planned, or what is left of it. ``lenient``: tables that statements
    change meanwhile are left out; ``bar``: its progress is shown; ``told``: called with the rows so
    far and the rows expected. Raises Stopped."""
    from ..copy.first_copy import FirstCopy
    from ..observe.progress import CopyProgress
    from ..runtime.workers import Workers

    workers = Workers(spark, config.apply.workers)
    with CopyProgress(config, shown=bar) as progress:

        def tell(rows: int, expected: int) -> None:
            progress.told(rows, expected)
            told(rows, expected)

        copy = FirstCopy(spark, config, workers.run, tell, stop=stop, lenient=lenient)
        return copy.copy(take_over=take_over)


@contextmanager
def copy_page(config: Config) -> Iterator[str]:
    """Serve the page and metrics while the first copy runs, where the applier will serve them.
    Gives the page's address, "" if there is none. Raises ConfigError for an address that was asked
    for by name."""
    from ..control.records.channels import opened
    from ..observe.web.endpoint import open_endpoint
    from ..observe.web.endpoint_snapshots import endpoint_snapshots

    endpoint, _ = open_endpoint(config.observe, serves=True)
    if endpoint is None:
        yield ""
        return
    try:
        endpoint.serve(
            endpoint_snapshots(config, os.path.abspath(config.relay.path), opened(config))
        )
        yield endpoint.address
    finally:
        endpoint.close()

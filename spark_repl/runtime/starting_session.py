"""Starting session: a Spark session that a thread builds. A JVM and a session take 4 s on two
cores.

Meanwhile the caller works without Spark. The applier reads the target and applies small groups in
its own process (``workers``), so that a start's first cut does not wait for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from pyspark.sql import SparkSession

from .threads import Pool

Session = SparkSession | Future[SparkSession]
"""a session, or one that is still being built"""


@contextmanager
def starting(build: Callable[[], SparkSession]) -> Iterator[Future[SparkSession]]:
    """Build a session on a thread. At the end wait for the thread, because a process must not end
    while its JVM starts."""
    with Pool(1, "spark") as beside:
        yield beside.submit(build)


def is_built(session: Session) -> bool:
    """Return whether ``built`` returns at once."""
    return not isinstance(session, Future) or session.done()


def built(session: Session) -> SparkSession:
    """Return the session when it is built. Raise the error of building it."""
    return session.result() if isinstance(session, Future) else session

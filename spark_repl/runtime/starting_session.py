"""Starting session: a Spark session that a thread builds. A JVM and a session take 4 s on two
cores.

Meanwhile the caller works without Spark. The applier reads the target and applies small groups in
its own process (``workers``), so that a start's first cut does not wait for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ..errors import SparkReplError, Stopped
from .retry import first_line
from .threads import Pool

_LOOK_S = 0.5

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


def built(session: Session, is_stopping: Callable[[], bool] = lambda: False) -> SparkSession:
    """Return the session when it is built. Raise SparkReplError if it can't be built: no retry
    changes that, whatever the reason. Raise Stopped if ``is_stopping`` returns True before."""
    if not isinstance(session, Future):
        return session
    while not session.done():
        if is_stopping():
            raise Stopped
        wait([session], _LOOK_S)
    try:
        return session.result()
    except SparkReplError:
        raise
    except Exception as error:
        raise SparkReplError(f"Spark does not start: {first_line(error)}") from error

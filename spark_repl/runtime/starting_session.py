"""Starting session: a Spark session that a thread builds. A JVM and a session take 4 s on two
cores.

Meanwhile the caller works without Spark. The applier reads the target and applies small groups in
its own process (``workers``), so that a start's first cut does not wait for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ..errors import SparkReplError, Stopped
from .java import jvm_end
from .retry import first_line
from .threads import thread

_LOOK_S, _END_LOOK_S = 0.5, 0.1

Session = SparkSession | Future[SparkSession]
"""a session, or one that is still being built"""


def end_launched_spark() -> None:
    """Kill the JVM that this process has launched. Do nothing if it does not run yet, or if another
    program has launched it (spark-submit)."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()


class StartingSession(Future[SparkSession]):
    """A session that a thread builds. ``may_end`` returns whether the process is ending and does
    not need the session; ``end_spark`` then ends the start, because Spark tries for a minute or
    more to reach a master that does not answer."""

    def __init__(
        self, build: Callable[[], SparkSession], may_end: Callable[[], bool],
        end_spark: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__()
        self._build, self.may_end, self._end_spark, self.given_up = build, may_end, end_spark, False
        self._thread = thread(self._run, "spark")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.set_result(self._build())
        except BaseException as error:  # noqa: BLE001 ``built`` raises it
            self.set_exception(error)

    def give_up(self) -> None:
        """End the start. The session is built, or has an error, when this returns."""
        self.given_up = True
        while not self.done():
            self._end_spark()  # again, because it may not run yet
            wait([self], _END_LOOK_S)

    def join(self) -> None:
        self._thread.join()


@contextmanager
def starting(
    build: Callable[[], SparkSession],
    may_end: Callable[[], bool] = lambda: True,
    end_spark: Callable[[], None] = end_launched_spark,
) -> Iterator[StartingSession]:
    """Build a session on a thread. When the context ends, wait for the thread, because a process
    must not end while its JVM starts. If the session is not built by then and ``may_end`` returns
    True, or after Ctrl-C, end the start first."""
    session = StartingSession(build, may_end, end_spark)
    try:
        yield session
    except KeyboardInterrupt:
        session.give_up()
        raise
    finally:
        if not session.done() and may_end():
            session.give_up()
        session.join()


def is_built(session: Session) -> bool:
    """Return whether ``built`` returns at once."""
    return not isinstance(session, Future) or session.done()


def built(session: Session, is_stopping: Callable[[], bool] = lambda: False) -> SparkSession:
    """Return the session as soon as it is built. Raise JvmEndedError if the JVM was killed while it
    started, otherwise SparkReplError if the session can't be built, because a retry would not
    change this. If ``is_stopping`` returns True before, raise Stopped. If the process is ending,
    end the start first, so that no other thread waits for the session."""
    if not isinstance(session, Future):
        return session
    while not session.done():
        if is_stopping():
            if isinstance(session, StartingSession) and session.may_end():
                session.give_up()
            raise Stopped
        wait([session], _LOOK_S)
    try:
        return session.result()
    except Exception as error:
        if is_stopping() or (isinstance(session, StartingSession) and session.given_up):
            raise Stopped from error
        if isinstance(error, SparkReplError):
            raise
        if ended := jvm_end(error):
            raise ended from error
        raise SparkReplError(f"Spark does not start: {first_line(error)}") from error

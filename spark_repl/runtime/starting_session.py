"""Starting session: a Spark session that a thread builds. A JVM and a session take 4 s on two
cores.

Meanwhile the caller works without Spark. The applier reads the target and applies small groups in
its own process (``workers``), so that a start's first cut does not wait for Spark. A session that
can also be ended rests until a caller of ``built`` needs it. A follower ends an unused session
again (``rest``). An idle JVM and its Python processes take 600 MB and half a percent of a core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from functools import partial

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ..errors import SparkReplError, Stopped
from .java import jvm_end
from .retry import first_line
from .threads import thread

_LOOK_S, _END_LOOK_S = 0.5, 0.1


def end_launched_spark() -> None:
    """Kill the JVM that this process has launched. Do nothing if it does not run yet, or if another
    program has launched it (spark-submit)."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()


class StartingSession:
    """A session that a thread builds: when it is needed, or at once if it can't be ended.

    ``may_end`` returns whether the process is ending and does not need the session; ``end_spark``
    then ends the start, because Spark tries for a minute or more to reach a master that does not
    answer. ``end`` ends a built session that is not in use. Safe from any thread.
    """

    def __init__(
        self, build: Callable[[], SparkSession], may_end: Callable[[], bool],
        end_spark: Callable[[], None], end: Callable[[SparkSession], None] | None = None,
    ) -> None:  # fmt: skip
        self._build, self.may_end, self._end_spark, self._end = build, may_end, end_spark, end
        self.given_up = False
        self._lock, self._users, self._used_at = threading.Lock(), 0, time.monotonic()
        self._future: Future[SparkSession] | None = None
        self._thread: threading.Thread | None = None
        if end is None:
            self.future()

    def future(self) -> Future[SparkSession]:
        """Return the session that is being built, or is built. Have it built if it rests."""
        with self._lock:
            if self._future is None:
                future = Future[SparkSession]()
                self._thread = thread(partial(self._run, future), "spark")
                self._thread.start()
                self._future = future
            return self._future

    def _run(self, future: Future[SparkSession]) -> None:
        try:
            session = self._build()
        except BaseException as error:  # noqa: BLE001 ``built`` raises it
            future.set_exception(error)
        else:
            self._used_at = time.monotonic()
            future.set_result(session)

    def done(self) -> bool:
        future = self._future
        return future is not None and future.done()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the session from resting, inside the block."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                self._used_at = time.monotonic()

    @property
    def can_rest(self) -> bool:
        return self._end is not None

    @property
    def rests(self) -> bool:
        """Return whether the session is neither built nor being built."""
        return self._future is None

    def may_rest(self, unused_s: float) -> bool:
        """Return whether the session is built and can be ended, and was not held for the last
        ``unused_s`` seconds."""
        with self._lock:
            return self._may_rest(unused_s)

    def _may_rest(self, unused_s: float) -> bool:
        return (
            self._end is not None
            and self.done()
            and not self._users
            and time.monotonic() - self._used_at >= unused_s
        )

    def rest(self, unused_s: float) -> None:
        """End the session if ``may_rest``. A caller of ``future`` waits meanwhile, and has it built
        again."""
        with self._lock:
            future = self._future
            if future is None or self._end is None or not self._may_rest(unused_s):
                return
            if future.exception() is None:
                self._future = None  # first: ``done`` is False while it ends
                self._end(future.result())

    def give_up(self) -> None:
        """End the start. The session is built, or has an error, when this returns."""
        self.given_up = True
        while (future := self._future) is not None and not future.done():
            self._end_spark()  # again, because it may not run yet
            wait([future], _END_LOOK_S)

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()


Session = SparkSession | Future[SparkSession] | StartingSession
"""a session, or one that a thread builds when it is needed"""


@contextmanager
def starting(
    build: Callable[[], SparkSession],
    may_end: Callable[[], bool] = lambda: True,
    end_spark: Callable[[], None] = end_launched_spark,
    end: Callable[[SparkSession], None] | None = None,
) -> Iterator[StartingSession]:
    """Yield a session that a thread builds. When the context ends, wait for the thread, because a
    process must not end while its JVM starts. If the session is not built by then and ``may_end``
    returns True, or after Ctrl-C, end the start first. ``end``: see StartingSession."""
    session = StartingSession(build, may_end, end_spark, end)
    try:
        yield session
    except KeyboardInterrupt:
        session.give_up()
        raise
    finally:
        if not (session.rests or session.done()) and may_end():
            session.give_up()
        session.join()


def can_rest(session: Session) -> bool:
    """Return whether the session ends while nothing needs it. Its executors are then threads of
    this machine."""
    return isinstance(session, StartingSession) and session.can_rest


def rests(session: Session) -> bool:
    """Return whether ``built`` would first begin to build the session."""
    return isinstance(session, StartingSession) and session.rests


def may_rest(session: Session, unused_s: float) -> bool:
    """Return whether ``rest`` would end the session."""
    return isinstance(session, StartingSession) and session.may_rest(unused_s)


def rest(session: Session, unused_s: float) -> None:
    """End the session if it can be ended, and was not held for the last ``unused_s`` seconds."""
    if isinstance(session, StartingSession):
        session.rest(unused_s)


def begin(session: Session) -> None:
    """Begin to build the session if it rests, and do not wait for it."""
    if isinstance(session, StartingSession):
        session.future()


def is_built(session: Session) -> bool:
    """Return whether ``built`` returns at once."""
    return not isinstance(session, Future | StartingSession) or session.done()


@contextmanager
def in_use(
    session: Session, is_stopping: Callable[[], bool] = lambda: False
) -> Iterator[SparkSession]:
    """Yield the session when it is built, and keep it from resting inside the block. Raise what
    ``built`` raises."""
    with session.held() if isinstance(session, StartingSession) else nullcontext():
        yield built(session, is_stopping)


def built(session: Session, is_stopping: Callable[[], bool] = lambda: False) -> SparkSession:
    """Return the session as soon as it is built. Raise JvmEndedError if the JVM was killed while it
    started, otherwise SparkReplError if the session can't be built, because a retry would not
    change this. If ``is_stopping`` returns True before, raise Stopped. If the process is ending,
    end the start first, so that no other thread waits for the session."""
    if rests(session) and is_stopping():
        raise Stopped
    start = session if isinstance(session, StartingSession) else None
    future = session.future() if isinstance(session, StartingSession) else session
    if not isinstance(future, Future):
        return future
    while not future.done():
        if is_stopping():
            if start is not None and start.may_end():
                start.give_up()
            raise Stopped
        wait([future], _LOOK_S)
    try:
        return future.result()
    except Exception as error:
        if is_stopping() or (start is not None and start.given_up):
            raise Stopped from error
        if isinstance(error, SparkReplError):
            raise
        if ended := jvm_end(error):
            raise ended from error
        raise SparkReplError(f"Spark does not start: {first_line(error)}") from error

"""Retry: the one place that decides which errors are temporary (WL#6964), and how often to retry.

An error is temporary if a new attempt can succeed, which reads the relay log again and plans on
fresh snapshots: storage was slow or throttled, a worker died. Not temporary: another applier,
damage in the log, rows that don't fit. ``source.dump`` decides about a source's own errors. A full
disk is waited for, as in MySQL, and not counted; so is a throttled object store. A conflict with
another writer's OPTIMIZE has a bound of its own: the group is planned again.

As in MySQL, a transaction's retries count until it is committed: while it is staged, by its worker,
and then with its group while XA branches are kept, tables are written and the cut is published. A
failure of one worker counts for its own transactions, a failure of the group for the workers that
it names. Without commit order the tables of a group are written independently: each lane adds its
own retries to those before it, and the longest lane counts for the cut.
"""

from __future__ import annotations

import errno
import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ..errors import (
    ConcurrentChangeError,
    FencedError,
    GivenUpError,
    SparkReplError,
    Stopped,
    TargetError,
)
from .java import jvm_end
from .target_uri import is_remote

logger = logging.getLogger(__name__)

NO_GROUP = -2
"""slot of work that belongs to no group"""
T = TypeVar("T")

Wait = Callable[[threading.Event, float], bool]

PAUSE_MAX_S = 5
CONFLICTS_MAX = 60
_WAIT_PAUSE_S = 5
_WAIT_LOG_EVERY_S = 600
_TEMPORARY_ERRNO = frozenset(
    {
        errno.EIO, errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.ETIMEDOUT, errno.ESTALE,
        errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EHOSTUNREACH,
        errno.ENETUNREACH, errno.ENETDOWN, errno.EPIPE, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
        errno.EKEYEXPIRED,
    }
)  # fmt: skip
_TEMPORARY_JAVA = re.compile(
    r"ExecutorLost|Python worker (exited|failed)|FetchFailed|SocketTimeout|TimeoutException"
    r"|SocketException|ConnectException|SlowDown|TooManyRequests|ServiceUnavailable|Throttl"
    r"|Task .* was lost|Worker lost|Input/output error|EOFException"
    # a Python worker was killed while a task was about to use it
    r"|Stream closed|Broken pipe|Connection reset"
    # texts of S3A about an object store
    r"|Unable to execute HTTP request|AWSStatus5|AWSServiceIO|AWSClientIO|AWSRequestTimeout"
)
# Texts of delta-rs about an object store, without an errno; ours have one (object_store_errors).
_TEMPORARY_STORE = re.compile(r"HTTP error|error sending request|\b(429|50[0234]) ")
_FULL_JAVA = "No space left on device"

# MySQL's: ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK, ER_GET_TEMPORARY_ERRMSG.
_TIMED_OUT, _BEATEN, _UNKNOWN = 1205, 1213, 1297
_TIMEOUT = re.compile(r"Timeout|timed out", re.IGNORECASE)
_ERRNO_TEXTS = (
    (re.compile("Input/output error"), errno.EIO),
    (re.compile("Connection reset"), errno.ECONNRESET),
    (re.compile("Broken pipe|Stream closed"), errno.EPIPE),
    (re.compile("ConnectException|Connection refused"), errno.ECONNREFUSED),
    (re.compile(_FULL_JAVA), errno.ENOSPC),
)


def _of_commit(error: BaseException) -> BaseException:
    """Return the JVM's error that made Delta refuse a commit, or else the error itself."""
    cause = error.__cause__
    refused = isinstance(error, TargetError) and not isinstance(error, GivenUpError)
    return cause if refused and isinstance(cause, Py4JJavaError) else error


def disk_full(error: BaseException) -> bool:
    """Return whether an error of Python or of the JVM means that storage is full."""
    error = _of_commit(error)
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    if isinstance(error, PySparkException):  # of a stream, or of Spark Connect
        return _FULL_JAVA in str(error)
    return isinstance(error, Py4JJavaError) and _FULL_JAVA in str(error.java_exception)


def throttled(error: BaseException) -> bool:
    """Return whether an object store has refused requests, because there were too many, for longer
    than ``store_requests`` repeats them."""
    if not isinstance(error, OSError) or error.errno != errno.EBUSY:
        return False
    return isinstance(error.filename, str) and is_remote(error.filename)


def temporary(error: BaseException) -> bool:
    """Return whether a new attempt can succeed without manual intervention."""
    error = _of_commit(error)
    if isinstance(error, OSError):
        if not error.errno and _TEMPORARY_STORE.search(str(error)):
            return True
        return isinstance(error, TimeoutError) or error.errno in _TEMPORARY_ERRNO
    if isinstance(error, Py4JJavaError):
        return bool(_TEMPORARY_JAVA.search(str(error.java_exception)))
    if isinstance(error, PySparkException):  # of a stream, or of Spark Connect
        return bool(_TEMPORARY_JAVA.search(str(error)))
    return False


def number_of(error: BaseException) -> int:
    """Return MySQL's number for an error, never 0.

    1205: a timeout; 1213: another writer's commit came first; an OSError's errno; 1297: another
    temporary error.
    """
    if isinstance(error, SparkReplError) and error.number:
        return error.number
    error = _of_commit(error)
    if isinstance(error, ConcurrentChangeError):
        return _BEATEN
    if isinstance(error, TimeoutError):
        return _TIMED_OUT
    if isinstance(error, OSError) and error.errno:
        return error.errno
    message = str(getattr(error, "java_exception", error))
    if _TIMEOUT.search(message):
        return _TIMED_OUT
    return next((number for text, number in _ERRNO_TEXTS if text.search(message)), _UNKNOWN)


@dataclass(frozen=True)
class Retry:
    """The ``number``-th retry of the group in ``slot``, after a temporary error of ``workers``.

    After a conflict, ``workers`` are all workers of the group.
    """

    error: BaseException
    number: int
    slot: int
    workers: Collection[int]

    @property
    def code(self) -> int:
        """Return MySQL's number for the error."""
        return number_of(self.error)


def until_stopped(stopping: threading.Event, seconds: float) -> bool:
    """Wait this number of seconds, or until the event is set. Return whether it is set."""
    return stopping.wait(seconds)


def _everybody() -> Iterable[int]:
    """Return no workers: no worker in particular has failed."""
    return ()


class RetryCount:
    """Retries of one group, by worker. Safe from any thread.

    ``had``: retries of each worker before the group began; ``on_wait``: called when a worker begins
    to wait for its next attempt.
    """

    def __init__(
        self,
        workers: Iterable[int] = (0,),
        on_wait: Callable[[], None] = lambda: None,
        had: Mapping[int, int] = {},
    ) -> None:
        self._counts = {worker: had.get(worker, 0) for worker in workers}
        self._lanes: dict[str, int] = {}
        self._lock = threading.Lock()
        self.waits = on_wait

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(self._counts)

    def next(self, workers: Collection[int], lane: str, most: int) -> int:
        """Count a retry of these workers, in a lane if one is named, and return its number.

        The number is that of the worker with the most retries. If this worker already has ``most``
        retries, return 0 and count nothing.
        """
        with self._lock:
            had = max((self._counts.get(worker, 0) for worker in workers), default=0)
            had += self._lanes.get(lane, 0) if lane else max(self._lanes.values(), default=0)
            if had >= most:
                return 0
            if lane:
                self._lanes[lane] = self._lanes.get(lane, 0) + 1
            else:
                self._counts.update({n: self._counts.get(n, 0) + 1 for n in workers})
            return had + 1


class RetryCounts:
    """Retry counts of the groups in progress, by slot in the commit order. Safe from any thread."""

    def __init__(self) -> None:
        self._counts: dict[int, RetryCount] = {}

    def begin(
        self,
        slot: int,
        workers: Iterable[int],
        on_wait: Callable[[], None],
        had: Mapping[int, int] = {},
    ) -> None:
        """Begin to count retries of the slot's group, which these workers share.

        ``on_wait``: called when a worker begins to wait for its next attempt; ``had``: retries of
        the workers before they had a group.
        """
        self._counts[slot] = RetryCount(workers, on_wait, had)

    def end(self, slot: int) -> None:
        """Remove the counts of the slot's group, which is committed or given up."""
        self._counts.pop(slot, None)

    def of(self, slot: int) -> RetryCount:
        """Return the count of the slot's group, or a new one for work that belongs to no group."""
        return self._counts.get(slot) or RetryCount()


class Retries:
    """Repeats work after temporary errors and conflicts. ``run`` is safe from any thread.

    ``most``: attempts after temporary errors (``transaction_retries``), the n-th after min(n, 5) s.
    If another writer's commit comes in between, there are up to CONFLICTS_MAX further attempts.
    ``wait`` waits for the given time before the next attempt.
    """

    def __init__(
        self,
        most: int,
        stopping: threading.Event,
        on_retry: Callable[[Retry], None],
        who: str = "worker thread retried transaction",
        *,
        wait: Wait = until_stopped,
    ) -> None:
        self.most, self._stopping, self._on_retry, self._who = most, stopping, on_retry, who
        self._wait = wait
        self.counts = RetryCounts()

    def run(
        self,
        work: Callable[[], T],
        progress: Callable[[], object] = lambda: None,
        *,
        slot: int = NO_GROUP,
        failed: Callable[[], Iterable[int]] = _everybody,
        lane: str = "",
    ) -> T:
        """Return the result of ``work``, which is called again after each temporary failure.

        Attempts count for the group in ``slot``: for the workers that ``failed`` then returns (all
        workers of the group if it returns none), and with a ``lane`` separately from other lanes.
        Without a group, attempts count from the last change of ``progress()``.

        Raise an error that is not temporary unchanged. Raise JvmEndedError if Spark has ended;
        GivenUpError, with MySQL's words, after the last attempt; Stopped if stop() interrupts.
        """
        conflicts = waits = 0
        count, reached = self.counts.of(slot), progress()
        logged_at = -float(_WAIT_LOG_EVERY_S)
        while True:
            try:
                return work()
            except FencedError:
                raise
            except ConcurrentChangeError as error:
                if conflicts == CONFLICTS_MAX:
                    raise _always_beaten(error) from error
                conflicts += 1
                logger.info("another writer's commit came first (%s): planning again", error)
                self._on_retry(Retry(error, conflicts, slot, count.workers))
                count.waits()
                self._pause(min(conflicts - 1, PAUSE_MAX_S))
            except Exception as error:
                if (jvm_ended := jvm_end(error)) is not None:
                    raise jvm_ended from error
                if disk_full(error) or throttled(error):
                    waits += 1
                    if throttled(error):
                        workers = tuple(failed()) or count.workers
                        self._on_retry(Retry(error, waits, slot, workers))
                    logged_at = self._wait_for_storage(error, logged_at)
                    continue
                if not temporary(error):
                    raise
                if reached != (reached := progress()):
                    count = RetryCount()
                self._again(count, error, slot, tuple(failed()) or count.workers, lane)

    def _again(
        self, count: RetryCount, error: Exception, slot: int, workers: Collection[int], lane: str
    ) -> None:
        """Count a retry and wait before it. Raise GivenUpError if none is left."""
        number = count.next(workers, lane, self.most)
        if not number:
            raise self._given_up(error, workers) from error
        self._on_retry(Retry(error, number, slot, workers))
        logger.warning("attempt %d failed, retrying: %s", number, first_line(error))
        count.waits()
        self._pause(min(number, PAUSE_MAX_S))

    def _wait_for_storage(self, error: Exception, logged_at: float) -> float:
        """Wait for a full disk or a throttled store. This counts as no retry. Return the time of
        the last log line about it."""
        if time.monotonic() - logged_at >= _WAIT_LOG_EVERY_S:
            logged_at = time.monotonic()
            if disk_full(error):
                text = "disk is full (%s): it goes on when there is space; status names the disk"
                logger.error(text, first_line(error))
            else:
                logger.warning("the object store is throttled (%s): waiting", first_line(error))
        self._pause(_WAIT_PAUSE_S)
        return logged_at

    def _pause(self, seconds: float) -> None:
        if self._wait(self._stopping, seconds):
            raise Stopped

    def _given_up(self, error: Exception, workers: Collection[int]) -> GivenUpError:
        text = first_line(error)
        if self.most:
            text = (
                f"{self._who} {self.most} time(s) in vain, giving up. Consider raising the value of"
                f" the transaction_retries variable. Last error: {text}"
            )
        given_up = GivenUpError(
            text,
            number=number_of(error),
            table=getattr(error, "table", None),
            hint="remove the cause and start again: what was not committed is applied then",
        )
        given_up.workers = tuple(sorted(workers))
        return given_up


def _always_beaten(error: ConcurrentChangeError) -> TargetError:
    return TargetError(
        f"other writers' commits came first {CONFLICTS_MAX + 1} times: {error.message}",
        file=error.file,
        hint="run OPTIMIZE and the like less often, or while the applier is stopped",
    )


def first_line(error: BaseException) -> str:
    text = str(getattr(error, "java_exception", error)) or type(error).__name__
    return text.splitlines()[0]

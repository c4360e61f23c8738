"""Retry: the one place that decides which errors are temporary (WL#6964), and how often.

Temporary is what a new attempt, re-read from the relay log and planned on fresh snapshots, can
cure: storage that was slow or throttled, a worker that died. Not temporary: another applier, damage
in the log, rows that don't fit. (Of a source's own errors ``source.dump`` says it.) A full disk is
neither: it is waited for, as MySQL does, and not counted. A conflict with somebody's OPTIMIZE has a
bound of its own: what is staged is planned anew. How often a transaction was tried again is counted
on all of its way (``retry_counts``).
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
from pyspark.errors import StreamingQueryException

from ..errors import (
    ConcurrentChangeError,
    FencedError,
    GivenUpError,
    SparkReplError,
    Stopped,
    TargetError,
)
from .java import jvm_end
from .retry_counts import NO_GROUP, RetryCount, RetryCounts

log = logging.getLogger(__name__)

T = TypeVar("T")

Wait = Callable[[threading.Event, float], bool]

PAUSE_MAX_S = 5
CONFLICTS_MAX = 60
_DISK_PAUSE_S = 5
_DISK_LOG_EVERY_S = 600
_TEMPORARY_ERRNO = frozenset(
    {
        errno.EIO, errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.ETIMEDOUT, errno.ESTALE,
        errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EHOSTUNREACH,
        errno.ENETUNREACH, errno.ENETDOWN, errno.EPIPE, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
    }
)  # fmt: skip
_TEMPORARY_JAVA = re.compile(
    r"ExecutorLost|Python worker (exited|failed)|FetchFailed|SocketTimeout|TimeoutException"
    r"|SocketException|ConnectException|SlowDown|TooManyRequests|ServiceUnavailable|Throttl"
    r"|Task .* was lost|Worker lost|Input/output error|EOFException"
    # a Python worker was killed while a task was about to use it
    r"|Stream closed|Broken pipe|Connection reset"
    # what S3A says of an object store
    r"|Unable to execute HTTP request|AWSStatus5|AWSServiceIO|AWSClientIO|AWSRequestTimeout"
)
# Texts of delta-rs about an object store, without an errno; ours have one (store_errors).
_TEMPORARY_STORE = re.compile(r"HTTP error|error sending request|\b(429|50[0234]) ")
_FULL_JAVA = "No space left on device"

# MySQL's: ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK, ER_GET_TEMPORARY_ERRMSG.
_TIMED_OUT, _BEATEN, _UNKNOWN = 1205, 1213, 1297
_TIMEOUT = re.compile(r"Timeout|timed out", re.IGNORECASE)
_ERRNO_SAID = (
    (re.compile("Input/output error"), errno.EIO),
    (re.compile("Connection reset"), errno.ECONNRESET),
    (re.compile("Broken pipe|Stream closed"), errno.EPIPE),
    (re.compile("ConnectException|Connection refused"), errno.ECONNREFUSED),
    (re.compile(_FULL_JAVA), errno.ENOSPC),
)


def _of_commit(error: BaseException) -> BaseException:
    """The JVM's error behind a commit that Delta refused; else the error itself."""
    cause = error.__cause__
    refused = isinstance(error, TargetError) and not isinstance(error, GivenUpError)
    return cause if refused and isinstance(cause, Py4JJavaError) else error


def disk_full(error: BaseException) -> bool:
    """Whether storage is full, said by Python or through the JVM."""
    error = _of_commit(error)
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    if isinstance(error, StreamingQueryException):
        return _FULL_JAVA in str(error)
    return isinstance(error, Py4JJavaError) and _FULL_JAVA in str(error.java_exception)


def temporary(error: BaseException) -> bool:
    """Whether a new attempt can succeed without anybody mending anything."""
    error = _of_commit(error)
    if isinstance(error, OSError):
        if not error.errno and _TEMPORARY_STORE.search(str(error)):
            return True
        return isinstance(error, TimeoutError) or error.errno in _TEMPORARY_ERRNO
    if isinstance(error, Py4JJavaError):
        return bool(_TEMPORARY_JAVA.search(str(error.java_exception)))
    if isinstance(error, StreamingQueryException):
        return bool(_TEMPORARY_JAVA.search(str(error)))
    return False


def number_of(error: BaseException) -> int:
    """MySQL's number for an error: 1205 for what timed out, 1213 where somebody else's commit came
    first, errno's own number, 1297 for a temporary one that says nothing more. Never 0."""
    if isinstance(error, SparkReplError) and error.number:
        return error.number
    error = _of_commit(error)
    if isinstance(error, ConcurrentChangeError):
        return _BEATEN
    if isinstance(error, TimeoutError):
        return _TIMED_OUT
    if isinstance(error, OSError) and error.errno:
        return error.errno
    said = str(getattr(error, "java_exception", error))
    if _TIMEOUT.search(said):
        return _TIMED_OUT
    return next((number for text, number in _ERRNO_SAID if text.search(said)), _UNKNOWN)


@dataclass(frozen=True)
class Retry:
    """The ``number``-th retry of a group, by its ``slot``, behind a temporary error of these
    ``workers``; of a conflict, of all of them."""

    error: BaseException
    number: int
    slot: int
    workers: Collection[int]

    @property
    def code(self) -> int:
        """MySQL's number for the error."""
        return number_of(self.error)


def until_stopped(stopping: threading.Event, seconds: float) -> bool:
    """Passes so many seconds, or less where the event is set; returns whether it is."""
    return stopping.wait(seconds)


def _everybody() -> Iterable[int]:
    """No worker in particular has failed."""
    return ()


class Retries:
    """Repeats work: ``most`` attempts more after temporary errors (``transaction_retries``), the
    n-th after min(n, 5) s, and CONFLICTS_MAX attempts where somebody else's commit came in between.
    ``run`` may be called from any thread. ``wait`` passes the time before the next
    attempt.
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
        self._counts = RetryCounts()

    def begin(
        self,
        slot: int,
        workers: Iterable[int],
        on_wait: Callable[[], None],
        had: Mapping[int, int] = {},
    ) -> None:
        """A group sets out in the slot that these workers have a share in. ``on_wait`` is told that
        one of them begins to wait for its next attempt; ``had``: retries before it was one."""
        self._counts.begin(slot, workers, on_wait, had)

    def end(self, slot: int) -> None:
        """The slot's group has arrived, or never will."""
        self._counts.end(slot)

    def run(
        self,
        work: Callable[[], T],
        progress: Callable[[], object] = lambda: None,
        *,
        slot: int = NO_GROUP,
        failed: Callable[[], Iterable[int]] = _everybody,
        lane: str = "",
    ) -> T:
        """The result of ``work``, called anew after each temporary failure. Attempts count for
        the group in that ``slot``, for the workers that ``failed`` names then (all of the
        group's where it names none), and in a ``lane`` beside others; without a group from the last
        change of ``progress()`` on.

        Raises what is not temporary as it is; JvmEndedError when Spark is gone; GivenUpError, with
        MySQL's words, when all attempts were in vain; Stopped when stop() came in between.
        """
        conflicts = 0
        count, reached = self._counts.of(slot), progress()
        disk_logged_at = -float(_DISK_LOG_EVERY_S)
        while True:
            try:
                return work()
            except FencedError:
                raise
            except ConcurrentChangeError as error:
                if conflicts == CONFLICTS_MAX:
                    raise _always_beaten(error) from error
                conflicts += 1
                log.info("somebody else's commit came first (%s): planning anew", error)
                self._on_retry(Retry(error, conflicts, slot, count.workers))
                count.waits()
                self._pause(min(conflicts - 1, PAUSE_MAX_S))
            except Exception as error:
                if (jvm_ended := jvm_end(error)) is not None:
                    raise jvm_ended from error
                if disk_full(error):
                    if time.monotonic() - disk_logged_at >= _DISK_LOG_EVERY_S:
                        text = first_line(error)
                        log.error("disk is full (%s): waiting for someone to free space", text)
                        disk_logged_at = time.monotonic()
                    self._pause(_DISK_PAUSE_S)
                    continue
                if not temporary(error):
                    raise
                if reached != (reached := progress()):
                    count = RetryCount()
                self._again(count, error, slot, tuple(failed()) or count.workers, lane)

    def _again(
        self, count: RetryCount, error: Exception, slot: int, workers: Collection[int], lane: str
    ) -> None:
        """Counts a retry and waits before it. Raises GivenUpError where there is none left."""
        number = count.next(workers, lane, self.most)
        if not number:
            raise self._given_up(error, workers) from error
        self._on_retry(Retry(error, number, slot, workers))
        log.warning("attempt %d failed, retrying: %s", number, first_line(error))
        count.waits()
        self._pause(min(number, PAUSE_MAX_S))

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
            hint="mend the cause and start again: what was not committed is applied then",
        )
        given_up.workers = tuple(sorted(workers))
        return given_up


def _always_beaten(error: ConcurrentChangeError) -> TargetError:
    return TargetError(
        f"somebody else's commits came first {CONFLICTS_MAX + 1} times: {error.message}",
        file=error.file,
        hint="run OPTIMIZE and the like less often, or while the applier is stopped",
    )


def first_line(error: BaseException) -> str:
    text = str(getattr(error, "java_exception", error)) or type(error).__name__
    return text.splitlines()[0]

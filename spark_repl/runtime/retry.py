"""Retry: the one place that decides which errors are temporary (WL#6964), and how often.

Temporary is what a new attempt, re-read from the relay log and planned on fresh snapshots, can
cure: storage that was slow or throttled, a worker that died. Not temporary: another applier, damage
in the log, rows that don't fit. A full disk is neither: it is waited for, as MySQL does, and not
counted. A conflict with somebody's OPTIMIZE has a bound of its own: what is staged is planned anew.
"""

from __future__ import annotations

import errno
import logging
import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from ..errors import ConcurrentChangeError, FencedError, TargetError
from .java import jvm_end

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_GROUP = -2
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
# What pyarrow and delta-rs say of an object store, without an errno.
_TEMPORARY_STORE = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|THROTTLING|SERVICE_UNAVAILABLE|INTERNAL_FAILURE"
    r"|REQUEST_TIMEOUT|UNKNOWN)|HTTP error|error sending request|50[0234] "
)
_FULL_JAVA = "No space left on device"


class Stopped(Exception):
    """Raised where stop() came while a retry waited."""


def _of_commit(error: BaseException) -> BaseException:
    """The JVM's error behind a commit that Delta refused; else the error itself."""
    cause = error.__cause__
    return cause if isinstance(error, TargetError) and isinstance(cause, Py4JJavaError) else error


def disk_full(error: BaseException) -> bool:
    """Whether storage is full, said by Python or through the JVM."""
    error = _of_commit(error)
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
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


class Retries:
    """Repeats work: ``most`` attempts more after temporary errors (``transaction_retries``), the
    n-th after min(n, 5) s, and CONFLICTS_MAX attempts where somebody else's commit came in between.
    ``run`` may be called from any thread."""

    def __init__(
        self,
        most: int,
        stopping: threading.Event,
        on_retry: Callable[[BaseException, int, int], None],
        who: str = "worker thread retried transaction",
    ) -> None:
        self.most, self._stopping, self._on_retry, self._who = most, stopping, on_retry, who

    def run(
        self,
        work: Callable[[], T],
        progress: Callable[[], object] = lambda: None,
        *,
        slot: int = NO_GROUP,
    ) -> T:
        """The result of ``work``, called anew after each temporary failure. Attempts count from the
        last change of ``progress()`` on; ``on_retry`` is told of each, with the ``slot`` of the
        group whose work it is.

        Raises what is not temporary as it is; JvmEndedError when Spark is gone;
        TargetError with MySQL's words when all attempts were in vain; Stopped when stop() came in
        between.
        """
        attempt = conflicts = 0
        reached = progress()
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
                self._on_retry(error, conflicts, slot)
                log.info("somebody else's commit came first (%s): planning anew", error)
                self._pause(min(conflicts - 1, PAUSE_MAX_S))
            except Exception as error:
                if (jvm_ended := jvm_end(error)) is not None:
                    raise jvm_ended from error
                if disk_full(error):
                    if time.monotonic() - disk_logged_at >= _DISK_LOG_EVERY_S:
                        log.error("disk is full (%s): waiting for someone to free space", error)
                        disk_logged_at = time.monotonic()
                    self._pause(_DISK_PAUSE_S)
                    continue
                if not temporary(error):
                    raise
                if reached != (reached := progress()):
                    attempt = 0
                if attempt == self.most:
                    raise self._in_vain(attempt, error) from error
                attempt += 1
                self._on_retry(error, attempt, slot)
                log.warning("attempt %d failed, retrying: %s", attempt, first_line(error))
                self._pause(min(attempt, PAUSE_MAX_S))

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped

    def _in_vain(self, attempt: int, error: BaseException) -> TargetError:
        return TargetError(
            f"{self._who} {attempt} time(s) in vain, giving up. Consider"
            " raising the value of the transaction_retries variable."
            f" Last error: {first_line(error)}",
            hint="mend the cause and start again: nothing of this transaction was left half done",
        )


def _always_beaten(error: ConcurrentChangeError) -> TargetError:
    return TargetError(
        f"somebody else's commits came first {CONFLICTS_MAX + 1} times: {error.message}",
        file=error.file,
        hint="run OPTIMIZE and the like less often, or while the applier is stopped",
    )


def first_line(error: BaseException) -> str:
    text = str(getattr(error, "java_exception", error)) or type(error).__name__
    return text.splitlines()[0]

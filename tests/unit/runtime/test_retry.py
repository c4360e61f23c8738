"""What is temporary, how often it is tried again, and how long in between (WL#6964)."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException

from spark_repl.errors import (
    ConcurrentChangeError,
    DecodeError,
    FencedError,
    GivenUpError,
    JvmEndedError,
    RowError,
    Stopped,
    TargetError,
)
from spark_repl.runtime.retry import CONFLICTS_MAX, Retries, Retry, disk_full, number_of, temporary


class Clock(threading.Event):
    """Notes the pauses instead of sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        return self.is_set()


def failing(times: int, error: BaseException) -> Callable[[], str]:
    left = [error] * times

    def work() -> str:
        if left:
            raise left.pop()
        return "done"

    return work


def test_waits_as_mysql_does():
    # Scenario 37: retry count, and success in the end.
    clock, seen = Clock(), []
    retries = Retries(10, clock, lambda retry: seen.append(retry.number))
    assert retries.run(failing(7, OSError(errno.EIO, "Input/output error"))) == "done"
    assert clock.pauses == [1, 2, 3, 4, 5, 5, 5]
    assert seen == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("most", [0, 2, 10])
def test_retries_in_vain_end_with_their_number(most):
    # Scenario 37: exhaustion; attempts are 1 + retries.
    clock, calls = Clock(), []

    def work() -> None:
        calls.append(1)
        raise TimeoutError("storage")

    with pytest.raises(TargetError) as found:
        Retries(most, clock, lambda *_: None).run(work)
    assert len(calls) == most + 1
    if most:
        assert f"worker thread retried transaction {most} time(s) in vain" in str(found.value)
    else:  # the original error
        assert found.value.message == "storage"
    assert found.value.number == 1205


def test_a_throttled_store_is_waited_for_without_counting():
    clock, seen = Clock(), []
    retries = Retries(1, clock, lambda retry: seen.append((retry.number, retry.code)))
    busy = OSError(errno.EBUSY, "503 Slow Down", "s3a://bank/lake/t/a")
    assert retries.run(failing(4, busy)) == "done"
    assert clock.pauses == [5] * 4
    assert seen == [(number, errno.EBUSY) for number in (1, 2, 3, 4)]
    with pytest.raises(GivenUpError):
        retries.run(failing(2, OSError(errno.EBUSY, "busy", "/lake/t/a")))


@pytest.mark.parametrize(
    "error",
    [
        FencedError("a second applier"),
        RowError("missing row", number=1032),
        DecodeError("damage"),
        TargetError("another writer changed the table"),
        PermissionError(errno.EACCES, "denied"),
        ValueError("a bug"),
    ],
)
def test_an_error_that_is_not_temporary_is_not_retried(error):
    # Scenarios 21, 37: a non-temporary error stops at once.
    clock = Clock()
    with pytest.raises(type(error)):
        Retries(10, clock, lambda *_: None).run(failing(1, error))
    assert clock.pauses == []


_PASSING = (
    "EIO", "EAGAIN", "EBUSY", "EINTR", "ETIMEDOUT", "ESTALE", "ECONNRESET", "ECONNREFUSED",
    "ECONNABORTED", "EHOSTUNREACH", "ENETUNREACH", "ENETDOWN", "EPIPE", "EMFILE", "ENFILE",
    "ENOMEM",
)  # fmt: skip


@pytest.mark.parametrize("name", _PASSING)
def test_what_passes_in_the_system_is_temporary(name):
    assert temporary(OSError(getattr(errno, name), "of the system"))


@pytest.mark.parametrize("name", ["ENOENT", "EACCES", "EROFS", "ENAMETOOLONG", "EISDIR"])
def test_what_does_not_pass_in_the_system_is_not(name):
    assert not temporary(OSError(getattr(errno, name), "of the system"))


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (OSError("Generic S3 error: Server returned non-2xx status code: 503 Slow Down"), True),
        (OSError("error sending request for url"), True),
        (OSError("Generic S3 error: Server returned non-2xx status code: 403 Forbidden"), False),
        (FileNotFoundError(errno.ENOENT, "No such file", "/lake/part of 500 rows"), False),
        (ValueError("Broken pipe"), False),
    ],
)
def test_what_a_store_says_without_a_number(error, passes):
    assert temporary(error) == passes


def test_what_was_tried_in_vain_is_not_tried_again():
    with pytest.raises(TargetError, match="in vain") as found:
        Retries(1, Clock(), lambda *_: None).run(failing(2, TimeoutError()))
    assert isinstance(found.value.__cause__, TimeoutError)
    assert not temporary(found.value)


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (TimeoutError("storage"), 1205),
        (OSError(errno.ETIMEDOUT, "timed out"), 1205),
        (OSError(errno.EIO, "Input/output error"), errno.EIO),
        (OSError(errno.ESTALE, "stale"), errno.ESTALE),
        (OSError("HTTP error: error sending request: operation timed out"), 1205),
        (OSError("HTTP error: error sending request: Connection reset by peer"), 104),
        (OSError("Server returned non-2xx status code: 503 Slow Down"), 1297),
        (ConcurrentChangeError("ConcurrentDeleteReadException"), 1213),
        (RowError("missing row", number=1032), 1032),
    ],
)
def test_numbers_are_mysqls_or_the_systems(error, number):
    """Never 0: ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK, errno, ER_GET_TEMPORARY_ERRMSG."""
    assert Retry(error, 1, 0, ()).code == number


def test_a_jvm_that_has_ended_is_not_tried_again(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as port:  # nobody listens there any more
        address, number = port.getsockname()
    parameters = SimpleNamespace(address=address, port=number)
    gateway = SimpleNamespace(gateway_parameters=parameters)
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    clock = Clock()
    with pytest.raises(JvmEndedError):
        Retries(10, clock, lambda *_: None).run(failing(1, ConnectionRefusedError()))
    assert clock.pauses == []


def test_attempts_count_from_the_last_progress():
    clock, reached = Clock(), iter([0, 0, 1, 2, 2, 2, 2])
    retries = Retries(2, clock, lambda *_: None)
    assert retries.run(failing(4, TimeoutError()), lambda: next(reached)) == "done"
    assert clock.pauses == [1, 1, 1, 2]
    with pytest.raises(TargetError, match=r"2 time\(s\) in vain"):
        retries.run(failing(3, TimeoutError()), lambda: 0)


def test_somebody_elses_commits_have_a_bound_of_their_own():
    clock, seen = Clock(), []
    retries = Retries(0, clock, lambda retry: seen.append(retry.number))
    beaten = ConcurrentChangeError("ConcurrentDeleteReadException", file="t/a")
    assert retries.run(failing(CONFLICTS_MAX, beaten)) == "done"
    assert clock.pauses == [min(number, 5) for number in range(CONFLICTS_MAX)]
    assert seen == list(range(1, CONFLICTS_MAX + 1))
    with pytest.raises(TargetError, match="other writers' commits came first"):
        retries.run(failing(CONFLICTS_MAX + 1, beaten))


def test_a_groups_failures_are_counted_together_until_it_ends():
    """Wherever ``run`` is called; that it waits is said before the pause, of conflicts as well."""
    clock, told, seen = Clock(), list[int](), list[Retry]()
    retries = Retries(3, clock, seen.append)
    retries.counts.begin(4, (0, 1), lambda: told.append(len(clock.pauses)))
    retries.run(failing(1, TimeoutError()), slot=4, failed=lambda: (1,))
    retries.run(failing(1, ConcurrentChangeError("beaten")), slot=4)
    retries.run(failing(1, TimeoutError()), slot=4)
    assert told == [0, 1, 2]
    assert [(retry.number, tuple(retry.workers)) for retry in seen] == [
        (1, (1,)),
        (1, (0, 1)),
        (2, (0, 1)),
    ]
    assert clock.pauses == [1, 0, 2]
    with pytest.raises(GivenUpError) as found:
        retries.run(failing(2, TimeoutError()), slot=4, failed=lambda: (1,))
    assert found.value.workers == (1,)
    retries.counts.end(4)
    retries.run(failing(3, TimeoutError()), slot=4)


def test_stop_interrupts_a_pause():
    clock = Clock()
    clock.set()
    with pytest.raises(Stopped):
        Retries(10, clock, lambda *_: None).run(failing(1, TimeoutError()))


def test_full_disk_is_waited_for_and_not_counted(caplog):
    clock, seen = Clock(), []
    retries = Retries(0, clock, lambda retry: seen.append(retry.number))
    assert retries.run(failing(3, OSError(errno.ENOSPC, "No space left on device"))) == "done"
    assert clock.pauses == [5, 5, 5]
    assert seen == []
    assert caplog.text.count("disk is full") == 1
    caplog.clear()
    assert retries.run(failing(1, of_java(f"{_FULL}\n\tat java.base/java.io"))) == "done"
    assert caplog.messages == [
        f"disk is full ({_FULL}): it goes on when there is space; status names the disk"
    ]


class Java:
    """What Py4J has of an exception in the JVM."""

    _target_id, _gateway_client = "o1", None

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def of_java(text: str) -> Py4JJavaError:
    return Py4JJavaError("An error occurred while calling o1.commit", Java(text))


_LOST = "org.apache.spark.SparkException: Job aborted: ExecutorLostFailure (executor 1 exited)"
_FULL = "java.io.IOException: No space left on device"


@pytest.mark.parametrize(
    "text",
    [
        _LOST,
        "java.net.SocketTimeoutException: Read timed out",
        "org.apache.hadoop.fs.s3a.AWSClientIOException: Unable to execute HTTP request",
        "org.apache.hadoop.fs.s3a.AWSStatus500Exception: getFileStatus on s3a://b/t",
        "org.apache.hadoop.fs.s3a.AWSServiceIOException: open s3a://b/t",
        "org.apache.hadoop.fs.s3a.AWSClientIOException: the connection was closed",
        "org.apache.hadoop.fs.s3a.AWSRequestTimeoutException: 400",
        "java.io.IOException: Input/output error",
        "java.io.EOFException: Unexpected EOF while reading from the server",
    ],
)
def test_what_passes_in_the_jvm_is_temporary(text):
    assert temporary(of_java(text))
    refused = TargetError("Delta refused the commit")
    refused.__cause__ = of_java(text)
    assert temporary(refused)
    assert temporary(StreamingQueryException(text))
    read = DecodeError("damage")  # only a commit's cause is asked
    read.__cause__ = of_java(text)
    assert not temporary(read)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("java.net.SocketTimeoutException: Read timed out", 1205),
        ("java.io.IOException: Input/output error", errno.EIO),
        ("java.net.SocketException: Connection reset", errno.ECONNRESET),
        (_FULL, errno.ENOSPC),
        (_LOST, 1297),
    ],
)
def test_errors_of_the_jvm_have_mysqls_numbers(text, number):
    refused = TargetError("Delta refused the commit")
    refused.__cause__ = of_java(text)
    assert number_of(of_java(text)) == number_of(refused) == number


def test_what_the_jvm_said_in_vain_is_not_tried_again():
    with pytest.raises(GivenUpError) as found:
        Retries(1, Clock(), lambda _: None).run(failing(2, of_java(_LOST)))
    assert isinstance(found.value.__cause__, Py4JJavaError)
    assert not temporary(found.value)


@pytest.mark.parametrize("text", ["java.lang.NullPointerException", _FULL])
def test_what_does_not_pass_in_the_jvm_is_not(text):
    assert not temporary(of_java(text))
    assert not temporary(StreamingQueryException("java.lang.NullPointerException"))


def test_full_disk_is_known_whoever_says_it():
    refused = TargetError("Delta refused the commit")
    refused.__cause__ = of_java(_FULL)
    for error in (OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "quota"), of_java(_FULL)):
        assert disk_full(error)
    assert disk_full(refused)
    assert disk_full(StreamingQueryException(_FULL)), "the stream's checkpoint"
    assert not disk_full(StreamingQueryException(_LOST)) and not disk_full(of_java(_LOST))
    assert not disk_full(OSError(errno.EIO, "Input/output error"))

"""A start of Spark that is given up, and what waits for it."""

from __future__ import annotations

import errno
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_repl.errors import JvmEndedError, SparkReplError, Stopped
from spark_repl.runtime.starting_session import built, is_built, starting


class Start:
    """A build that ends only with its JVM, which runs after ``end_spark`` was called twice."""

    def __init__(self) -> None:
        self.calls, self.ended = 0, threading.Event()

    def build(self) -> SparkSession:
        self.ended.wait(60)
        raise OSError("Answer from Java side is empty")

    def end_spark(self) -> None:
        self.calls += 1
        if self.calls == 3:
            self.ended.set()


def test_stop_ends_the_start_for_all_that_wait() -> None:
    start = Start()
    with starting(start.build, end_spark=start.end_spark) as session, ThreadPoolExecutor() as pool:
        others = [pool.submit(built, session) for _ in range(2)]
        with pytest.raises(Stopped):
            built(session, lambda: True)
        assert start.calls == 3 and is_built(session)
        for other in others:
            assert isinstance(other.exception(60), Stopped)


def test_ctrl_c_ends_the_start() -> None:
    start = Start()
    with pytest.raises(KeyboardInterrupt), starting(start.build, end_spark=start.end_spark):
        raise KeyboardInterrupt
    assert start.calls == 3


def test_error_of_the_start_is_named_unless_it_was_given_up() -> None:
    start = Start()
    start.ended.set()
    with (
        starting(start.build, end_spark=start.end_spark) as session,
        pytest.raises(SparkReplError, match="Spark does not start: Answer from Java"),
    ):
        built(session)
    assert start.calls == 0


def test_jvm_that_was_killed_while_it_started_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        address, number = port.getsockname()
    parameters = SimpleNamespace(address=address, port=number)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(gateway_parameters=parameters))

    def build() -> SparkSession:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    with starting(build) as session, pytest.raises(JvmEndedError, match="Spark's JVM has ended"):
        built(session)


def test_stop_of_the_applier_alone_leaves_the_start() -> None:
    """After an error of the receiver, ``run`` still applies what was received."""
    start = Start()
    with starting(start.build, lambda: False, start.end_spark) as session:
        with pytest.raises(Stopped):
            built(session, lambda: True)
        assert start.calls == 0 and not is_built(session)
        start.ended.set()

"""A start of Spark that is given up, and what waits for it."""

from __future__ import annotations

import errno
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_repl.errors import JvmEndedError, SetupError, SparkReplError, Stopped
from spark_repl.runtime.starting_session import begin, built, in_use, is_built, starting


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


class Builds:
    """Sessions that have a number each, and those that were ended."""

    def __init__(self) -> None:
        self.built, self.ended = 0, list[Any]()

    def build(self) -> Any:
        self.built += 1
        return self.built


def test_a_session_that_nobody_uses_rests_until_it_is_needed_again() -> None:
    builds = Builds()
    with starting(builds.build, end=builds.ended.append) as session:
        assert session.rests and not is_built(session) and builds.built == 0
        assert cast("int", built(session)) == 1
        assert not session.may_rest(3600)
        session.rest(3600)
        assert builds.ended == [] and not session.rests
        with in_use(session), in_use(session):
            assert not session.may_rest(0)
            session.rest(0)
        assert not session.rests and session.may_rest(0)
        session.rest(0)
        session.rest(0)
        assert builds.ended == [1] and session.rests and not is_built(session)
        assert not session.may_rest(0)
        with in_use(session) as again:
            assert cast("int", again) == 2 and not session.rests
        session.rest(0)
    assert builds.built == 2 and builds.ended == [1, 2]


def test_use_puts_rest_off() -> None:
    builds = Builds()
    with starting(builds.build, end=builds.ended.append) as session:
        built(session)
        session._used_at -= 100
        assert session.may_rest(100)
        with in_use(session):
            pass
        assert not session.may_rest(100)


def test_a_session_without_an_end_does_not_rest() -> None:
    builds = Builds()
    with starting(builds.build) as session:
        built(session)
        session.rest(0)
        assert not session.may_rest(0) and not session.rests


def test_who_wants_a_session_while_it_is_ended_gets_another_one() -> None:
    builds, ending, go_on = Builds(), threading.Event(), threading.Event()

    def end(session: Any) -> None:
        ending.set()
        go_on.wait(60)
        builds.ended.append(session)

    with starting(builds.build, end=end) as session, ThreadPoolExecutor() as pool:
        built(session)
        resting = pool.submit(session.rest, 0)
        ending.wait(60)
        wanted = pool.submit(built, session)
        go_on.set()
        assert cast("int", wanted.result(60)) == 2
        resting.result(60)
    assert builds.ended == [1]


def test_an_error_of_a_later_start_is_raised() -> None:
    """It stays: the process ends, and its service manager starts it again."""
    builds = Builds()

    def build() -> Any:
        if builds.built:
            raise SetupError("no Java")
        return builds.build()

    with starting(build, end=builds.ended.append) as session:
        built(session)
        session.rest(0)
        for _ in range(2):
            with pytest.raises(SetupError, match="no Java"), in_use(session):
                pass
        assert is_built(session)
        session.rest(0)
        assert not session.rests and builds.ended == [1]


def test_a_session_that_was_begun_early_counts_as_used_from_then_on() -> None:
    builds = Builds()
    with starting(builds.build, end=builds.ended.append) as session:
        session._used_at -= 100
        begin(session)
        session.join()
        assert is_built(session) and not session.may_rest(100)


def test_a_start_for_which_there_is_no_thread_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builds = Builds()

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with starting(builds.build, end=builds.ended.append) as session:
        with monkeypatch.context() as patch, pytest.raises(RuntimeError):
            patch.setattr(threading.Thread, "start", start)
            built(session)
        assert cast("int", built(session)) == 1


def test_a_stop_does_not_start_a_session_that_rests() -> None:
    builds = Builds()
    with starting(builds.build, end=builds.ended.append) as session:
        with pytest.raises(Stopped):
            built(session, lambda: True)
        with pytest.raises(Stopped), in_use(session, lambda: True):
            pass
    assert builds.built == 0
    with starting(builds.build, lambda: True, end=builds.ended.append) as session:
        assert session.rests
    assert builds.built == 0
    with starting(builds.build, lambda: True, end=builds.ended.append) as session:
        built(session)
        session.rest(0)
    assert builds.built == 1

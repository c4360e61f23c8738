"""A JVM that has ended is told by its port, whatever Py4J said of it."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.serializers import read_int

from spark_repl.runtime.java import _ENDING_S, jvm_end


def _reset() -> ConnectionError:
    """What pyspark meets when the other end of a connection is killed."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        ours = socket.create_connection(port.getsockname())
        theirs, _ = port.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
    with ours, pytest.raises(ConnectionResetError) as met:
        read_int(ours.makefile("rb"))
    return met.value


_SAID = [
    Py4JNetworkError("Answer from Java side is empty"),
    _reset(),
    # What a name that is looked up is answered with, where nobody answers.
    Py4JError("org.apache.spark.sql.delta.DeltaLog does not exist in the JVM"),
]


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A port in the place of the JVM's, which ends when it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        address, number = port.getsockname()
        parameters = SimpleNamespace(address=address, port=number)
        gateway = SimpleNamespace(gateway_parameters=parameters)
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        yield port


@pytest.mark.parametrize("error", _SAID, ids=lambda error: type(error).__name__)
def test_a_closed_port_means_that_the_jvm_has_ended(
    listening: socket.socket, error: Exception
) -> None:
    assert jvm_end(error) is None
    listening.close()
    ended = jvm_end(error)
    assert ended is not None
    assert ended.hint is not None


@pytest.mark.parametrize("error", _SAID, ids=lambda error: type(error).__name__)
def test_a_port_that_closes_soon_means_that_the_jvm_has_ended(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A process that is killed closes its connections and ports one after the other."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if seconds == _ENDING_S[-1]:  # the last attempt to connect follows
            listening.close()

    monkeypatch.setattr(time, "sleep", pause)
    assert jvm_end(error) is not None
    assert pauses == [*_ENDING_S]


@pytest.mark.parametrize("ended", [False, True])
def test_an_error_of_another_connection_does_not_wait(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    if ended:
        listening.close()
    assert (jvm_end(ConnectionResetError("the object store's")) is not None) == ended
    assert not any(pauses)


def test_an_error_of_our_own_says_nothing_of_it(listening: socket.socket) -> None:
    listening.close()
    assert jvm_end(ValueError("wrong")) is None

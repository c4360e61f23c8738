"""Channels of one process have one JVM: a class of ours is defined there once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from unittest.mock import MagicMock

from py4j.protocol import Py4JError

from spark_repl.runtime.java_classes import ensure

NAME = "io.delta.storage.SparkReplStatuses"
CHANNELS = 4


class Loader:
    """A JVM's class loader, which takes a class once; all who look for it at first look at once, as
    far as they are let."""

    def __init__(self) -> None:
        self.defined: list[bytes] = []
        self.together = threading.Barrier(CHANNELS)

    def find(self, *asked: object) -> object:
        if not self.defined:
            with suppress(threading.BrokenBarrierError):
                self.together.wait(1)
        if not self.defined:
            raise Py4JError("ClassNotFoundException")
        return asked

    def define(self, code: bytes) -> None:
        if self.defined:
            raise Py4JError("LinkageError: attempted duplicate class definition")
        self.defined.append(code)


def test_several_that_come_together() -> None:
    jvm, loader = MagicMock(), Loader()
    jvm.java.lang.Class.forName = loader.find
    handles = jvm.java.lang.invoke.MethodHandles
    handles.privateLookupIn.return_value.defineClass = loader.define
    with ThreadPoolExecutor(CHANNELS) as pool:
        asked = [pool.submit(ensure, jvm, "io.delta.storage.LogStore", NAME) for _ in range(4)]
        assert all(one.result() for one in asked)
    assert len(loader.defined) == 1

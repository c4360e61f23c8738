"""What the making of a session leaves as it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from spark_repl.runtime.spark_session import same_interrupt_handler


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, _first)
    yield
    signal.signal(signal.SIGINT, before)


def _first(*_: Any) -> None: ...


def _second(*_: Any) -> None: ...


def test_handler_that_a_new_context_replaced_is_restored() -> None:
    with same_interrupt_handler():
        signal.signal(signal.SIGINT, _second)
    assert signal.getsignal(signal.SIGINT) is _first


def test_handler_that_the_main_thread_sets_while_another_makes_the_session_stays() -> None:
    entered, changed = Event(), Event()

    def make() -> None:
        with same_interrupt_handler():
            entered.set()
            changed.wait(60)

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(make)
        entered.wait(60)
        signal.signal(signal.SIGINT, _second)
        changed.set()
        result.result(60)
    assert signal.getsignal(signal.SIGINT) is _second

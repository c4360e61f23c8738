"""Whose failure it is that an XA branch can't be kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spark_repl.apply.group.xa_retry import OnKeep, keeping
from spark_repl.errors import GivenUpError
from spark_repl.position import RelayPosition
from spark_repl.relay.record import RECORD
from spark_repl.runtime.retry import Retries, Retry
from spark_repl.schedule.branches import XaGroup
from spark_repl.schedule.group import Group

PLACES = [RelayPosition(1, 100).packed, RelayPosition(1, 200).packed]
BROKEN = OSError(5, "Input/output error")


def group() -> Group:
    """Two XA PREPAREs, of the second and the third worker."""
    records = np.zeros(2, RECORD)
    records["position"] = PLACES
    return replace(Group.of(records, np.zeros(2, np.int32), 2), worker=np.array([1, 2], np.int32))


def tried(work: Callable[[OnKeep], XaGroup], most: int) -> tuple[list[Retry], GivenUpError | None]:
    seen = list[Retry]()
    retries = Retries(most, threading.Event(), seen.append, wait=lambda *_: False)
    try:
        keeping(work, group(), retries)
    except GivenUpError as error:
        return seen, error
    return seen, None


def branch(position: int) -> Any:
    return SimpleNamespace(position=position)


@pytest.mark.parametrize("number", [0, 1])
def test_it_is_that_of_the_worker_that_has_the_prepare(number: int) -> None:
    def work(keep: OnKeep) -> XaGroup:
        for position in PLACES[: number + 1]:
            keep(branch(position))
        raise BROKEN

    seen, error = tried(work, 2)
    assert [set(retry.workers) for retry in seen] == [{number + 1}] * 2
    assert error is not None and error.workers == (number + 1,)
    assert error.position == str(RelayPosition.unpack(PLACES[number]))


def test_what_fails_before_any_branch_is_nobodys_alone() -> None:
    """Also behind an attempt that has come to one."""
    attempts = list[int]()

    def work(keep: OnKeep) -> XaGroup:
        attempts.append(1)
        if len(attempts) == 1:
            keep(branch(PLACES[0]))
        raise BROKEN

    seen, error = tried(work, 1)
    assert [set(retry.workers) for retry in seen] == [{1}]
    assert error is not None and error.position is None
    assert error.workers != (1,)

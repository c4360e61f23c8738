"""LowWaterMark: which records of the log lie behind it."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from spark_repl.apply.group.low_water_mark import LowWaterMark
from spark_repl.gtid import GtidSet
from spark_repl.relay.source_places import SourcePlace
from spark_repl.runtime.retry import Retries


def mark(position: int, log: Any = None) -> LowWaterMark:
    point: Any = SimpleNamespace(
        executed=GtidSet(), shown=GtidSet(), position=position, cut=None, copy=None,
        replayed_to=0, by_hand=0, absent=GtidSet(),
    )  # fmt: skip
    retries = Retries(0, threading.Event(), lambda _: None)
    return LowWaterMark(log or MagicMock(), MagicMock(), MagicMock(), point, retries)


@pytest.mark.parametrize(
    ("position", "behind"), [(0, [10, 20, 30]), (19, [20, 30]), (20, [30]), (21, [30]), (30, [])]
)
def test_the_last_transaction_that_all_tables_have_is_not_behind(
    position: int, behind: list[int]
) -> None:
    records = np.array([(10,), (20,), (30,)], [("end", np.int64)])
    assert mark(position).after(records)["end"].tolist() == behind


def test_before_the_first_group_it_stands_nowhere_on_the_source() -> None:
    log: Any = MagicMock(source_of=lambda at: {"file": "b.000001", "position": at, "began": 7})
    assert mark(0, log).place is None
    assert mark(9, log).place == SourcePlace("b.000001", 9, 7)

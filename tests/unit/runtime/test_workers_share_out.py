"""Bundles of tasks fit into Spark's messages, and the driver runs what does not fit."""

from __future__ import annotations

import pickle
from itertools import chain

import pytest

from spark_repl.runtime.workers import share_out

_TASK = bytes(1000)
_SIZE = len(pickle.dumps(_TASK, -1))


@pytest.mark.parametrize("most", [None, 3 * _SIZE])
def test_as_many_bundles_as_wanted_take_turns(most: int | None) -> None:
    assert share_out([_TASK] * 5, 2, most) == ([[0, 2, 4], [1, 3]], [])
    assert share_out([_TASK], 2, most) == ([[0]], [])


def test_a_task_that_only_spark_s_pickle_takes_is_measured() -> None:
    """Found: every task of a cluster was refused for a view of a dict in it."""
    assert share_out([{"t.a": 1}.keys(), lambda: None], 2, 10_000) == ([[0], [1]], [])


def test_bundles_above_the_bound_become_more() -> None:
    bundles, heavy = share_out([_TASK] * 10, 2, 3 * _SIZE)
    assert heavy == [] and sorted(chain(*bundles)) == list(range(10))
    assert len(bundles) == 4 and all(len(bundle) <= 3 for bundle in bundles)


def test_task_above_the_bound_is_the_driver_s() -> None:
    assert share_out([_TASK, bytes(5000), _TASK], 4, _SIZE) == ([[0], [2]], [1])
    assert share_out([_TASK], 4, _SIZE - 1) == ([], [0])

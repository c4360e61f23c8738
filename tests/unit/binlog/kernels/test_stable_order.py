"""A stable order of integers: NumPy's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from spark_repl.binlog.kernels.stable_order import stable_order

_DICE = np.random.default_rng(7)
_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@pytest.mark.parametrize(
    "integers",
    [
        np.zeros(0, np.int64),
        np.array([3, -1, 3, 2]),
        _DICE.integers(_MIN, _MAX, 5_000),
        _DICE.integers(-3, 3, 5_000),
        _DICE.integers(0, 1 << 40, 5_000) << 20,
        np.where(_DICE.random(5_000) < 0.5, _MIN, _MAX),
        np.concatenate([np.arange(4_000), _DICE.integers(0, 4_000, 1_000)]),
        np.arange(5_000),
        np.arange(5_000)[::-1],
        _DICE.integers(0, 100, 5_000, np.int32),
        _DICE.integers(-(1 << 15), 1 << 15, 5_000, np.int16),
        np.repeat(np.arange(700), 10)[::2],
    ],
    ids=str,
)
def test_the_order_is_numpys(integers: npt.NDArray[np.int64]) -> None:
    given = integers.copy()
    order = stable_order(integers)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(order, np.argsort(given, kind="stable"))
    np.testing.assert_array_equal(integers, given)

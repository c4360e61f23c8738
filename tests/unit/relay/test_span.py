"""A span travels to a worker in few bytes, and arrives as it was."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

from spark_repl.relay.span import Span


@pytest.mark.parametrize("count", [0, 1, 2, 5, 1000])
@pytest.mark.parametrize("length", [1 << 12, 1 << 33])
def test_a_pickled_span_is_the_same(count: int, length: int) -> None:
    choose = random.Random(count)
    lengths = np.array([choose.randint(1, length) for _ in range(count)], np.int64)
    gaps = np.array([choose.choice([0, 0, 0, 7, 1 << 40]) for _ in range(count)], np.int64)
    starts = np.cumsum(lengths + gaps) - lengths
    compressed = np.array([choose.random() < 0.5 for _ in range(count)], np.bool_)
    span = Span("binlog.000007", 7, starts, starts + lengths, compressed, checksum=True)
    arrived = pickle.loads(pickle.dumps(span))
    for name in ("starts", "ends", "compressed"):
        before, after = getattr(span, name), getattr(arrived, name)
        assert after.dtype == before.dtype and after.tolist() == before.tolist()
    assert (arrived.path, arrived.file_no, arrived.checksum) == (span.path, 7, True)


def test_a_transaction_of_a_span_takes_about_four_bytes() -> None:
    starts = np.arange(100_000) * 300
    span = Span("f", 1, starts, starts + 300, np.zeros(100_000, np.bool_), checksum=True)
    assert len(pickle.dumps(span)) < 4.5 * len(span)

"""Waves, workers and groups of hand-made logs."""

from __future__ import annotations

import numpy as np
import pytest

from spark_repl.errors import ConfigError
from spark_repl.schedule.waves import (
    GroupLimits,
    RowEstimate,
    assign,
    first_group,
    groups,
    waves,
)


def wave_list(stamps: list[tuple[int, int]], files: list[int] | None = None) -> list[int]:
    lc, sn = zip(*stamps, strict=True)
    wave, warnings = waves(files or [1] * len(stamps), lc, sn)
    assert warnings == []
    return wave.tolist()


def test_a_wave_ends_where_a_transaction_depends_on_its_first() -> None:
    # Scenario 14: the second group of a mixed transaction waits for the first.
    stamps = [(0, 1), (1, 2), (1, 3), (2, 4), (4, 5), (4, 6), (3, 7), (5, 8)]
    assert wave_list(stamps) == [0, 1, 1, 2, 3, 3, 3, 4]


def test_unset_stamps_gaps_and_files_are_barriers() -> None:
    # Scenarios 1, 15: two transactions in a row with last_committed 0, across a rotation, are
    # applied; filtered ones leave gaps, which are barriers.
    assert wave_list([(0, 1), (0, 2), (0, 3)]) == [0, 1, 2]
    assert wave_list([(1, 2), (1, 3), (1, 5), (1, 6)]) == [0, 0, 1, 1]
    assert wave_list([(1, 2), (1, 3), (0, 1), (1, 2)], [1, 1, 2, 2]) == [0, 0, 1, 2]
    assert wave_list([(0, 0), (0, 0), (1, 2), (1, 3)]) == [0, 1, 2, 2]


def test_a_relay_file_holds_several_files_of_the_source() -> None:
    """Each begins with (0, 1), which is no contradiction."""
    wave, warnings = waves([1] * 5, [0, 1, 1, 0, 1], [1, 2, 3, 1, 2])
    assert wave.tolist() == [0, 1, 1, 2, 3]
    assert warnings == []


def test_inconsistent_stamps_are_applied_in_isolation_with_mysqls_words() -> None:
    # Scenario 1: stamps that run backwards give a warning, the transaction is applied in
    # isolation.
    wave, warnings = waves([1] * 5, [1, 1, 9, 1, 1], [2, 3, 4, 5, 6])
    assert wave.tolist() == [0, 0, 1, 2, 2]
    assert warnings == [
        (
            2,
            "Transaction is tagged with inconsistent logical timestamps:"
            " sequence_number (4) <= last_committed (9)."
            " There may be a bug in how these timestamps were generated."
            " Transaction will be applied in isolation",
        )
    ]
    wave, warnings = waves([1] * 4, [1, 1, 1, 1], [2, 3, 3, 4])
    assert wave.tolist() == [0, 0, 1, 2]
    assert [i for i, _ in warnings] == [2]
    assert "sequence_number (3) <= previous sequence_number (3)" in warnings[0][1]


def test_a_barrier_is_a_wave_of_its_own() -> None:
    wave, _ = waves([1] * 4, [1] * 4, [2, 3, 4, 5], [False, True, False, False])
    assert wave.tolist() == [0, 1, 2, 2]


def test_workers_share_a_wave_by_bytes() -> None:
    worker = assign([0, 0, 0, 0, 1], [10, 10, 10, 10, 40], 2)
    assert worker[0] == worker[1] != worker[2] == worker[3]
    assert len(set(assign([0, 0], [20, 80], 2).tolist())) == 2, "by the middle of their bytes"
    worker = assign([0, 1, 2, 3], [10, 10, 10, 10], 4)
    assert sorted(worker.tolist()) == [0, 1, 2, 3]
    # A run that no transaction falls into is nobody's: the two that there are begin at the first.
    assert assign([0, 0], [10, 10], 3).tolist() == [0, 1]


def test_nothing_behind_the_last_transaction_is_looked_at() -> None:
    wave, length = np.zeros(3, np.int64), np.array([10, 10, 10_000])
    assert len(set(assign(wave[:2], length[:2], 2).tolist())) == 2


def test_groups_end_at_bounds_and_barriers() -> None:
    limits = GroupLimits(transactions=3, rows=100, bytes=1000)
    none = np.zeros(7, bool)
    assert groups(none, [1] * 7, [1.0] * 7, limits).tolist() == [0, 3, 6, 7]
    assert groups(none, [500, 400, 5000, 1, 1, 1, 1], [1] * 7, limits).tolist() == [0, 2, 3, 6, 7]
    assert groups(none, [1] * 7, [60, 60, 200, 1, 1, 1, 1], limits).tolist() == [0, 1, 2, 3, 6, 7]
    assert groups(none, [500] * 7, [1] * 7, limits).tolist() == [0, 2, 4, 6, 7]
    assert groups(none, [1] * 7, [50] * 7, limits).tolist() == [0, 2, 4, 6, 7]
    barrier = [False, True, True, False, False, False, True]
    assert groups(barrier, [1] * 7, [1] * 7, limits).tolist() == [0, 1, 2, 3, 6, 7]
    assert groups([], [], [], limits).tolist() == [0]


def test_the_last_two_groups_are_alike() -> None:
    limits = GroupLimits(transactions=4, rows=100, bytes=1000)

    def first(count: int, rows: float = 1.0, size: int = 1, barrier: int = -1) -> int:
        stops = np.arange(count) == barrier
        return first_group(stops, np.full(count, size), np.full(count, rows), limits)

    assert [first(n) for n in (3, 4, 5, 7, 8, 20)] == [3, 4, 3, 4, 4, 4]
    assert [first(3, rows=n) for n in (33, 40, 60)] == [3, 2, 1]
    assert first(3, size=400) == 2
    assert first(7, barrier=5) == 3, "what lies behind a statement is another group's anyway"
    assert first(7, barrier=0) == 1
    assert first(1, rows=150) == first(2, rows=150) == 1
    # The middle of the bytes lies in the first transaction: the second group's bounds count.
    size, none = np.array([900, 1, 1, 1, 1, 1, 1]), np.zeros(7, bool)
    assert first_group(none, size, np.ones(7), limits) == 3
    assert first_group(none[1:], size[:6], np.full(6, 30.0), limits) == 3


def test_bounds_and_workers_must_be_positive() -> None:
    assert GroupLimits(1, 1, 1).rows == 1
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(ConfigError):
            GroupLimits(*wrong)
    with pytest.raises(ConfigError):
        assign([0], [1], 0)


def test_the_row_estimate_follows_what_is_seen() -> None:
    estimate = RowEstimate()
    for rows in (100_000, 1_000_000, 100_000):
        for _ in range(200):
            estimate = estimate.observe(10 << 20, rows)
        assert estimate.rows(np.array([10 << 20])) == pytest.approx(rows, rel=0.05)


def test_the_row_estimate_rests_on_so_many_bytes() -> None:
    seen = RowEstimate().observe(3 << 20, 100)
    assert seen.weight == 4 << 20
    assert seen.rate == pytest.approx(((1 << 20) / 200 + 100) / (4 << 20))
    assert seen.observe(1 << 40, 0).weight == 1 << 28

"""The scheduler against a serial reading of LOGICAL_CLOCK's rules, and its own promises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_repl.schedule.waves import GroupLimits, assign, first_group, groups, waves

Stamp = tuple[int, int, int]  # file, last_committed, sequence_number


@st.composite
def logs(draw: st.DrawFn) -> list[Stamp]:
    """Mostly what a server writes; sometimes gaps, unset stamps, repeats and nonsense."""
    out: list[Stamp] = []
    for file in range(1, draw(st.integers(1, 3)) + 1):
        number = draw(st.integers(0, 3))
        for _ in range(draw(st.integers(0, 25))):
            odd = draw(st.integers(0, 19))
            number += 1 if odd else draw(st.integers(-2, 4))
            number = max(number, 0)
            parent = draw(
                st.integers(0, 40) if odd == 1 else st.integers(max(number - 6, 0), number)
            )
            out.append((file, min(parent, number - 1) if odd > 1 and number else parent, number))
    return out


def serial(log: list[Stamp]) -> tuple[list[int], list[int]]:
    """Waves and warned transactions as one reads mysql.md 1.1, one transaction at a time."""
    wave: list[int] = []
    warned: list[int] = []
    members: list[int] = []
    last_file, previous = None, 0
    for i, (file, lc, sn) in enumerate(log):
        first_event = file != last_file
        if not first_event and ((lc != 0 and sn <= lc) or (sn > 1 and sn <= previous)):
            warned.append(i)
            lc = sn = 0
        gap = sn > previous + 1
        full_barrier = first_event or sn == 0 or lc == 0 or gap or previous == 0
        # clock_leq(lc, LWM), where none of the wave's members has committed
        waits = any(member <= lc for member in members)
        if full_barrier or waits:
            members = []
        members.append(sn)
        wave.append(wave[-1] + (len(members) == 1) if wave else 0)
        last_file, previous = file, sn
    return wave, warned


@given(logs())
def test_waves_are_those_of_the_serial_reading(log: list[Stamp]) -> None:
    # Scenario 15: whatever parents the source's tracking gives, they are read as MySQL reads
    # them.
    file, lc, sn = ([row[k] for row in log] for k in range(3))
    wave, warnings = waves(file, lc, sn)
    expected, warned = serial(log)
    assert wave.tolist() == expected
    assert [i for i, _ in warnings] == warned
    first: dict[int, int] = {}
    for i, w in enumerate(wave.tolist()):
        if first.setdefault(w, i) != i:
            assert lc[i] < sn[first[w]] < sn[i]


@st.composite
def loads(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    wave: list[int] = []
    for w in range(draw(st.integers(0, 12))):
        wave += [w] * draw(st.integers(1, 12))
    size = st.integers(1, 1 << draw(st.sampled_from([3, 12, 40])))
    return wave, draw(st.lists(size, min_size=len(wave), max_size=len(wave)))


@given(loads(), st.integers(1, 9))
def test_workers_are_balanced_by_bytes_within_contiguous_runs(
    load: tuple[list[int], list[int]], workers: int
) -> None:
    wave, length = load
    worker = assign(wave, length, workers).tolist()
    assert all(0 <= w < workers for w in worker)
    for w in set(wave):
        mine = [worker[i] for i in range(len(wave)) if wave[i] == w]
        changes = sum(a != b for a, b in pairwise(mine))
        assert changes == len(set(mine)) - 1  # each worker has one contiguous run of a wave
    totals = [sum(n for n, w in zip(length, worker, strict=True) if w == k) for k in range(workers)]
    assert max(totals) - min(totals) <= 2 * max(length, default=0) + workers


def _first_after_first(log: list[tuple[int, int, float]], limits: GroupLimits) -> list[int]:
    cuts = [0]
    barrier = np.array([row[0] == 0 for row in log], bool)
    size, rows = np.array([r[1] for r in log], np.int64), np.array([r[2] for r in log], float)
    while (at := cuts[-1]) < len(log):
        cuts.append(at + first_group(barrier[at:], size[at:], rows[at:], limits))
    return cuts


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 300), st.floats(0, 50)), max_size=60),
    st.integers(1, 8),
    st.integers(1, 60),
    st.integers(1, 400),
)
def test_groups_are_contiguous_bounded_and_no_smaller_than_needed(
    log: list[tuple[int, int, float]], most: int, rows: int, size: int
) -> None:
    barrier = [row[0] == 0 for row in log]
    limits = GroupLimits(most, rows, size)
    cuts = groups(barrier, [r[1] for r in log], [r[2] for r in log], limits).tolist()
    assert cuts[0] == 0 and cuts[-1] == len(log)
    assert all(a < b for a, b in pairwise(cuts))

    def fits(start: int, stop: int) -> bool:
        part = log[start:stop]
        return (
            len(part) <= most
            and sum(r[1] for r in part) <= size
            and sum(r[2] for r in part) <= rows * (1 + 1e-12)
        )

    evened = _first_after_first(log, limits)
    assert len(evened) == len(cuts), "in as many groups"
    assert all(stop == start + 1 or fits(start, stop) for start, stop in pairwise(evened))

    for start, stop in pairwise(cuts):
        assert stop == start + 1 or fits(start, stop)
        assert stop == start + 1 or not any(barrier[start:stop])
        more = stop < len(log) and not barrier[stop - 1] and not barrier[stop]
        assert not (more and fits(start, stop + 1)) or sum(
            r[2] for r in log[start : stop + 1]
        ) > rows * (1 - 1e-12)

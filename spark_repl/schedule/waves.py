"""Waves, workers and groups: which transactions may run in parallel, on which worker, and how many
are committed together.

All functions map arrays to arrays, because a batch may have 170,000 transactions. The rules are
those of MySQL's LOGICAL_CLOCK (sql/rpl_mta_submode.cc, ``schedule_next_event``), for transactions
in log order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..binlog.kernels.jit import jit, jit_allocating
from ..errors import ConfigError

Ints = npt.NDArray[np.int64]

_ISOLATED = (
    " There may be a bug in how these timestamps were generated."
    " Transaction will be applied in isolation"
)
_STAMPS = (
    "Transaction is tagged with inconsistent logical timestamps:"
    " sequence_number ({}) <= last_committed ({})."
) + _ISOLATED
_SEQUENCE = (
    "Transaction's sequence number is inconsistent with that of a preceding one:"
    " sequence_number ({}) <= previous sequence_number ({})."
) + _ISOLATED


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The bounds of one group: transactions, estimated rows, uncompressed bytes."""

    transactions: int
    rows: int
    bytes: int

    def __post_init__(self) -> None:
        for name in ("transactions", "rows", "bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"a group's bound on {name} must be at least 1")


@dataclass(frozen=True, slots=True)
class RowEstimate:
    """Row changes per uncompressed byte of the log, estimated from the groups that were decoded.

    An index record has only bytes; rows are counted when they are decoded. ``weight``: the number
    of bytes on which the rate is based. ``memory`` limits it, so that within a few groups the rate
    adapts to a log whose rows grow.
    """

    rate: float = 1 / 200
    weight: float = 1 << 20
    memory: float = 1 << 28

    def observe(self, size: int, rows: int) -> RowEstimate:
        """Return the estimate corrected by ``rows`` changes that were found in ``size`` bytes."""
        total = self.weight + size
        rate = (self.rate * self.weight + rows) / total
        return RowEstimate(rate, min(total, self.memory), self.memory)

    def rows(self, uncompressed: Ints) -> npt.NDArray[np.float64]:
        """Return the estimated rows of transactions of these sizes, float64[n]."""
        return np.asarray(uncompressed, np.float64) * self.rate


def waves(
    file_no: npt.ArrayLike,
    last_committed: npt.ArrayLike,
    sequence_number: npt.ArrayLike,
    barrier: npt.ArrayLike | None = None,
) -> tuple[npt.NDArray[np.int32], list[tuple[int, str]]]:
    """Return the wave of each transaction, int32[n] ascending from 0, and warnings (index, text).

    A wave is a maximal run in which every ``last_committed`` is below the first transaction's
    ``sequence_number``. A wave also starts at a new file, at an unset stamp (0), at a gap in the
    sequence, and where the sequence starts again at 0 or 1, because a relay log's file continues
    with the source's next file. A transaction whose stamps contradict themselves or the previous
    transaction's is a separate wave, with MySQL's warning. A transaction with ``barrier`` is also a
    separate wave, without a warning.
    """
    # Copies, because numba compiles a kernel again for arrays that can't be changed.
    parent, number = np.array(last_committed, np.int64), np.array(sequence_number, np.int64)
    alone = np.zeros(len(number), np.bool_) if barrier is None else np.asarray(barrier, np.bool_)
    files = np.array(file_no, np.int64)
    wave, complaint, previous = _waves(files, parent, number, alone)
    warnings = []
    for i in np.flatnonzero(complaint).tolist():
        if complaint[i] == 1:
            warnings.append((i, _STAMPS.format(number[i], parent[i])))
        else:
            warnings.append((i, _SEQUENCE.format(number[i], previous[i])))
    return wave, warnings


@jit_allocating
def _waves(files: Any, parent: Any, number: Any, alone: Any) -> Any:
    n = len(number)
    wave = np.zeros(n, np.int32)
    complaint = np.zeros(n, np.uint8)
    before = np.zeros(n, np.int64)
    first = np.int64(0)  # sequence number of the wave's first transaction
    previous = np.int64(0)
    current = -1
    for i in range(n):
        lc, sn = parent[i], number[i]
        before[i] = previous
        fresh = i == 0 or files[i] != files[i - 1]
        if not fresh:
            if lc != 0 and sn <= lc:
                complaint[i] = 1
                lc, sn = 0, 0
            elif 1 < sn <= previous:  # 1: the source's next file
                complaint[i] = 2
                lc, sn = 0, 0
        if alone[i]:
            lc = 0
        barred = fresh or lc == 0 or sn > previous + 1
        if barred or lc >= first or alone[i - 1]:
            current += 1
            first = sn
        wave[i] = current
        previous = sn
    return wave, complaint, before


def assign(wave: npt.ArrayLike, length: npt.ArrayLike, workers: int) -> npt.NDArray[np.int32]:
    """Return the worker of each transaction, int32[n]. ``length``: bytes of each, never 0.

    A wave is divided into at most ``workers`` contiguous runs of about equal bytes, each for
    another worker. The run with most bytes goes to the worker with fewest bytes so far. Therefore
    the totals of two workers never differ by more than twice the largest transaction.
    """
    if workers < 1:
        raise ConfigError("there must be at least 1 worker")
    numbers = np.ascontiguousarray(wave, np.int64)
    worker: npt.NDArray[np.int32] = _assign(
        numbers, np.ascontiguousarray(length, np.int64), workers
    )
    return worker


@jit_allocating
def _assign(wave: Any, length: Any, workers: Any) -> Any:
    n = len(wave)
    worker = np.zeros(n, np.int32)
    load = np.zeros(workers, np.int64)
    size = np.zeros(workers, np.int64)
    worker_of_run = np.zeros(workers, np.int32)
    used = np.zeros(workers, np.bool_)
    start = 0
    while start < n:
        stop, total = start, np.int64(0)
        while stop < n and wave[stop] == wave[start]:
            total += length[stop]
            stop += 1
        # A transaction belongs to the run in which the middle of its bytes falls.
        size[:] = 0
        assigned_bytes = np.int64(0)
        for i in range(start, stop):
            run = (assigned_bytes + length[i] // 2) * workers // total
            worker[i] = run
            size[run] += length[i]
            assigned_bytes += length[i]
        _place(size, load, worker_of_run, used)
        for i in range(start, stop):
            worker[i] = worker_of_run[worker[i]]
        start = stop
    return worker


@jit
def _place(size: Any, load: Any, worker_of_run: Any, used: Any) -> None:
    """Assign runs to workers, the largest run to the least loaded worker; add to ``load``."""
    used[:] = False
    for _ in range(len(size)):
        heaviest = np.argmax(size)
        if size[heaviest] <= 0:
            break
        lightest = -1
        for w in range(len(load)):
            if not used[w] and (lightest < 0 or load[w] < load[lightest]):
                lightest = w
        used[lightest] = True
        worker_of_run[heaviest] = lightest
        load[lightest] += size[heaviest]
        size[heaviest] = 0


def groups(
    barrier: npt.ArrayLike,
    uncompressed: npt.ArrayLike,
    rows: npt.ArrayLike,
    limits: GroupLimits,
    most: int | None = None,
) -> Ints:
    """Return the bounds b of groups, int64[k+1] ascending from 0 to n: group g is [b[g], b[g+1]).

    A transaction with ``barrier`` (DDL), and one that alone exceeds a limit, is a separate group.
    No other group exceeds a limit. ``rows`` are estimates. ``most``: return the
    bounds of at most this number of groups.
    """
    stops = np.ascontiguousarray(barrier, np.bool_)
    boundaries: Ints = _groups(
        stops,
        np.ascontiguousarray(uncompressed, np.int64),
        np.ascontiguousarray(rows, np.float64),
        limits.transactions,
        float(limits.rows),
        limits.bytes,
        len(stops) if most is None else min(most, len(stops)),
    )
    return boundaries


def first_group(
    barrier: npt.NDArray[np.bool_],
    uncompressed: Ints,
    rows: npt.NDArray[np.float64],
    limits: GroupLimits,
) -> int:
    """Return where the first group ends.

    If the transactions before the next barrier make two groups, they are split in the middle,
    because a small second group would cost as many commits as a large one.
    """
    bounds = groups(barrier, uncompressed, rows, limits, 2)
    most, upto = int(bounds[1]), int(bounds[-1])
    if most == upto or barrier[most] or barrier[most - 1]:
        return most
    if upto < len(barrier) and not barrier[upto]:
        return most
    size, weight = np.cumsum(uncompressed[:upto]), np.cumsum(rows[:upto])
    middle = int(np.searchsorted(size, size[-1] / 2)) + 1
    # The second group is bounded like any other; its bytes are, by the middle.
    light = int(np.searchsorted(weight, weight[-1] - limits.rows)) + 1
    return min(max(middle, light, upto - limits.transactions), most)


@jit_allocating
def _groups(
    barrier: Any, uncompressed: Any, rows: Any, most: Any, most_rows: Any, size: Any, groups: Any
) -> Any:
    n = len(barrier)
    boundaries = np.zeros(groups + 1, np.int64)
    k = 0
    count, count_rows, count_bytes = 0, 0.0, np.int64(0)
    for i in range(n):
        full = count + 1 > most
        full = full or count_rows + rows[i] > most_rows or count_bytes + uncompressed[i] > size
        if i == 0 or full or barrier[i] or barrier[i - 1]:
            if k == groups:
                break
            k += 1
            count, count_rows, count_bytes = 0, 0.0, np.int64(0)
        count += 1
        count_rows += rows[i]
        count_bytes += uncompressed[i]
        boundaries[k] = i + 1
    return boundaries[: k + 1]

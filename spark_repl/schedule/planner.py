"""Planner: where groups start and end, and which worker reads which transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..position import OFFSET_BITS, RelayPosition
from .group import WITH_ROWS, WITHOUT_ROWS, Group, Records, of_kinds
from .waves import GroupLimits, RowEstimate, assign, first_group, waves

if TYPE_CHECKING:
    from ..config import Apply


@dataclass(frozen=True)
class Batch:
    """Records [n] with their waves [n] and uncompressed ``sizes`` [n]. ``barrier`` [n]: the
    transaction gets its own group."""

    records: Records
    sizes: npt.NDArray[np.int64]
    wave: npt.NDArray[np.int32]
    barrier: npt.NDArray[np.bool_]
    warnings: list[str]


class Planner:
    """Divides batches into groups. Bounds on rows use an estimate that is corrected with earlier
    groups."""

    def __init__(self, apply: Apply) -> None:
        self._limits = GroupLimits(
            apply.group_max_transactions, apply.group_max_rows, apply.group_max_bytes
        )
        self._estimate = RowEstimate()

    def batch(self, records: Records) -> Batch:
        barrier = ~of_kinds(records["kind"], WITH_ROWS + WITHOUT_ROWS)
        wave, doubts = waves(
            records["position"] >> OFFSET_BITS,
            records["last_committed"],
            records["sequence_number"],
            barrier,
        )
        warnings = [
            f"{text} [position {RelayPosition.unpack(int(records['position'][at]))}]"
            for at, text in doubts
        ]
        return Batch(records, np.array(records["uncompressed"]), wave, barrier, warnings)

    def group(self, batch: Batch, first: int) -> Group | None:
        """Return the group that starts with transaction ``first``; None after the last one."""
        if first == len(batch.records):
            return None
        end = first + 2 * self._limits.transactions
        later = batch.barrier[first + 1 : end]
        if later.any():  # no group goes past a barrier, and there may be as many as transactions
            end = first + 2 + int(later.argmax())
        most = slice(first, end)
        barrier, sizes = batch.barrier[most], batch.sizes[most]
        rows = self._estimate.rows(sizes)
        last = first + first_group(barrier, sizes, rows, self._limits)
        group = Group.of(batch.records[first:last], batch.wave[first:last], last)
        return replace(group, in_a_row=bool(batch.barrier[first : last + 1].sum() > 1))

    def observe(self, group: Group, changes: int) -> None:
        """Correct the estimate with the actual number of row changes of a group."""
        size = group.uncompressed
        self._estimate = self._estimate.observe(size, changes)


def assign_workers(group: Group, workers: int) -> Group:
    """Return the group with a worker for each transaction; the first worker gets transactions
    without rows."""
    worker = np.zeros(len(group.records), np.int32)
    holds = of_kinds(group.columns["kind"], WITH_ROWS)
    worker[holds] = assign(group.wave[holds], group.columns["length"][holds], workers)
    return replace(group, worker=worker)

"""Which of a batch's records change anything, and when: what is left out (skip), what a copy holds,
what waits (delay_s)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from ..relay.record import Kind

if TYPE_CHECKING:
    from ..gtid import GtidSet
    from .group import Records


def left_out(records: Records, skip: GtidSet, *, statements: bool = True) -> tuple[Records, int]:
    """(the records with those of ``skip`` made empty, how many that are): they take their slots,
    and change nothing. Without ``statements`` those that are one stay: whoever applies them is to
    pass them over."""
    if not skip:
        return records, 0
    hits = skip.contains_arrays(records["uuid"], records["gno"], records["tag"])
    count = int(np.count_nonzero(hits))
    if count:
        records = records.copy()
        hits &= statements | (records["kind"] != Kind.QUERY)
        records["kind"][hits] = Kind.EMPTY
    return records, count


def copied(records: Records, held: GtidSet) -> Records:
    """The records of a log that begins before a copy: what ``held`` changed is in the copy. What
    leaves an XA branch prepared counts, and what commits one only ends it."""
    if not held:
        return records
    hits = held.contains_arrays(records["uuid"], records["gno"], records["tag"])
    if hits.any():
        records = records.copy()
        kind = records["kind"]
        kind[hits & (kind == Kind.XA_COMMIT)] = Kind.XA_ROLLBACK
        kind[hits & ~np.isin(kind, (Kind.XA_PREPARE, Kind.XA_ROLLBACK))] = Kind.EMPTY
    return records


def due_in(records: Records, delay_s: int) -> float:
    """Seconds until the last of the records was committed ``delay_s`` ago; 0 when it was."""
    if not delay_s:
        return 0.0
    return max(0.0, int(records["commit_time"][-1]) / 1e6 + delay_s - time.time())

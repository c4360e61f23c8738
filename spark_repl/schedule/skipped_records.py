"""Which records of a batch change nothing, because they are skipped or in a copy, and how long a
batch has to wait (``delay_s``)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from ..relay.record import Kind

if TYPE_CHECKING:
    from ..gtid import GtidSet
    from .group import Records


def skip_transactions(
    records: Records, skip: GtidSet, *, statements: bool = True
) -> tuple[Records, int]:
    """Return (the records, with the transactions of ``skip`` marked as empty; the number of these).

    Empty transactions keep their slots in the commit order and change nothing. With
    ``statements=False`` statements are counted but not marked as empty: the caller has to skip
    them.
    """
    if not skip:
        return records, 0
    hits = skip.contains_arrays(records["uuid"], records["gno"], records["tag"])
    count = int(np.count_nonzero(hits))
    if count:
        records = records.copy()
        hits &= statements | (records["kind"] != Kind.QUERY)
        records["kind"][hits] = Kind.EMPTY
    return records, count


def skip_copied(records: Records, executed: GtidSet) -> Records:
    """Return the records, with those of ``executed``, whose changes a copy already has, marked as
    empty.

    XA PREPARE still prepares its branch, and XA COMMIT becomes a rollback: it ends the branch
    without applying its rows.
    """
    if not executed:
        return records
    hits = executed.contains_arrays(records["uuid"], records["gno"], records["tag"])
    if hits.any():
        records = records.copy()
        kind = records["kind"]
        kind[hits & (kind == Kind.XA_COMMIT)] = Kind.XA_ROLLBACK
        kind[hits & ~np.isin(kind, (Kind.XA_PREPARE, Kind.XA_ROLLBACK))] = Kind.EMPTY
    return records


def seconds_until_due(records: Records, delay_s: int) -> float:
    """Return the seconds until the last record's commit is ``delay_s`` ago; 0 if it already is."""
    if not delay_s:
        return 0.0
    return max(0.0, int(records["commit_time"][-1]) / 1e6 + delay_s - time.time())

"""Net changes: what a run of row changes amounts to, one change per key.

A change carries three bits: EXISTED (there was a row before it), EXISTS (there is one after it) and
CERTAIN (its outcome doesn't depend on the row being there: an INSERT or a DELETE under MySQL's
replica_exec_mode=IDEMPOTENT, where an UPDATE of a missing row is ignored). The same fold works on
single changes and on the net changes of workers, as long as they come in log order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

EXISTED, EXISTS, CERTAIN = 1, 2, 4

Bits = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

MISSING_ROW, DUPLICATE_KEY = 1032, 1062


@dataclass(frozen=True, slots=True)
class Net:
    """One entry per key that is left with something to do.

    ``entry``: which input entry holds the surviving image; ``flags``: the net bits; ``first``: the
    input entry that met the key first; ``count``: rows to add (> 0) or take away (< 0), for tables
    without a key (else 1). ``breaks``: (entry, MySQL error number) where the log contradicts itself.
    """

    entry: Longs
    flags: Bits
    first: Longs
    count: Longs
    breaks: list[tuple[int, int]]


def certain(flags: Bits) -> Bits:
    """Adds the CERTAIN bit to single changes: INSERT and DELETE have it, UPDATE has not."""
    out = flags.copy()
    out[flags != EXISTED | EXISTS] |= CERTAIN
    return out


def codes(key: pa.Array) -> tuple[npt.NDArray[np.int32], int]:
    """Numbers 0..n-1 for the distinct keys, equal only for equal bytes (no hash is trusted)."""
    encoded = pc.dictionary_encode(key)
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32), len(encoded.dictionary)


def fold(key: pa.Array, flags: Bits) -> Net:
    """Net change per key, of entries in log order. Pure; shapes: ``key`` and ``flags`` are [n]."""
    code, distinct = codes(key)
    entry, net, first, broken = _fold(code, flags, distinct)
    keep = np.flatnonzero(net & (EXISTED | EXISTS | CERTAIN) != 0)
    breaks = [
        (int(at), DUPLICATE_KEY if not flags[at] & EXISTED else MISSING_ROW)
        for at in broken[broken >= 0]
    ]
    return Net(entry[keep], net[keep], first[keep], np.ones(len(keep), np.int64), breaks)


def fold_bag(image: pa.Array, count: Longs) -> Net:
    """Net count per image of a table without a key: ``count`` is +1 for a row added, -1 for one gone."""
    code, distinct = codes(image)
    total = np.zeros(distinct, np.int64)
    np.add.at(total, code, count)
    first = np.full(distinct, len(code), np.int64)
    np.minimum.at(first, code, np.arange(len(code)))
    keep = np.flatnonzero(total)
    flags = np.where(total[keep] > 0, EXISTS, EXISTED).astype(np.uint8)
    return Net(first[keep], flags, first[keep], total[keep], [])


@njit(cache=True, nogil=True)
def _fold(code: Any, flags: Any, distinct: int) -> Any:
    entry = np.full(distinct, -1, np.int64)
    first = np.full(distinct, -1, np.int64)
    net = np.zeros(distinct, np.uint8)
    broken = np.full(distinct, -1, np.int64)
    for i in range(code.size):
        k = code[i]
        now = flags[i]
        if entry[k] < 0:
            entry[k] = i
            first[k] = i
            net[k] = now
            continue
        was = net[k]
        if ((was >> 1) & 1) != (now & 1) and broken[k] < 0:
            broken[k] = i
        if not now & 4 and now & 2 and was & 4 and not was & 2:
            continue  # an UPDATE of a row that is surely gone: ignored in idempotent mode
        entry[k] = i
        net[k] = (was & 1) | (now & 2) | ((was | now) & 4)
    # A key that neither existed before nor exists after leaves nothing to do, but for a delete
    # that must remove whatever is there (CERTAIN), which only the sink can tell.
    return entry, net, first, broken

"""Net changes: the result of a run of row changes, one change per key.

A change carries three bits. EXISTED: there was a row before it. EXISTS: there is one after it.
CERTAIN: its outcome does not depend on whether the row exists, as for an INSERT or a DELETE under
MySQL's replica_exec_mode=IDEMPOTENT, where an UPDATE of a missing row is ignored.

Workers hold runs of successive waves, so one worker's changes of a key may be between another's. A
worker therefore hands on, per key, its last image and the whole chain of its (position, flags). The
fold runs once, over all chains of a key in log order. The last change of all is the last of its
worker, so the image that survives is always one that was decoded.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..binlog.kernels.jit import jit_allocating
from ..binlog.kernels.key_numbers import number_values
from ..binlog.rows.change_bits import CERTAIN, EXISTED, EXISTS

CHANGE_BITS = EXISTED | EXISTS | CERTAIN


@dataclass(frozen=True)
class EveryTable:
    """A container of every table's name, for exec_mode = idempotent.

    ``copied``: tables that would be idempotent in any mode because they catch up with their copy: a
    change may concern a row that the copy does not have yet.
    """

    copied: Container[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return True


@dataclass(frozen=True)
class SomeTables:
    """A container of the names of tables that are idempotent although exec_mode is strict.

    ``copied``: as in ``EveryTable``. ``without_history``: tables that permanently lack the rows
    from before their copy.
    """

    copied: Container[str]
    without_history: frozenset[str]

    @classmethod
    def of(cls, copied: Container[str], without_history: frozenset[str]) -> Container[str]:
        """Return the container, which is ``copied`` itself if no table is without history."""
        return cls(copied, without_history) if without_history else copied

    def __contains__(self, name: object) -> bool:
        return name in self.without_history or name in self.copied


Bits = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
_Rows = TypeVar("_Rows", pa.Array, pa.Table)

MISSING_ROW, DUPLICATE_KEY = 1032, 1062


@dataclass(frozen=True, slots=True)
class Net:
    """The net changes of the keys for which something remains to do.

    ``entry``: the change whose image survives. ``flags``: the net bits. ``count``: rows to add (>
    0) or remove (< 0) in a table without a key, else 1. ``first``: the key's first change.
    ``breaks``: (change, MySQL's error number) where the log contradicts itself.
    """

    entry: Longs
    flags: Bits
    count: Longs
    first: Longs
    breaks: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Chains:
    """Changes by key, in log order within a key: key i has ``order[edges[i]:edges[i+1]]``."""

    order: Longs
    edges: Longs

    @property
    def last(self) -> Longs:
        return self.order[self.edges[1:] - 1]

    def of(self, keys: Longs) -> tuple[Longs, Longs]:
        """Return (order, edges) of some keys, in their order."""
        begin, size = self.edges[keys], self.edges[keys + 1] - self.edges[keys]
        edges = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(size, out=edges[1:])
        return self.order[np.repeat(begin - edges[:-1], size) + np.arange(edges[-1])], edges


def chains(key: pa.Array) -> Chains:
    return Chains(*_chains(*number_values(key)))


def certain(flags: Bits) -> Bits:
    """Return the flags with CERTAIN added to single INSERTs and DELETEs, but not to UPDATEs."""
    out = flags.copy()
    out[flags != (EXISTED | EXISTS)] |= CERTAIN
    return out


def fold(code: npt.NDArray[np.int32], distinct: int, flags: Bits, *, soft: bool = False) -> Net:
    """Return the net change of each key code. ``code`` and ``flags`` are [n], for changes in log
    order.

    ``soft``: deleted rows stay, with a mark. Each key then keeps a row: EXISTED means that a row
    exists that is not deleted, CERTAIN that any existing row is replaced.
    """
    entry, net, first, broken = (
        _soft_fold(code, flags, distinct) if soft else _fold(code, flags, distinct)
    )
    keep = np.flatnonzero(net)
    breaks = [
        (int(at), MISSING_ROW if flags[at] & EXISTED else DUPLICATE_KEY)
        for at in broken[broken > 0]
    ]
    return Net(entry[keep], net[keep], np.ones(len(keep), np.int64), first[keep], breaks)


def take_rows(rows: _Rows, at: Longs) -> _Rows:
    """Return ``rows.take(at)``, without a copy if ``at`` are all rows in their order."""
    if len(at) == len(rows) and np.array_equal(at, np.arange(len(at))):
        return rows
    return cast("_Rows", rows.take(pa.array(at)))


def fold_bag(code: npt.NDArray[np.int32], distinct: int, count: Longs) -> Net:
    """Return the net count per image of a table without a key: +1 per row added, -1 per row
    removed."""
    total = np.zeros(distinct, np.int64)
    np.add.at(total, code, count)
    first = np.full(distinct, len(code), np.int64)
    np.minimum.at(first, code, np.arange(len(code)))
    keep = np.flatnonzero(total)
    flags = np.where(total[keep] > 0, EXISTS, EXISTED).astype(np.uint8)
    return Net(first[keep], flags, total[keep], first[keep], [])


@jit_allocating
def _chains(code: Any, distinct: int) -> Any:
    """Return (order, edges): a counting sort, which keeps the order of equal codes."""
    edges = np.zeros(distinct + 1, np.int64)
    for k in code:
        edges[k + 1] += 1
    for k in range(distinct):
        edges[k + 1] += edges[k]
    place, order = edges[:-1].copy(), np.empty(code.size, np.int64)
    for i in range(code.size):
        order[place[code[i]]] = i
        place[code[i]] += 1
    return order, edges


@jit_allocating
def _fold(code: Any, flags: Any, distinct: int) -> Any:
    entry = np.full(distinct, -1, np.int64)
    first = np.full(distinct, -1, np.int64)
    net = np.zeros(distinct, np.uint8)
    broken = np.zeros(distinct, np.int64)  # 0: never, as no key's first change is
    for i in range(code.size):
        k = code[i]
        bits = flags[i]
        if entry[k] < 0:
            entry[k] = i
            first[k] = i
            net[k] = bits
            continue
        before = net[k]
        if (before & EXISTS != 0) != (bits & EXISTED != 0) and not broken[k]:
            broken[k] = i
        if not bits & CERTAIN and before & CERTAIN and not before & EXISTS:
            continue  # an UPDATE of a row that is surely gone: ignored in idempotent mode
        entry[k] = i
        net[k] = (before & EXISTED) | (bits & EXISTS) | ((before | bits) & CERTAIN)
    # No bits left: inserted and deleted again. Only CERTAIN: remove the row if it exists.
    return entry, net, first, broken


@jit_allocating
def _soft_fold(code: Any, flags: Any, distinct: int) -> Any:
    entry = np.full(distinct, -1, np.int64)
    first = np.full(distinct, -1, np.int64)
    net = np.zeros(distinct, np.uint8)
    came = np.zeros(distinct, np.uint8)  # CERTAIN, where a row surely came
    broken = np.zeros(distinct, np.int64)  # 0: never, as no key's first change is
    for i in range(code.size):
        k = code[i]
        bits = flags[i]
        if entry[k] < 0:
            first[k] = i
            net[k] = bits & EXISTED
        else:
            before = net[k]
            if (before & EXISTS != 0) != (bits & EXISTED != 0) and not broken[k]:
                broken[k] = i
            if bits & EXISTED and before & CERTAIN and not before & EXISTS:
                continue  # surely gone: an UPDATE or DELETE is ignored in idempotent mode
        entry[k] = i
        net[k] = (net[k] & (EXISTED | CERTAIN)) | (bits & (EXISTS | CERTAIN))
        if bits & EXISTS and bits & CERTAIN:
            came[k] = CERTAIN
    for k in range(distinct):
        if entry[k] >= 0:
            net[k] = EXISTS | (net[k] & EXISTED) | came[k]
    return entry, net, first, broken

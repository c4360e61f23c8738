"""The source of each column of a row when images lack columns (MINIMAL, NOBLOB, JSON diffs).

A change's row is its image, over the row that the change met. That is one of:

- an earlier change of the same key,
- the row of the old key when an UPDATE changes it,
- the target's row before the group,
- the columns' defaults (an INSERT).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..binlog.kernels.jit import jit_allocating
from ..binlog.rows.change_bits import CERTAIN, EXISTED, EXISTS, MOVED

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TARGET, DEFAULT, LOST = -1, -2, -3
"""Instead of a change: the target's row, the default, an image that was folded away."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of each of n changes in log order; both fields are int64[n].

    ``previous``: the change on which it builds (or TARGET, DEFAULT). ``root``: the first change of
    its row, whose key is the row's key in the target.
    """

    previous: Longs
    root: Longs


def lineage(code: npt.NDArray[np.int32], distinct: int, flags: npt.NDArray[np.uint8]) -> Lineage:
    """Return the lineage of changes. ``code``: the key of each change; ``flags``: EXISTED, EXISTS,
    CERTAIN, MOVED."""
    return Lineage(*_lineage(code, distinct, flags))


def sources(line: Lineage, holds: Bools, image: Bools) -> Longs:
    """Return the change whose image has a column's value after each change; or TARGET, DEFAULT,
    LOST.

    ``holds``: whether the change's image has the column. ``image``: whether the image was kept at
    all.
    """
    origin: Longs = _sources(line.previous, holds, image)
    return origin


@jit_allocating
def along(previous: Any, marked: Any) -> Any:
    """Return how many of ``marked`` are on the path from each change to its row's root:
    int64[n]."""
    total = marked.astype(np.int64)
    for i in range(total.size):
        if previous[i] >= 0:
            total[i] += total[previous[i]]
    return total


@jit_allocating
def _lineage(code: Any, distinct: int, flags: Any) -> Any:
    previous = np.empty(code.size, np.int64)
    root = np.empty(code.size, np.int64)
    last = np.full(distinct, TARGET, np.int64)
    net = np.zeros(distinct, np.uint8)
    for i in range(code.size):
        k, bits = code[i], flags[i]
        before = net[k]
        if bits & MOVED:
            previous[i] = i - 1
        elif bits & (EXISTED | EXISTS) == EXISTS:
            previous[i] = DEFAULT
        else:
            previous[i] = last[k]
        root[i] = root[previous[i]] if previous[i] >= 0 else i
        if not bits & CERTAIN and before & CERTAIN and not before & EXISTS:
            continue  # an UPDATE of a row that is surely gone, as ``folding.fold`` has it
        last[k] = i
        net[k] = (bits & EXISTS) | ((before | bits) & CERTAIN)
    return previous, root


@jit_allocating
def _sources(previous: Any, holds: Any, image: Any) -> Any:
    out = np.empty(previous.size, np.int64)
    for i in range(previous.size):
        if not image[i]:
            out[i] = LOST
        elif holds[i]:
            out[i] = i
        elif previous[i] >= 0:
            out[i] = out[previous[i]]
        else:
            out[i] = previous[i]
    return out

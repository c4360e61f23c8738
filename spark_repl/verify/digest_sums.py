"""Digests of the source's ranges compared with digests of a target's files.

Each pass compares a share of the keys, so that memory does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..delta.files.digests import Digests, mix

Keys = npt.NDArray[np.uint64]
Live = tuple[str, Digests, npt.NDArray[np.int64]]

_SHARE_ROWS = 4 << 20


@dataclass(frozen=True)
class Sums:
    """The number of rows of each key, and the sum of their digests (or of other numbers)."""

    count: npt.NDArray[np.int64]
    total: npt.NDArray[np.uint64]

    def same(self, other: Sums) -> npt.NDArray[np.bool_]:
        return np.asarray((self.count == other.count) & (self.total == other.total))

    def take(self, which: npt.NDArray[np.bool_]) -> Sums:
        return Sums(self.count[which], self.total[which])

    def plus(self, other: Sums) -> Sums:
        return Sums(self.count + other.count, self.total + other.total)


def sums(keys: Keys, of: Keys, numbers: Keys) -> Sums:
    """Return for each of ``keys`` (sorted) the count and sum of ``numbers``. There is one number
    for each row; ``of`` has the rows' keys."""
    count, total = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.uint64)
    if len(keys) and len(of):
        at = np.minimum(np.searchsorted(keys, of), len(keys) - 1)
        present = keys[at] == of
        np.add.at(count, at[present], 1)
        np.add.at(total, at[present], numbers[present])
    return Sums(count, total)


def differing(ranges: Sequence[Digests], files: Iterable[Live]) -> Keys:
    """Return the keys, sorted, whose rows differ between the two sides. ``ranges``: the source's,
    each sorted by key."""
    parts = list(files)
    width = _width(sum(part.shape[1] for part in ranges) + sum(len(a) for _, _, a in parts))
    keys = [np.zeros(0, np.uint64)]
    for share in range(1 << width):
        left = [_between(part, share, width) for part in ranges]
        right = [_share(digested, alive, share, width) for _, digested, alive in parts]
        keys.append(_differing(_joined(left), _joined(right)))
    return np.unique(np.concatenate(keys))


def common_keys(left: Iterable[Live], right: Iterable[Live]) -> Keys:
    """Return the keys, sorted, for which both sides have live rows."""
    sides = [*left], [*right]
    width = _width(sum(len(alive) for side in sides for _, _, alive in side))
    keys = [np.zeros(0, np.uint64)]
    for share in range(1 << width):
        joined = (_joined([_share(m, a, share, width) for _, m, a in side]) for side in sides)
        keys.append(np.intersect1d(*(rows[0] for rows in joined)))
    return np.unique(np.concatenate(keys))


def _width(rows: int) -> int:
    """Return the number of leading bits of a key that number its share, for ``rows`` rows."""
    return max(0, (rows // _SHARE_ROWS).bit_length())


def _between(part: Digests, share: int, width: int) -> Digests:
    if not width:
        return part
    edges = np.array([share << (64 - width), ((share + 1) << (64 - width)) - 1], np.uint64)
    first = np.searchsorted(part[0], edges[0], "left")
    return part[:, first : np.searchsorted(part[0], edges[1], "right")]


def _share(digested: Digests, alive: npt.NDArray[np.int64], share: int, width: int) -> Digests:
    if len(alive) < digested.shape[1]:
        digested = digested[:, alive]
    if not width:
        return digested
    return digested[:, (digested[0] >> np.uint64(64 - width)) == np.uint64(share)]


def _joined(parts: Sequence[Digests]) -> Digests:
    return np.concatenate([np.zeros((2, 0), np.uint64), *parts], axis=1)


def _sums_of(rows: Keys) -> tuple[int, int, int]:
    """Return three sums of digests, independent of their order; one is bitwise. Different rows have
    equal sums with a probability below 1 in 2^128. Costs a third of the time of sorting both
    sides."""
    return int(rows.sum()), int(mix(rows).sum()), int(np.bitwise_xor.reduce(rows))


def _differing(left: Digests, right: Digests) -> Keys:
    if left.shape == right.shape and _sums_of(left[1]) == _sums_of(right[1]):
        return np.zeros(0, np.uint64)
    both = np.concatenate([left, right], axis=1)
    side = np.ones(both.shape[1], np.int64)
    side[left.shape[1] :] = -1
    _, digest_of = np.unique(both[1], return_inverse=True)
    balance = np.bincount(digest_of, side)
    return np.unique(both[0][balance[digest_of] != 0])

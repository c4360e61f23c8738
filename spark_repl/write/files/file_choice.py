"""Choice of the data files that a compaction folds into one.

Arrow and NumPy read the files: a loop of Python over a million of them would stop the threads that
apply groups for seconds.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...delta.files.statistics import footer_row_count, record_counts
from ...delta.store.storage import data_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...delta.log.add_actions import AddActions

Longs = npt.NDArray[np.int64]

_FULL_ROWS, _FULL_BYTES = 2_000_000, 128 << 20
_REWRITTEN_PER_DEAD = 16
"""live rows that are rewritten at rest for each deleted row, at most"""


class _Sizes(NamedTuple):
    """Sizes of the files of a partition, ascending by live rows: ``paths`` [files], and for each
    file its live rows, dead rows and bytes."""

    paths: pa.Array
    live: Longs
    dead: Longs
    bytes: Longs

    def between(self, begin: int, end: int) -> _Sizes:
        return _Sizes(*(column[begin:end] for column in self))


def choose_files(folder: str, files: AddActions, enough: int) -> list[list[str]]:
    """Return the paths of files to merge into one, for each partition that has some.

    The first choice is ``enough`` files of one order of magnitude, so that each row is rewritten
    once per order. Fewer files are enough if they fill half of a full file and one more would
    exceed it. Otherwise, if the partition has more deleted rows than live ones, choose the files
    with most deleted rows. Raise OSError if the footer of a file without statistics can't be read.
    """
    return _chosen(folder, files, partial(_choose, enough=enough))


def choose_at_rest(folder: str, files: AddActions) -> list[list[str]]:
    """Return the paths of files to merge into one, for each partition that has some, of a table
    that groups no longer change.

    Files with deleted rows are chosen, those with the largest share of them first. There are at
    most as many as make a full file, with at most ``_REWRITTEN_PER_DEAD`` live rows for each
    deleted one. Raise OSError as ``choose_files`` does.
    """
    return _chosen(folder, files, _with_dead_rows)


def _chosen(
    folder: str, files: AddActions, choose: Callable[[_Sizes], list[str]]
) -> list[list[str]]:
    if not files:
        return []
    rows = files.sizes()
    dead = rows["deleted"].to_numpy()
    columns = {
        "partition": _partitions(rows["partitionValues"].combine_chunks()),
        "live": _row_counts(folder, rows) - dead,
        "path": rows["path"],
        "dead": dead,
        "bytes": rows["size"],
    }
    keys = ("partition", "live", "path")
    ordered = pa.table(columns).sort_by([(key, "ascending") for key in keys])
    numbers = (ordered[name].to_numpy() for name in ("live", "dead", "bytes"))
    sizes = _Sizes(ordered["path"], *numbers)
    begins = np.flatnonzero(np.diff(ordered["partition"].to_numpy(), prepend=-1))
    bounds = pairwise([*begins.tolist(), len(rows)])
    return list(filter(None, (choose(sizes.between(*bound)) for bound in bounds)))


def _row_counts(folder: str, rows: pa.Table) -> Longs:
    """Return the number of all rows of each file, also deleted ones. Raise OSError."""
    counts = record_counts(rows["stats"])
    unknown = counts.is_null()
    files = rows.select(["path", "size"]).filter(unknown).to_pylist()
    read = [_footer_rows(data_file(folder, file["path"]), file["size"]) for file in files]
    return np.asarray(pc.replace_with_mask(counts, unknown, pa.array(read, pa.int64())))


@lru_cache(maxsize=1 << 18)
def _footer_rows(path: str, size: int) -> int:
    """Return the number of rows of a file for which another writer left out statistics. Each upkeep
    of the table needs it again. ``size``, in bytes, tells apart files that had one path."""
    return footer_row_count(path)


def _partitions(values: pa.MapArray) -> Longs:
    """Return the number of each file's partition, ascending by the partitions' first files.

    Spark also writes NULL as an empty text, and writers order the values differently.
    """
    offsets = values.offsets.to_numpy().astype(np.int64)
    names, texts = (part[offsets[0] : offsets[-1]] for part in (values.keys, values.items))
    codes = _ranks(_codes(names) * (len(texts) + 1) + _codes(texts))
    files = np.repeat(np.arange(len(values)), np.diff(offsets))
    codes = codes[np.lexsort((codes, files))]
    places = np.arange(len(codes)) - (offsets[:-1] - offsets[0])[files]
    partitions = np.zeros(len(values), np.int64)
    for place in range(int(places.max(initial=-1)) + 1):  # one value of each file
        code = np.zeros(len(values), np.int64)
        code[files[places == place]] = codes[places == place] + 1
        partitions = _ranks(partitions * (len(codes) + 2) + code)
    _, first, partitions = np.unique(partitions, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[partitions])


def _codes(texts: pa.Array) -> Longs:
    """Return a number for each text; NULL has that of the empty text."""
    indices = pc.fill_null(texts, "").dictionary_encode().indices
    return np.asarray(indices.to_numpy().astype(np.int64))


def _ranks(numbers: Longs) -> Longs:
    return np.asarray(np.unique(numbers, return_inverse=True)[1], np.int64)


class _Tier:
    """Files to be folded into one, by their places in ``sizes``, and their total size."""

    def __init__(self, sizes: _Sizes, *places: int) -> None:
        self._sizes, self.places, self.live, self.bytes = sizes, list[int](), 0, 0
        for place in places:
            self.add(place)

    def takes(self, live: int, size: int) -> bool:
        """Return whether the total with so many more rows and bytes is at most a full file."""
        return self.live + live <= _FULL_ROWS and self.bytes + size <= _FULL_BYTES

    def add(self, place: int) -> None:
        self.places.append(place)
        self.live += int(self._sizes.live[place])
        self.bytes += int(self._sizes.bytes[place])

    @property
    def is_half_full(self) -> bool:
        return 2 * self.live >= _FULL_ROWS or 2 * self.bytes >= _FULL_BYTES

    @property
    def paths(self) -> list[str]:
        paths: list[str] = self._sizes.paths.take(self.places).to_pylist()
        return paths


def _choose(sizes: _Sizes, enough: int) -> list[str]:
    least = np.minimum.accumulate(sizes.bytes[::-1])[::-1]
    """bytes of the smallest file from each place on"""
    pairs_exceed = (2 * least > _FULL_BYTES) | (2 * sizes.live > _FULL_ROWS)
    """whether any two of the files from a place on exceed a full file"""
    # The smallest files come first. A tier ends at the first file that outweighs it.
    tier = _Tier(sizes)
    for place in range(len(sizes.live)):
        live, size = int(sizes.live[place]), int(sizes.bytes[place])
        is_last = pairs_exceed[place] and len(tier.places) <= 1 < enough
        if is_last and not (tier.places and tier.takes(live, int(least[place]))):
            break  # no tier gets two files any more
        if live > tier.live:
            if len(tier.places) >= enough:
                break
            tier = _Tier(sizes)
        if tier.takes(live, size):
            tier.add(place)
        elif len(tier.places) > 1 and tier.is_half_full:
            return tier.paths
        elif len(tier.places) == 1:  # at least one of the two is half full
            smaller = min(tier.places[0], place, key=lambda place: int(sizes.bytes[place]))
            tier = _Tier(sizes, smaller)
    return tier.paths if len(tier.places) >= enough else _mostly_dead(sizes)


def _mostly_dead(sizes: _Sizes) -> list[str]:
    """Return the files that have most dead rows, if the partition has more of them than live
    ones."""
    if sizes.dead.sum() <= sizes.live.sum():
        return []
    worst = _Tier(sizes)
    for place in np.argsort(sizes.live - sizes.dead, kind="stable").tolist():
        live, size = int(sizes.live[place]), int(sizes.bytes[place])
        if sizes.dead[place] < live or (worst.places and not worst.takes(live, size)):
            break
        worst.add(place)
    return worst.paths


def _with_dead_rows(sizes: _Sizes) -> list[str]:
    """Return files that have dead rows, as ``choose_at_rest`` describes."""
    tier, dead, places = _Tier(sizes), 0, np.flatnonzero(sizes.dead)
    shares = sizes.live[places] / sizes.dead[places]
    for place in places[np.argsort(shares, kind="stable")].tolist():
        live, size = int(sizes.live[place]), int(sizes.bytes[place])
        if not tier.takes(live, size):
            continue
        dead += int(sizes.dead[place])
        if tier.live + live > _REWRITTEN_PER_DEAD * dead:
            break
        tier.add(place)
    return tier.paths if tier.places else []

"""The choice of files to compact, from Arrow columns: the same as that of a loop over the files'
actions, which is slow and plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_repl.delta.files.statistics import row_count
from spark_repl.delta.log.add_actions import AddActions
from spark_repl.delta.log.file_rows import ADD, to_rows
from spark_repl.write.files.file_choice import choose_files

Action = dict[str, Any]
_FULL_ROWS, _FULL_BYTES = 2_000_000, 128 << 20

ROWS = st.one_of(st.integers(0, 40), st.sampled_from([999_999, 10**6, 10**6 + 1, 3 * 10**6]))
BEGINS = st.sampled_from(["", "é", "Z", "\U0001f600"])
MIB = st.sampled_from([0, 0, 1, 9, 50, 60, 64, 64, 65, 120, 200])
VALUES = st.sampled_from(
    [
        None,
        {},
        {"a": "1", "b": None},
        {"b": "", "a": "1"},
        {"a": None, "b": "1"},
        {"a": "1"},
        {"b": "1"},
    ]
)
STATS = st.sampled_from(
    [
        '{"numRecords":%d}',
        ' { "numRecords" : %d , "minValues":{"numRecords":7}}',
        '{"minValues":{"numRecords":7},"numRecords":%d}',
        '{"minValues":{"t":"\\"numRecords\\":3"},"numRecords": %d}',
        '{"numRecords":%d.0}',
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Action]:
    """The files of a table, mostly of one size in bytes, or of few."""
    values = draw(st.sampled_from([st.just({}), VALUES]))
    files = dict[str, Action]()
    for number in range(draw(st.integers(0, 24))):
        path, rows = f"{draw(BEGINS)}{number}", draw(ROWS)
        dead = draw(st.integers(0, rows)) if draw(st.booleans()) else 0
        files[path] = {
            "path": path,
            "partitionValues": draw(values),
            "size": (draw(MIB) << 20) + draw(st.integers(0, 1)),
            "stats": draw(STATS) % rows,
            **({"deletionVector": {"cardinality": dead}} if dead else {}),
        }
    return files


@pytest.mark.slow
@settings(max_examples=500)
@given(tables(), st.integers(1, 9), st.booleans())
def test_the_choice_from_columns_is_that_from_actions(
    files: dict[str, Action], enough: int, stored: bool
) -> None:
    """Whether the log has the files in a checkpoint, or in commits after it."""
    adds = AddActions(None, files)
    if stored:
        adds = AddActions(to_rows(files.values(), ADD).sort_by("path"), {})
        files = dict(sorted(files.items()))
    assert choose_files("", adds, enough) == expected_choice("", files, enough)


@dataclass(frozen=True)
class Size:
    path: str
    live: int
    dead: int
    bytes: int


def expected_choice(folder: str, files: Mapping[str, Action], enough: int) -> list[list[str]]:
    """Return the paths to fold into one file, for each partition that has some.

    The first choice is ``enough`` files of one order of magnitude, so that each row is rewritten
    once per order. Fewer files are enough if they fill half of a full file and one more would
    exceed it. Otherwise, if the partition has more dead rows than live ones, choose the files with
    most dead rows.
    """
    partitions: dict[tuple[Any, ...], list[Action]] = {}
    for add in files.values():
        values = (add.get("partitionValues") or {}).items()
        # Spark also writes NULL as an empty text, and writers order the values differently.
        partitions.setdefault(tuple(sorted((k, v or "") for k, v in values)), []).append(add)
    sizes = ([size_of(folder, add) for add in adds] for adds in partitions.values())
    return list(filter(None, (choose(partition, enough) for partition in sizes)))


class Tier:
    """Files to be folded into one, and their total size."""

    def __init__(self, *files: Size) -> None:
        self.files = list(files)
        self.live, self.bytes = sum(f.live for f in files), sum(f.bytes for f in files)

    def takes(self, size: Size) -> bool:
        """Return whether the total with this file is at most a full file."""
        return self.live + size.live <= _FULL_ROWS and self.bytes + size.bytes <= _FULL_BYTES

    def add(self, size: Size) -> None:
        self.files.append(size)
        self.live, self.bytes = self.live + size.live, self.bytes + size.bytes

    @property
    def is_half_full(self) -> bool:
        return 2 * self.live >= _FULL_ROWS or 2 * self.bytes >= _FULL_BYTES

    @property
    def paths(self) -> list[str]:
        return [size.path for size in self.files]


def choose(files: Sequence[Size], enough: int) -> list[str]:
    sizes = sorted(files, key=lambda size: (size.live, size.path))
    # The smallest files come first. A tier ends at the first file that outweighs it.
    tier = Tier()
    for size in sizes:
        if size.live > tier.live:
            if len(tier.files) >= enough:
                break
            tier = Tier()
        if tier.takes(size):
            tier.add(size)
        elif len(tier.files) > 1 and tier.is_half_full:
            return tier.paths
        elif len(tier.files) == 1:  # at least one of the two is half full
            tier = Tier(min(tier.files[0], size, key=lambda size: size.bytes))
    if len(tier.files) >= enough:
        return tier.paths
    if sum(size.dead for size in sizes) <= sum(size.live for size in sizes):
        return []
    # No tier is due, but dead rows prevail: rewrite the files that have most of them.
    worst = Tier()
    for size in sorted(sizes, key=lambda size: size.live - size.dead):
        if size.dead < size.live or (worst.files and not worst.takes(size)):
            break
        worst.add(size)
    return worst.paths


def size_of(folder: str, add: Action) -> Size:
    rows = row_count(folder, add)
    dead = int((add.get("deletionVector") or {}).get("cardinality", 0))
    return Size(add["path"], rows - dead, dead, int(add["size"]))

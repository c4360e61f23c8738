"""GivenPaths: every path that was ever given to a table of a channel, and of those beside it.

A path is given once, also when its table was removed and its rows are forgotten: an applier that
chose the folder for removal, and slept, may remove it at any time. Of forgotten paths the control
table keeps one row, with the highest number of each: ``t/a`` is 1, ``t/a@7`` is 7. The shards of a
Delta table are counted too: ``t/a//7`` is 7 of ``t/a//``.

The row is bounded, whatever names come: of more than ``MOST`` paths without numbers it keeps those
with the highest numbers, and ``below``, the highest number of the others. Invariant: a path with a
number up to ``below`` counts as given, whether it was or not, so that none is given twice. A new
table of another name begins behind it, at ``t/b@2`` for example.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...config.renaming import SHARD, is_shared, numbered, whole_of

if TYPE_CHECKING:
    from .control_snapshot import HeldRows

KIND = "given"
MOST = 1000
"""paths without their numbers whose highest numbers are kept each"""


@dataclass(frozen=True)
class Forgotten:
    """The highest numbers of forgotten paths: of ``paths`` without their numbers; ``below`` of all
    others."""

    paths: Mapping[str, int] = field(default_factory=dict)
    below: int = 0

    @classmethod
    def of_detail(cls, detail: str) -> Forgotten:
        """Read a row's detail. Rows of before have no ``below``."""
        fields = json.loads(detail)
        return cls(fields["paths"], fields.get("below", 0))

    def to_detail(self) -> str:
        return json.dumps({"paths": self.paths, **({"below": self.below} if self.below else {})})

    def highest(self, first: str) -> int:
        """Return the highest number that may have been given; ``first``: without the number."""
        return max(self.paths.get(first, 0), self.below)

    def with_paths(self, gone: Iterable[str]) -> Forgotten:
        """Return what is known when the paths ``gone`` are forgotten too."""
        highest = dict(self.paths)
        for first, number in map(_counted, _with_wholes(gone)):
            highest[first] = max(number, highest.get(first, 0))
        if len(highest) <= MOST:
            return Forgotten(highest, self.below)
        by_number = sorted(highest, key=lambda first: (highest[first], first))
        others, kept = by_number[: -MOST // 2], by_number[-MOST // 2 :]
        below = max(self.below, *(highest[first] for first in others))
        return Forgotten({first: highest[first] for first in kept if highest[first] > below}, below)


@dataclass
class GivenPaths:
    """A container of paths. ``known``: those of tables that have rows, and of the Delta tables that
    they are in; ``beside``: returns the paths of other channels."""

    known: set[str] = field(default_factory=set)
    forgotten: Forgotten = field(default_factory=Forgotten)
    beside: Callable[[], GivenPaths] | None = None

    @classmethod
    def of(
        cls, held: HeldRows, used: Iterable[str], beside: Callable[[], GivenPaths] | None = None
    ) -> GivenPaths:
        """Return the paths that the control table records as given. ``used``: the paths of its
        tables and copies."""
        return cls(_with_wholes(used), forgotten(held), beside)

    @classmethod
    def union(cls, several: Iterable[GivenPaths]) -> GivenPaths:
        """Return what was given in any of several channels."""
        all_of, paths, below = cls(), dict[str, int](), 0
        for one in several:
            all_of.known |= one.known
            below = max(below, one.forgotten.below)
            for first, number in one.forgotten.paths.items():
                paths[first] = max(number, paths.get(first, 0))
        all_of.forgotten = Forgotten(paths, below)
        return all_of

    def __contains__(self, path: object) -> bool:
        first, number = _counted(str(path))
        if path in self.known or number <= self.forgotten.highest(first):
            return True
        # Shards of a table that several channels feed are each channel's own.
        return self.beside is not None and not is_shared(str(path)) and path in self.beside()

    def highest(self, first: str) -> int:
        """Return the number up to which all paths are given and forgotten that are ``first``
        without their number; 0: none."""
        others = self.beside().highest(first) if self.beside else 0
        return max(others, self.forgotten.highest(first))

    def add(self, path: str) -> None:
        self.known |= _with_wholes([path])

    def add_all(self, other: GivenPaths) -> None:
        """Take over what another reading of the control table has."""
        self.known |= other.known
        self.forgotten = other.forgotten


def forgotten(held: HeldRows) -> Forgotten:
    """Return the forgotten paths that the control table records."""
    rows = held.rows(KIND)
    return Forgotten.of_detail(rows[-1]["detail"]) if rows else Forgotten()


def _counted(path: str) -> tuple[str, int]:
    """Return the path without its number, and the number: of a shard that in its Delta table."""
    whole, shard, number = path.partition(SHARD)
    return (whole + shard, int(number)) if number.isdecimal() else numbered(path)


def _with_wholes(paths: Iterable[str]) -> set[str]:
    return {each for path in paths for each in (path, whole_of(path))}

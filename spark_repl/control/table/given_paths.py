"""GivenPaths: every path that was ever given to a table of a channel, or of the other channels.

A path is given once, even after its table was removed and its rows were pruned. An applier that
chose the folder for removal, and then slept, may remove it at any time. Of pruned paths the control
table keeps one row, with the highest number of each: ``t/a`` is 1, ``t/a@7`` is 7. The shards of a
Delta table are counted also: ``t/a//7`` is 7 of ``t/a//``.

The row is bounded for any names: of more than ``MOST`` paths without numbers it keeps those with
the highest numbers, and ``below``, the highest number of the others. Invariant: a path with a
number up to ``below`` counts as given, whether it was or not, so that no path is given twice. A new
table of another name then begins after it, at ``t/b@2`` for example.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...config.renaming import SHARD, is_shared, numbered, whole_of

if TYPE_CHECKING:
    from .control_snapshot import ControlSnapshot

KIND = "given"
MOST = 1000
"""paths without their numbers whose highest numbers are each kept"""


@dataclass(frozen=True)
class Forgotten:
    """The highest numbers of pruned paths: ``paths`` by the path without its number; ``below`` for
    all other paths."""

    paths: Mapping[str, int] = field(default_factory=dict)
    below: int = 0

    @classmethod
    def of_detail(cls, detail: str) -> Forgotten:
        """Return what a row's detail records. Rows of earlier versions have no ``below``."""
        fields = json.loads(detail)
        return cls(fields["paths"], fields.get("below", 0))

    def to_detail(self) -> str:
        return json.dumps({"paths": self.paths, **({"below": self.below} if self.below else {})})

    def highest(self, first: str) -> int:
        """Return the highest number with which the path ``first``, which has no number, may have
        been used."""
        return max(self.paths.get(first, 0), self.below)

    def with_paths(self, gone: Iterable[str]) -> Forgotten:
        """Return these numbers, raised by the numbers of the pruned paths ``gone``."""
        highest = dict(self.paths)
        for first, number in map(_counted, _with_wholes(gone)):
            highest[first] = max(number, highest.get(first, 0))
        if len(highest) <= MOST:
            return Forgotten(highest, self.below)
        by_number = sorted(highest, key=lambda first: (highest[first], first))
        dropped, remaining = by_number[: -MOST // 2], by_number[-MOST // 2 :]
        below = max(self.below, *(highest[first] for first in dropped))
        return Forgotten(
            {first: highest[first] for first in remaining if highest[first] > below}, below
        )


@dataclass
class GivenPaths:
    """A container of paths that were used. ``recorded``: the paths of tables that have rows, and of
    their Delta tables; ``beside``: returns the paths of other channels."""

    recorded: set[str] = field(default_factory=set)
    forgotten: Forgotten = field(default_factory=Forgotten)
    beside: Callable[[], GivenPaths] | None = None

    @classmethod
    def of(
        cls,
        snapshot: ControlSnapshot,
        used: Iterable[str],
        beside: Callable[[], GivenPaths] | None = None,
    ) -> GivenPaths:
        """Return the paths that the control table records as used. ``used``: the paths of its
        tables and copies."""
        return cls(_with_wholes(used), forgotten(snapshot), beside)

    @classmethod
    def union(cls, several: Iterable[GivenPaths]) -> GivenPaths:
        """Return the paths that were used in any of several channels."""
        union, paths, below = cls(), dict[str, int](), 0
        for given in several:
            union.recorded |= given.recorded
            below = max(below, given.forgotten.below)
            for first, number in given.forgotten.paths.items():
                paths[first] = max(number, paths.get(first, 0))
        union.forgotten = Forgotten(paths, below)
        return union

    def __contains__(self, path: object) -> bool:
        first, number = _counted(str(path))
        if path in self.recorded or number <= self.forgotten.highest(first):
            return True
        # Shards of a table that several channels feed are each channel's own.
        return self.beside is not None and not is_shared(str(path)) and path in self.beside()

    def highest(self, first: str) -> int:
        """Return the number up to which all paths of ``first``, which has no number, were used and
        pruned; 0 if there is none."""
        beside = self.beside().highest(first) if self.beside else 0
        return max(beside, self.forgotten.highest(first))

    def add(self, path: str) -> None:
        self.recorded |= _with_wholes([path])

    def add_all(self, other: GivenPaths) -> None:
        """Add the paths of a newer reading of the control table."""
        self.recorded |= other.recorded
        self.forgotten = other.forgotten


def forgotten(snapshot: ControlSnapshot) -> Forgotten:
    """Return the pruned paths that the control table records."""
    rows = snapshot.rows(KIND)
    return Forgotten.of_detail(rows[-1]["detail"]) if rows else Forgotten()


def _counted(path: str) -> tuple[str, int]:
    """Return the path without its number, and its number: for a shard the number in its Delta
    table."""
    whole, shard, number = path.partition(SHARD)
    return (whole + shard, int(number)) if number.isdecimal() else numbered(path)


def _with_wholes(paths: Iterable[str]) -> set[str]:
    return {each for path in paths for each in (path, whole_of(path))}

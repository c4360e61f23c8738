"""GivenPaths: every path that was ever given to a table of a channel, and of those beside it.

A path is given once, also when its table was removed and its rows are forgotten: an applier that
chose the folder for removal, and slept, may remove it at any time. Of forgotten paths the control
table keeps one row, with the highest number of each: ``t/a`` is 1, ``t/a@7`` is 7. The shards of a
Delta table are counted too: ``t/a//7`` is 7 of ``t/a//``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..config.renaming import SHARD, is_shared, numbered, whole_of

if TYPE_CHECKING:
    from .control import Control

KIND = "given"


@dataclass
class GivenPaths:
    """A container of paths. ``known``: those of tables that have rows, and of the Delta tables that
    they are in; ``forgotten``: path without its number -> the highest number; ``beside``: returns
    the paths of other channels."""

    known: set[str] = field(default_factory=set)
    forgotten: Mapping[str, int] = field(default_factory=dict)
    beside: Callable[[], GivenPaths] | None = None

    @classmethod
    def of(
        cls, control: Control, used: Iterable[str], beside: Callable[[], GivenPaths] | None = None
    ) -> GivenPaths:
        """What the control table says; ``used``: the paths of its tables and copies. Raise what
        reading it raises."""
        rows = control.rows(KIND)
        forgotten = json.loads(rows[-1]["detail"])["paths"] if rows else {}
        return cls(_with_wholes(used), forgotten, beside)

    def __contains__(self, path: object) -> bool:
        first, number = _counted(str(path))
        if path in self.known or number <= self.forgotten.get(first, 0):
            return True
        # Shards of a table that several channels feed are each channel's own.
        return self.beside is not None and not is_shared(str(path)) and path in self.beside()

    def highest(self, first: str) -> int:
        """Return the number up to which all paths are given and forgotten that are ``first``
        without their number; 0: none."""
        others = self.beside().highest(first) if self.beside else 0
        return max(others, self.forgotten.get(first, 0))

    def add(self, path: str) -> None:
        self.known |= _with_wholes([path])

    def add_all(self, other: GivenPaths) -> None:
        """Take over what another reading of the control table has."""
        self.known |= other.known
        self.forgotten = other.forgotten


def forgetting(before: Mapping[str, int], gone: Iterable[str]) -> dict[str, int]:
    """Return the highest numbers of forgotten paths: of those ``before``, and ``gone`` now."""
    highest = dict(before)
    for first, number in map(_counted, _with_wholes(gone)):
        highest[first] = max(number, highest.get(first, 0))
    return highest


def _counted(path: str) -> tuple[str, int]:
    """Return the path without its number, and the number: of a shard that in its Delta table."""
    whole, shard, number = path.partition(SHARD)
    return (whole + shard, int(number)) if number.isdecimal() else numbered(path)


def _with_wholes(paths: Iterable[str]) -> set[str]:
    return {each for path in paths for each in (path, whole_of(path))}

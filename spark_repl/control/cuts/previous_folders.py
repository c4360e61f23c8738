"""Former tables: what still lies beside a table that was copied anew, or made again by its name.

Only cuts from before show them, and nobody writes to them. Whoever reads or changes one by its path
has not the table that is followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import basename, dirname
from typing import TYPE_CHECKING

from ...delta import storage
from ..table.cut import shown_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..table.cut import Cut
    from ..table.layout import Layout

_NUMBERED = re.compile(r"(?P<first>.+)@(?P<number>\d+)")
"""the name of a folder whose name without a number was used before"""
_MOST = 5
"""so many are named, as all tables may have been copied anew"""


@dataclass(frozen=True)
class Former:
    """``before``: the paths, relative to the target, that the table ``name`` had before, and where
    something is still; now it is at ``path``."""

    name: str
    path: str
    before: tuple[str, ...]

    @property
    def said(self) -> str:
        """A line for whoever might take them for the table."""
        return (
            f"{self.name} is at {self.path}: what lies at {', '.join(self.before)} is what it was"
            " before, for earlier cuts; nothing is written there any more"
        )


def former_lines(former: Sequence[Former]) -> list[str]:
    """What is said of them, of no more than five tables each by itself."""
    more = len(former) - _MOST
    rest = [f"... and of {more} more tables: status --json, former"] if more > 0 else []
    return [one.said for one in former[:_MOST]] + rest


def former_tables(layout: Layout, last: Cut) -> list[Former]:
    """Those of each table of the newest cut that has any. Raises OSError."""
    former = []
    shown = {name: at.path for name, at in shown_tables(last).items()}
    there = dict[str, set[str]]()
    for name, path in shown.items():
        if not (numbered := _NUMBERED.fullmatch(basename(path))):
            continue
        folder, first = dirname(path), numbered["first"]
        if folder not in there:
            there[folder] = set(storage.names(layout.table(folder)))
        names = [first, *(f"{first}@{number}" for number in range(2, int(numbered["number"])))]
        before = [f"{folder}/{one}" for one in names if one in there[folder]]
        if before := [one for one in before if one not in shown.values()]:
            former.append(Former(name, path, tuple(before)))
    return former

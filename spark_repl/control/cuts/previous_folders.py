"""Previous folders: earlier data of a table that was copied again, or created again by its name.

Only earlier cuts show them, and no process writes to them. A reader that opens one by its path does
not read the replicated table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import basename, dirname
from typing import TYPE_CHECKING

from ...delta.store import storage
from ..table.cut import reader_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..table.cut import Cut
    from ..table.layout import Layout

_NUMBERED = re.compile(r"(?P<first>.+)@(?P<number>\d+)")
"""a folder's name with a number: the name without it was used before"""
_MOST = 5
"""tables that are named, since all tables may have been copied again"""


@dataclass(frozen=True)
class PreviousFolder:
    """The previous folders of a table. ``name`` is now at ``path``. ``before``: its earlier paths,
    relative to the target, where data still exists."""

    name: str
    path: str
    before: tuple[str, ...]

    @property
    def notice(self) -> str:
        """Return a line for a user who might confuse a previous folder with the table."""
        return (
            f"{self.name} is at {self.path}: what lies at {', '.join(self.before)} is what it was"
            " before, for earlier cuts; nothing is written there any more"
        )


def previous_folder_lines(folders: Sequence[PreviousFolder]) -> list[str]:
    """Return the notices of at most five tables, and a line for the others."""
    more = len(folders) - _MOST
    rest = [f"... and of {more} more tables: status --json, former"] if more > 0 else []
    return [folder.notice for folder in folders[:_MOST]] + rest


def previous_folders(layout: Layout, last: Cut) -> list[PreviousFolder]:
    """Return the previous folders of each table of the newest cut that has any. Raise OSError."""
    result = []
    current = {name: at.path for name, at in reader_tables(last).items()}
    existing = dict[str, set[str]]()
    for name, path in current.items():
        if not (numbered := _NUMBERED.fullmatch(basename(path))):
            continue
        folder, first = dirname(path), numbered["first"]
        if folder not in existing:
            existing[folder] = set(storage.names(layout.table(folder)))
        names = [first, *(f"{first}@{number}" for number in range(2, int(numbered["number"])))]
        before = [
            f"{folder}/{earlier_name}" for earlier_name in names if earlier_name in existing[folder]
        ]
        if before := [earlier for earlier in before if earlier not in current.values()]:
            result.append(PreviousFolder(name, path, tuple(before)))
    return result

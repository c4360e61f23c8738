"""Rows that were read from the source for one table, on their way into it (``repairing``)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..control.cut import Cut
    from ..decode.staged import Part
    from ..gtid import GtidSet
    from ..write.staged_rows import Keys


class Refused(Exception):
    """Why the rows can't be brought into the table as it is now."""


class Again(Refused):
    """Why not now: rows that are read anew may be."""


@dataclass
class RowsToRepair:
    """What was read of one table. ``keys``: digests, sorted; ``behind``, ``until``: between what
    (``repairing``); ``parts``: the staged rows that go and come, of the ``definition`` that the
    source has; ``path``: the table's, relative to the target.

    ``done`` is set when there is an outcome: ``version`` of the commit, None where the table had
    the rows already, or what ``refused`` them.
    """

    definition: TableDefinition
    path: str
    keys: Keys
    behind: Cut
    until: GtidSet
    parts: tuple[Part, ...]
    done: threading.Event = field(default_factory=threading.Event)
    version: int | None = None
    refused: Refused | None = None

    @property
    def table(self) -> str:
        return self.definition.name

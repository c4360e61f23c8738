"""Rows that were read from the source for one table, on their way into it (``repairing``)."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...decode.staged import Part
    from ...gtid import GtidSet
    from ...tables.table_definition import TableDefinition
    from ...write.rows.staged_rows import Keys


@dataclass(frozen=True)
class RowsToRepair:
    """What was read of one table. ``keys``: digests, sorted; ``behind``, ``until``: between what
    (``repairing``); ``parts``: the staged rows that go and come, of the ``definition`` that the
    source has; ``path``: the table's, relative to the target.

    ``outcome``: the version of the commit, None where the table had the rows already, or
    RowsRefused; who takes the rows in sets it, who has read them waits for it.
    """

    definition: TableDefinition
    path: str
    keys: Keys
    behind: Cut
    until: GtidSet
    parts: tuple[Part, ...]
    outcome: Future[int | None] = field(default_factory=Future)

    @property
    def table(self) -> str:
        return self.definition.name

    @property
    def refused(self) -> BaseException | None:
        """Why they were not taken in; None also while there is no outcome."""
        return self.outcome.exception() if self.outcome.done() else None

"""CutDefinitions: definitions of a target's tables at a cut, by the statements up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..control.records.definitions import Definitions
from ..gtid import GtidSet
from ..write.tables.table_metadata import COMPLETE, DEFINITION, WITHOUT_HISTORY, created
from .cut_files import snapshot_of

if TYPE_CHECKING:
    from ..control.table.control import Control
    from ..control.table.cut import Cut, TableVersion
    from ..control.table.layout import Layout
    from ..delta.log.table_log import TableLog
    from ..tables.table_definition import TableDefinition


class CutDefinitions:
    """Definitions of tables at cuts; the recorded statements are read once for each cut."""

    def __init__(self, control: Control, layout: Layout, log: TableLog) -> None:
        self._layout, self._log, self._definitions = layout, log, Definitions(control)
        self._read_for: Cut | None = None

    def of(self, cut: Cut, at: TableVersion) -> TableDefinition | None:
        """Return the definition of one of the cut's tables. Return None if no record has it,
        because another writer has replaced the table's properties. Raise TargetError if the table
        does not exist."""
        if self._read_for is not cut:
            self._definitions.load()
            self._read_for = cut
        executed = GtidSet.parse(cut.gtid_executed)
        changed = self._definitions.at(at.path, max(at.position, cut.position), executed)
        if changed is not None:
            return changed
        snapshot = snapshot_of(self._log, self._layout.table(at.path), at.version)
        return created(snapshot) if DEFINITION in snapshot.configuration else None

    def is_without_history(self, at: TableVersion) -> bool:
        """Return whether one of a cut's tables began without rows. Raise TargetError if it does not
        exist."""
        snapshot = snapshot_of(self._log, self._layout.table(at.path), at.version)
        return snapshot.configuration.get(COMPLETE) == WITHOUT_HISTORY

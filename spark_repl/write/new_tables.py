"""NewTables: makes tables in Delta, each with the position from which it holds rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..control.table_paths import MADE_BY_ROWS, announce
from ..ddl.row_filters import check_row_filter
from .new_paths import NewPaths
from .own_metadata import COPIED, own_properties

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..control.control import Control
    from ..control.layout import Layout
    from ..control.name_case import NameCase
    from ..control.names import Names
    from ..delta.stamp import Stamp
    from ..delta.table_log import NewTable, TableLog
    from .table_options import TableOptions


class NewTables:
    """``names``: how the source compares names, which says whose the rules of columns are;
    ``taken``: whose each name is among the target's channels."""

    def __init__(
        self,
        layout: Layout,
        control: Control,
        delta: TableLog,
        options: TableOptions,
        names: NameCase,
        taken: Names,
    ) -> None:
        self._layout, self._control, self._delta = layout, control, delta
        self._options, self._names, self._taken = options, names, taken
        self._paths = NewPaths(control, layout)

    def load(self) -> None:
        """Reads which paths were used."""
        self._paths.load()

    def shaped(self, definition: TableDefinition) -> TableDefinition:
        """The target's table of the source's. Raises SettingError."""
        rules = self._options.columns_of(folds=self._names.folds)
        shaped = rules.shaped(self._options.forms.apply(definition))
        check_row_filter(shaped, rules)
        return shaped

    def make(self, shaped: TableDefinition, stamp: Stamp, made_by: str) -> str:
        """Makes a table at a new path, which is returned. Raises TargetError."""
        check = self._taken.before_making([shaped.name])
        path = self._paths.new(shaped, self._delta)
        announce(self._control, shaped.name, path, stamp.position, made_by, check)
        complete = str(made_by != MADE_BY_ROWS).lower()
        self._delta.create(self._layout.table(path), self._new(shaped, complete), stamp)
        return path

    def make_copy(self, shaped: TableDefinition, path: str, stamp: Stamp) -> None:
        """Makes the table of a copy, unless it is there: the control table names its path."""
        folder = self._layout.table(path)
        if self._delta.snapshot(folder) is None:
            self._delta.create(folder, self._new(shaped, COPIED), stamp)

    def _new(self, definition: TableDefinition, complete: str) -> NewTable:
        return self._options.new_table(definition, own_properties(definition, complete))

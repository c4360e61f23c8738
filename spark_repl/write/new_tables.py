"""NewTables: makes tables in Delta, each with the position from which it holds rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..config.renaming import whole_of
from ..control.table_paths import MADE_BY_ROWS, announce
from ..ddl.extra_columns import shard_column
from ..ddl.row_filters import check_row_filter
from .new_paths import NewPaths
from .own_metadata import COPIED, own_properties
from .shard_columns import union
from .shards import beside, check_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..binlog.definition import TableDefinition
    from ..control.control import Control
    from ..control.definitions import Definitions
    from ..control.layout import Layout
    from ..control.name_case import NameCase
    from ..control.names import Names
    from ..delta.stamp import Stamp
    from ..delta.table_log import NewTable, TableLog
    from .table import Table
    from .table_commits import TableCommits
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
        commits: TableCommits,
        definitions: Definitions,
    ) -> None:
        self._layout, self._control, self._delta = layout, control, delta
        self._options, self._names, self._taken = options, names, taken
        self._commits, self._definitions = commits, definitions
        self._paths = NewPaths(control, layout)

    def load(self) -> None:
        """Reads which paths were used."""
        self._paths.load()

    def shaped(self, definition: TableDefinition) -> TableDefinition:
        """The target's table of the source's. Raises SettingError."""
        rules = self._options.columns_of(folds=self._names.folds)
        shaped = rules.shaped(self._options.forms.apply(definition))
        check_row_filter(shaped, rules)
        if shard_column(shaped) >= 0:
            folds = self._names.folds
            check_policy(shaped, self._options.policy(shaped.name, folds=folds))
        return shaped

    def make(
        self, shaped: TableDefinition, stamp: Stamp, made_by: str, tables: Iterable[Table]
    ) -> str:
        """Makes a table at a new path, which is returned; a shard in the Delta table of those of
        the ``tables`` that are to be beside it. Raises TargetError, SettingError."""
        others = beside(shaped.name, tables)
        names = [shaped.name]
        if shard_column(shaped) >= 0:
            names.append(whole_of(shaped.name))
        check = self._taken.before_making(names)
        path = self._paths.new(shaped, self._delta, [one.path for one in others])
        announce(self._control, shaped.name, path, stamp.position, made_by, check)
        complete = str(made_by != MADE_BY_ROWS).lower()
        self._make(shaped, path, stamp, complete, others)
        return path

    def make_copy(
        self, shaped: TableDefinition, path: str, stamp: Stamp, there: Table | None
    ) -> None:
        """Makes the table of a copy, unless it is there: the control table names its path;
        ``there``: a table that is in its Delta table."""
        if there or self._delta.snapshot(self._layout.table(path)) is None:
            self._make(shaped, path, stamp, COPIED, [there] if there else [])

    def _make(
        self, shaped: TableDefinition, path: str, stamp: Stamp, complete: str, others: list[Table]
    ) -> None:
        """A shard's definition is noted once the Delta table has its columns: so it is made."""
        if others:
            _widen(self._commits, others, shaped, stamp)
        else:
            self._delta.create(self._layout.table(path), self._new(shaped, complete), stamp)
        if shard_column(shaped) >= 0:
            self._definitions.record(path, shaped, stamp.position)

    def _new(self, definition: TableDefinition, complete: str) -> NewTable:
        return self._options.new_table(definition, own_properties(definition, complete))


def _widen(
    commits: TableCommits, others: Sequence[Table], shaped: TableDefinition, stamp: Stamp
) -> None:
    """Gives the Delta table of ``others`` the columns that a new shard has and no one else. Raises
    SettingError where one is of another type there, and what a commit raises."""
    table, definitions = others[0], [one.definition for one in others]
    with table.lock:
        commits.refresh(table)
        new = union(table.snapshot, shaped, (), definitions)
        if new is None:
            return
        # An XA branch that was ended by hand is behind the place where the next group begins.
        own = replace(stamp, position=max(stamp.position, table.position))
        table.delta.pending = own.position
        try:
            version = commits.delta.alter(table.snapshot, new, [], own)
        except Exception:
            commits.refresh(table)
            if union(table.snapshot, shaped, (), definitions) is not None:
                raise
            return
        files = commits.all_live(table).behind([])
        table.take(commits.delta.altered(table.snapshot, version), own.position, files)

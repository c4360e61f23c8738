"""Rewrites: databases under other names in the target, MySQL's ``replicate_rewrite_db``.

Rows go by the database of their table, and so do statements, also those that name the table with
its database. What is about a database itself (CREATE, ALTER, DROP DATABASE) is not rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..binlog.table_name import parts_of, table_name
from .actions import AddColumn, AddKey, Alteration, ChangeColumn, RenameTable
from .lower_names import fold

if TYPE_CHECKING:
    from ..binlog.definition import ForeignKey, TableDefinition
    from .actions import Action
    from .statement import Statement

ARROW = "->"


@dataclass(frozen=True)
class Rewrites:
    """(from, to) pairs, of which the first that has a database counts."""

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Rewrites:
        """Reads "from->to" entries, which the configuration has checked."""
        parts = (entry.partition(ARROW) for entry in entries)
        return cls(tuple((old.strip(), new.strip()) for old, _, new in parts))

    def folded(self) -> Rewrites:
        """The same for a source whose names are in lower case."""
        return Rewrites(tuple((fold(old), fold(new)) for old, new in self.pairs))

    def database(self, name: str) -> str:
        return next((new for old, new in self.pairs if old == name), name)

    def table(self, name: str) -> str:
        """The name of a table, db.table, in the target."""
        if not name or not self.pairs:
            return name
        database, table = parts_of(name)
        return table_name(self.database(database), table)

    def renames(self, name: str) -> bool:
        """Whether a table of the target may be one whose database has another name in the log."""
        return any(new == parts_of(name)[0] for _, new in self.pairs)

    def definition(self, logged: TableDefinition) -> TableDefinition:
        """The table with the names that it and its parents have in the target."""
        keys = logged.foreign_keys
        return replace(
            logged,
            database=self.database(logged.database),
            foreign_keys=keys and tuple(map(self._key, keys)),
            source_name=logged.name if self.table(logged.name) != logged.name else "",
        )

    def statement(self, logged: Statement) -> Statement:
        """The statement with the names that its tables have in the target."""
        if not self.pairs:
            return logged
        keys, alteration = logged.foreign_keys, logged.alteration
        return replace(
            logged,
            tables=tuple(map(self.table, logged.tables)),
            definition=logged.definition and self.definition(logged.definition),
            foreign_keys=keys and tuple(map(self._key, keys)),
            like=self.table(logged.like),
            renames=tuple((self.table(old), self.table(new)) for old, new in logged.renames),
            alteration=alteration
            and Alteration(
                self.table(alteration.table),
                tuple(map(self._action, alteration.actions)),
                self.table(alteration.exchanged),
            ),
        )

    def _key(self, key: ForeignKey) -> ForeignKey:
        return replace(key, parent=self.table(key.parent))

    def _action(self, action: Action) -> Action:
        if isinstance(action, RenameTable):
            return RenameTable(self.table(action.new))
        if isinstance(action, AddKey) and action.key.foreign:
            return replace(action, key=replace(action.key, foreign=self._key(action.key.foreign)))
        if isinstance(action, AddColumn | ChangeColumn) and action.column.references:
            references = tuple(map(self._key, action.column.references))
            return replace(action, column=replace(action.column, references=references))
        return action

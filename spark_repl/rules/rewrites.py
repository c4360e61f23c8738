"""Rewrites: other names in the target, first of databases (MySQL's ``replicate_rewrite_db``), then
of tables (``to`` of ``[[tables]]``).

Rows are rewritten by the name of their table. So are statements, also those that name the table
with its database. Statements about a database itself (CREATE, ALTER, DROP DATABASE) are not
rewritten. A constraint's name that the server generates from a table's name is generated from the
name in the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..config.renaming import shard_of
from ..sql.actions import AddColumn, AddKey, Alteration, ChangeColumn, DropConstraint, RenameTable
from ..tables.case_folding import fold, letter_case_error
from ..tables.table_name import database_of, generated_prefix, parts_of, table_name
from .table_routes import Entries, TableRoutes

if TYPE_CHECKING:
    from ..sql.actions import Action
    from ..sql.statement import Statement
    from ..tables.source_table import SourceTable
    from ..tables.table_keys import ForeignKey

ARROW = "->"


@dataclass(frozen=True)
class Rewrites:
    """(from, to) pairs of databases; the first pair that names a database counts. ``routes``: maps
    the resulting names to the target's. ``folds``: whether the source's names are in lower case,
    like pairs and routes; names in its statements may still have other letters. ``lower``: the
    rewrites for a source that folds names, while it is not known whether the source does."""

    pairs: tuple[tuple[str, str], ...] = ()
    routes: TableRoutes = field(default_factory=TableRoutes)
    folds: bool = False
    lower: Rewrites | None = None

    @classmethod
    def of(cls, entries: Iterable[str], to: Entries = (), *, folds: bool = False) -> Rewrites:
        """Return the rewrites of "from->to" entries, which the configuration has checked. ``to``:
        entries of TableRoutes."""
        parts = (entry.partition(ARROW) for entry in entries)
        pairs = tuple((old.strip(), new.strip()) for old, _, new in parts)
        return cls(pairs, TableRoutes(to), folds)

    @property
    def any(self) -> bool:
        """Return whether a table may have another name in the target."""
        return bool(self.pairs) or self.routes.any

    def database(self, name: str) -> str:
        """Return the database's name by which filters and ``[[tables]]`` match its tables."""
        name = self.logged(name) if self.any else name
        return next((new for old, new in self.pairs if old == name), name)

    def logged(self, name: str) -> str:
        """Return a name from a statement in the form that TABLE_MAPs have."""
        return fold(name) if self.folds else name

    def rewritten(self, name: str) -> str:
        """Return the table's name, db.table, by which filters and ``[[tables]]`` match it."""
        if not name or not self.any:
            return name
        database, table = parts_of(self.logged(name))
        return table_name(self.database(database), table)

    def table(self, name: str) -> str:
        """Return the table's name, db.table, in the target."""
        return self.routes.after(self.rewritten(name)) if name else name

    def sources(self, name: str) -> list[str]:
        """Return the possible names on the source of the target's table ``name``."""
        routed = self.routes.before(name)
        database, table = parts_of(routed)
        olds = {database, *(old for old, new in self.pairs if new == database)}
        names = sorted(table_name(old, table) for old in olds)
        return [source for source in names if self.rewritten(source) == routed]

    def check(self, logged: str) -> None:
        """Raise SchemaError if the log's table ``logged`` cannot have its name in the target."""
        self.routes.check(self.rewritten(logged), logged)

    def check_letters(self, names: Iterable[str], *, rows: bool = False) -> None:
        """Raise SettingError if it is not known whether the source folds names, and one of the
        log's names would be a different table of the target if it does. ``rows``: whether
        TABLE_MAPs contain the names; an upper-case letter in one shows that the source does not
        fold names."""
        if self.lower is None:
            return
        for name in names:
            lower = fold(name)
            target, folded_target = self.table(name), self.lower.table(lower)
            same = target if shard_of(target) else fold(target)
            if same == folded_target or (rows and name != lower):
                continue
            by_databases = fold(self.rewritten(name)) != self.lower.rewritten(lower)
            rules = "filters.rewrite_db" if by_databases else "[[tables]] (to)"
            raise letter_case_error(name, rules, "does not say whether")

    def renames(self, name: str) -> bool:
        """Return whether a table of the target may be one whose database has another name in the
        log."""
        database = database_of(self.routes.before(name)) if self.pairs else ""
        return any(new == database for _, new in self.pairs)

    def in_database(self, database: str, tables: Iterable[str]) -> list[str]:
        """Return those of the target's ``tables`` that a statement about the ``database``
        changes."""
        return [name for name in tables if database_of(self.routes.before(name)) == database]

    def names_in_statement(self, statement: Statement, tables: Collection[str]) -> Collection[str]:
        """Return the target's ``tables`` by the names that a rewritten statement uses in addition
        to their own. A statement about a database uses the source's names."""
        if not statement.database or not self.routes.any:
            return tables
        return [*map(self.routes.before, tables)]

    def definition(self, logged: SourceTable) -> SourceTable:
        """Return the table with the names that it and its parents have in the target."""
        keys, name = logged.foreign_keys, self.table(logged.name)
        database, table = parts_of(name)
        return replace(
            logged,
            database=database,
            table=table,
            foreign_keys=keys and tuple(self._key(key, logged.name) for key in keys),
            source_name=self.logged(logged.name) if name != logged.name else "",
        )

    def statement(self, logged: Statement) -> Statement:
        """Return the statement with the names that its tables have in the target."""
        if not self.any:
            return logged
        keys, alteration = logged.foreign_keys, logged.alteration
        return replace(
            logged,
            tables=tuple(map(self.table, logged.tables)),
            definition=logged.definition and self.definition(logged.definition),
            foreign_keys=keys and tuple(self._key(key, logged.tables[0]) for key in keys),
            like=self.table(logged.like),
            renames=tuple((self.table(old), self.table(new)) for old, new in logged.renames),
            alteration=alteration
            and Alteration(
                self.table(alteration.table),
                tuple(self._action(action, alteration.table) for action in alteration.actions),
                self.table(alteration.exchanged),
                alteration.engine,
                alteration.copies,
            ),
        )

    def _key(self, key: ForeignKey, table: str) -> ForeignKey:
        return replace(key, name=self._constraint(key.name, table), parent=self.table(key.parent))

    def _constraint(self, name: str, table: str) -> str:
        """Return a constraint's name in the target. A name that the server generated from the name
        of its ``table`` becomes one of the table's name in the target, and the other way round, so
        that no two constraints get one name."""
        prefixes = generated_prefix(table), generated_prefix(self.table(table))
        for prefix, other in (prefixes, prefixes[::-1]):
            if prefixes[0] != prefixes[1] and name.lower().startswith(prefix.lower()):
                return other + name[len(prefix) :]
        return name

    def _action(self, action: Action, table: str) -> Action:
        if isinstance(action, RenameTable):
            return RenameTable(self.table(action.new))
        if isinstance(action, DropConstraint):
            return replace(action, name=self._constraint(action.name, table))
        if isinstance(action, AddKey) and action.key.foreign:
            foreign = self._key(action.key.foreign, table)
            return replace(action, key=replace(action.key, foreign=foreign))
        if isinstance(action, AddColumn | ChangeColumn) and action.column.references:
            references = tuple(self._key(key, table) for key in action.column.references)
            return replace(action, column=replace(action.column, references=references))
        return action

"""Statement: one logged statement, as ``classify`` has understood it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..tables.case_folding import fold, folded_definition
from .actions import (
    AddColumn,
    AddKey,
    ChangeColumn,
    DropConstraint,
    DropIndex,
    RenameTable,
    SetDefault,
)
from .foreign_keys import ENGINES as TRANSACTIONAL

if TYPE_CHECKING:
    from ..binlog.events.event import Query
    from ..tables.source_table import SourceTable
    from ..tables.table_keys import ForeignKey
    from .actions import Alteration

SELECT = "CREATE TABLE ... SELECT makes rows from a query"
"""the reason why there is no definition"""
TEMPORARY = "CREATE TEMPORARY TABLE"
"""the verb of what a session in statement format logs: its table hides another of the name"""
UNKNOWN_TABLE = 1051
"""the error of a DROP TABLE that did not find all of its tables"""
ROW_CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "WITH", "SELECT")


class Effect(enum.Enum):
    """The kinds of effect that a statement can have."""

    NO_EFFECT = "no effect"
    CREATE_TABLE = "create table"
    CREATE_LIKE = "create table like"
    CREATE_SELECT = "create table select"
    ALTER_TABLE = "alter table"
    RENAME_TABLE = "rename table"
    TRUNCATE_TABLE = "truncate table"
    DROP_TABLE = "drop table"
    DROP_DATABASE = "drop database"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Statement:
    """One classified statement.

    ``tables``: the "db.table" names of all tables concerned, with the created or altered one first.
    ``database``: that of CREATE, ALTER and DROP DATABASE. ``database_charset``: the character set
    or collation that it gets, '' for none or an unknown one.

    ``definition``: None if the table has to be created from its first TABLE_MAP. ``reason``: why
    there is no definition, or why the statement is UNSUPPORTED, or what a statement that changes
    tables does. ``foreign_keys``: those of CREATE TABLE (None: not known). ``engine``: as the
    statement names it. ``like``: the table whose definition is copied.

    ``renames``: (old, new) in order, also of ALTER TABLE ... RENAME. ``alteration``: of ALTER
    TABLE, CREATE INDEX and DROP INDEX (``alter.apply_alter`` applies it). With NO_EFFECT it
    concerns only non-unique indexes, of which definitions keep only the names.
    """

    verb: str
    effect: Effect
    tables: tuple[str, ...] = ()
    database: str = ""
    if_exists: bool = False
    if_not_exists: bool = False
    definition: SourceTable | None = None
    foreign_keys: tuple[ForeignKey, ...] | None = ()
    like: str = ""
    renames: tuple[tuple[str, str], ...] = ()
    alteration: Alteration | None = None
    reason: str = ""
    engine: str = ""
    database_charset: str = ""

    def has_failed(self, query: Query) -> bool:
        """Return whether the statement failed on the source without changing anything there. A
        failed DROP TABLE still drops the tables that it finds. A failed statement that was logged
        instead of rows has changed some rows, because otherwise it would not be logged."""
        drops = self.effect is Effect.DROP_TABLE
        dropped = drops and (query.error == UNKNOWN_TABLE or len(self.tables) > 1)
        return bool(query.error) and not dropped and self.verb not in ROW_CHANGES

    def made_database(self, query: Query) -> bool:
        """Return whether CREATE or ALTER DATABASE certainly took effect. If IF NOT EXISTS finds the
        database, servers since 8.0 omit the transaction's number. The log of earlier servers does
        not show this."""
        return not self.if_not_exists or bool(query.utf8mb4_collation and not query.made_nothing)

    def made_nothing(self, query: Query) -> bool:
        """Return whether CREATE TABLE IF NOT EXISTS found the table and the log shows this. Servers
        since 8.0 mark changes of tables of transactional engines with the transaction's number. For
        CREATE TABLE ... SELECT, that number follows its rows."""
        can_tell = not self.engine or self.engine.upper() in TRANSACTIONAL
        marked = can_tell and self.effect is not Effect.CREATE_SELECT
        return self.if_not_exists and marked and query.made_nothing

    @property
    def named(self) -> tuple[str, ...]:
        """Return all tables that the text names, also those that it copies or refers to."""
        keys = list(self.foreign_keys or ())
        for action in self.alteration.actions if self.alteration else ():
            if isinstance(action, AddKey) and action.key.foreign:
                keys.append(action.key.foreign)
            elif isinstance(action, AddColumn | ChangeColumn):
                keys += action.column.references
        more = (self.like, *(key.parent for key in keys))
        return tuple(dict.fromkeys((*self.tables, *filter(None, more))))

    @property
    def unique(self) -> bool:
        """Return whether it creates or drops an index that a TABLE_MAP may have as primary key:
        that of a table without PRIMARY KEY."""
        return any(
            isinstance(a, DropIndex)
            or (isinstance(a, DropConstraint) and not a.kind)
            or (isinstance(a, AddKey) and a.key.kind == "UNIQUE")
            for a in (self.alteration.actions if self.alteration else ())
        )

    @property
    def defaults(self) -> tuple[tuple[str, str | None], ...]:
        """Return the new defaults of columns by ALTER COLUMN, as in ``Column.default``."""
        return tuple(
            (a.name, a.default.literal if a.default else None)
            for a in (self.alteration.actions if self.alteration else ())
            if isinstance(a, SetDefault)
        )

    @property
    def dropped_constraints(self) -> tuple[str, ...]:
        actions = self.alteration.actions if self.alteration else ()
        return tuple(a.name for a in actions if isinstance(a, DropConstraint))

    @property
    def changes_definition(self) -> bool:
        """Return whether a statement without effect on rows changes a table's recorded
        definition."""
        return bool(self.unique or self.defaults or self.foreign_keys or self.dropped_constraints)

    @property
    def changes_rows(self) -> bool:
        """Return whether it was logged instead of rows, so that its changes are nowhere else in the
        log."""
        return self.verb in ROW_CHANGES or self.reason == SELECT


def folded(statement: Statement) -> Statement:
    """Return the statement with the names of its databases and tables folded."""
    definition, alteration = statement.definition, statement.alteration
    return replace(
        statement,
        tables=tuple(map(fold, statement.tables)),
        database=fold(statement.database),
        definition=definition and folded_definition(definition),
        like=fold(statement.like),
        renames=tuple((fold(old), fold(new)) for old, new in statement.renames),
        alteration=alteration and _folded_alteration(alteration),
    )


def _folded_alteration(alteration: Alteration) -> Alteration:
    actions = tuple(
        RenameTable(fold(action.new)) if isinstance(action, RenameTable) else action
        for action in alteration.actions
    )
    return replace(
        alteration, table=fold(alteration.table), actions=actions,
        exchanged=fold(alteration.exchanged),
    )  # fmt: skip

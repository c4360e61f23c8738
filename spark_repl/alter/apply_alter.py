"""Apply a statement that the source has accepted to a table definition: ALTER TABLE, CREATE INDEX,
DROP INDEX.

Pure. A statement that does not fit the definition, or that depends on an unknown property of the
table, raises StatementError: the definition is wrong, or too incomplete to continue.

``copies_rows`` decides whether a server certainly copies a table's rows into a new table for an
ALTER TABLE (ALGORITHM=COPY), and so computes its STORED columns again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import StatementError
from ..sql.actions import (
    AddColumn,
    AddKey,
    Alteration,
    ChangeColumn,
    DropIndex,
    PartitionBy,
    SetCharset,
    UnloggedRows,
)
from ..sql.charsets import ASSUMED
from ..sql.create_table import is_text
from ..sql.keys import PRIMARY
from ..sql.new_columns import (
    in_charset,
    is_longer,
    is_nullable,
    new_column,
    same_type,
    with_timestamps,
)
from ..sql.string_literals import in_column
from ..sql.table_options import ROWLESS, other_engine
from ..tables.column import CHARACTER_TYPES, Column, ColumnType
from ..tables.table_name import database_of
from .alteration import Altered, CarriedColumn
from .altered_keys import altered_foreign_keys, altered_keys, without_inline_keys
from .altered_partitions import altered_partitions
from .column_actions import PendingColumn, apply_column_actions
from .column_source import column_sources
from .rename import rename

if TYPE_CHECKING:
    from ..sql.actions import Alteration
    from ..sql.classify import Statement
    from ..sql.session import Session
    from ..tables.column import Column
    from ..tables.source_table import SourceTable
    from .column_actions import PendingColumn


def alter(
    definition: SourceTable,
    statement: Statement | Alteration,
    session: Session,
) -> Altered[SourceTable]:
    """Return the table after ``statement``.

    Raise StatementError, naming the table, for a column or key that does not fit, with MySQL's
    number and message if MySQL has them. Raise it also for a result that depends on something
    unknown.
    """
    alteration = statement if isinstance(statement, Alteration) else statement.alteration
    if alteration is None:
        return Altered(definition, tuple(CarriedColumn(i) for i in range(len(definition.columns))))
    try:
        if not session.inline_keys:
            alteration = without_inline_keys(alteration)
        return _alter(definition, alteration, session)
    except StatementError as error:
        raise error.at(table=definition.name) from None


def _alter(
    definition: SourceTable, alteration: Alteration, session: Session
) -> Altered[SourceTable]:
    entries = apply_column_actions(definition, alteration, session)
    charset, converts = _charset(alteration, definition, session)
    converted = (definition.charset, charset) if converts else ("", "")
    columns = _columns(entries, converted, charset, session)
    keyed = altered_keys(definition, alteration, entries, columns)
    foreign = altered_foreign_keys(definition, alteration, entries)
    parted = altered_partitions(definition, alteration.actions, entries)
    after = replace(
        definition,
        columns=keyed.columns,
        primary_key=keyed.primary_key,
        foreign_keys=foreign,
        has_primary=keyed.has_primary,
        unique=keyed.unique,
        charset=charset,
        indexes=keyed.indexes,
        partitioning=parted.partitioning,
        rowless=alteration.engine in ROWLESS if alteration.engine else definition.rowless,
        engine=other_engine(alteration.engine) if alteration.engine else definition.engine,
        comment=definition.comment if alteration.comment is None else alteration.comment,
    )
    gone = [action for action in alteration.actions if isinstance(action, UnloggedRows)]
    reasons, come = [action.reason for action in gone], any(action.come for action in gone)
    numbered = tuple(
        column.name
        for entry, column in zip(entries, keyed.columns, strict=True)
        if column.auto_increment
        and entry.before
        and not entry.before.auto_increment
        and entry.clause
    )
    if alteration.renamed:
        after = rename(after, alteration.renamed)
    if not is_text(after):
        raise StatementError("the statement is not text in its client's character set")
    copies = copies_rows(alteration, entries, keyed.columns, session)
    origin = column_sources(entries, keyed.columns, session, converts=converts, copies=copies)
    reason = "; ".join(filter(None, (*reasons, parted.reason)))
    return Altered(after, origin, reason, come, numbered, converts, parted.gone)


def _charset(alteration: Alteration, definition: SourceTable, session: Session) -> tuple[str, bool]:
    """Return the table's character set after the statement, and whether columns are converted to
    it."""
    settings = [action for action in alteration.actions if isinstance(action, SetCharset)]
    converts = any(action.convert for action in settings)
    if not settings:
        return definition.charset, False
    charset = next((a.charset for a in settings if a.convert), settings[-1].charset)
    charset = charset or session.charset_of(database_of(definition.name_on_source))
    if not charset:
        raise StatementError("the database's default character set is not known")
    return charset, converts


def _columns(
    entries: Sequence[PendingColumn], sets: tuple[str, str], charset: str, session: Session
) -> tuple[Column, ...]:
    """Return the columns before keys change them. ``sets``: the table's character set before and
    after CONVERT TO, ('', '') without it."""
    table, converted = sets
    written = [entry.clause or entry.before for entry in entries]
    clauses = iter(with_timestamps([item for item in written if item is not None], session))
    columns = []
    for entry in entries:
        if entry.clause is None:
            assert entry.before is not None
            column = replace(entry.before, name=entry.name)
            columns.append(in_charset(column, converted, session, table) if converted else column)
            continue
        clause = entry.clause = next(clauses)
        text = clause.type.code in CHARACTER_TYPES
        if converted and entry.before and clause.type.code == ColumnType.BLOB:
            # MySQL uses the old column's size, not the new type's (measured on 9.7.4).
            raise StatementError(f"the size of column {entry.name} behind CONVERT TO is not known")
        if text and converted and clause.charset.lower() != "binary":
            clause = replace(clause, charset=converted)
        default = charset or ASSUMED  # a definition made from rows has no character set
        clause = entry.clause = in_column(clause, default)
        columns.append(new_column(clause, default, session, nullable=is_nullable(clause)))
    return tuple(columns)


_ONE_BYTE = 255  # the longest VARCHAR whose length InnoDB keeps in one byte


def copies_rows(
    alteration: Alteration,
    entries: Sequence[PendingColumn],
    columns: Sequence[Column],
    session: Session,
) -> bool:
    """Return whether the server copies the rows; False if InnoDB alters the table in place, or may.
    ``columns`` are those after the statement, parallel to ``entries``."""
    actions = alteration.actions
    return (
        alteration.copies
        or any(isinstance(a, PartitionBy) or _converts(a) for a in actions)
        or _loses_primary(alteration)
        or any(_is_written(e, c, session) for e, c in zip(entries, columns, strict=True))
    )


def _converts(action: object) -> bool:
    return isinstance(action, SetCharset) and action.convert


def _loses_primary(alteration: Alteration) -> bool:
    drops = added = False
    for action in alteration.actions:
        drops |= isinstance(action, DropIndex) and action.name.upper() == PRIMARY
        added |= isinstance(action, AddKey) and action.key.kind == PRIMARY
        added |= isinstance(action, AddColumn | ChangeColumn) and action.column.primary
    return drops and not added


def _is_written(entry: PendingColumn, column: Column, session: Session) -> bool:
    """Return whether the server writes the column's values for each row, and not in place."""
    before = entry.before
    if before is None:
        return column.generated.endswith("STORED")
    if entry.clause is None:
        return False
    if before.nullable and not column.nullable and not session.is_strict:
        return True
    if same_type(before, column):
        return False
    if is_longer(before, column):
        return before.meta <= _ONE_BYTE < column.meta
    members = before.type in (ColumnType.ENUM, ColumnType.SET) and before.type == column.type
    appended = column.literals[: len(before.literals)] == before.literals
    return not (members and appended and before.meta == column.meta)

"""The columns of a table after ALTER TABLE, in order, with what each was before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import StatementError
from ..sql.actions import (
    AddColumn,
    ChangeColumn,
    DropColumn,
    RenameColumn,
    SetDefault,
    SetVisible,
)  # fmt: skip
from ..sql.default_literals import normalize_or_keep
from ..sql.new_columns import implicit_default
from ..sql.string_literals import in_own_charset
from ..tables.case_folding import same_name_error
from ..tables.column import ColumnType

if TYPE_CHECKING:
    from ..sql.actions import Action, Alteration
    from ..sql.column_clause import ColumnClause
    from ..sql.session import Session
    from ..tables.column import Column
    from ..tables.source_table import SourceTable


_ROW_ID = "my_row_id"


@dataclass(slots=True, eq=False)
class PendingColumn:
    """A column while the statement is applied. ``number`` and ``before`` describe the column in the
    table before the statement; they are -1 and None for a new column.
    ``clause`` is the column as the statement writes it, or None. ``new_default``: SET DEFAULT or
    DROP DEFAULT has already changed ``before``. ``placed``: the statement has FIRST or AFTER for
    the column."""

    name: str
    number: int = -1
    before: Column | None = None
    clause: ColumnClause | None = None
    new_default: bool = False
    placed: bool = False


def unknown(name: str, table: str) -> StatementError:
    return StatementError(
        f"Unknown column '{name}' in '{table.partition('.')[2]}'", table=table, number=1054
    )


def apply_column_actions(
    definition: SourceTable, alteration: Alteration, session: Session
) -> list[PendingColumn]:
    """Return the columns after the statement. As in MySQL, actions use the column names from before
    the statement, and AFTER refers to the new list. Raise StatementError with MySQL's number for a
    column that the table does not have (1054, 1091) or has twice (1060)."""
    actions = alteration.actions
    named = _by_name(definition, actions)
    entries: list[PendingColumn] = []
    moved: dict[str, PendingColumn] = {}
    for number, column in enumerate(definition.columns):
        action = named.pop(column.name.lower(), None)
        entry = PendingColumn(column.name, number, column)
        if isinstance(action, DropColumn):
            continue
        if isinstance(action, RenameColumn):
            entry.name = action.new
        elif isinstance(action, ChangeColumn):
            entry.name, entry.clause = action.column.name, action.column
            if action.after is not None:
                entry.placed = True
                moved[column.name.lower()] = entry
        entries.append(entry)
    for queue in named.values():
        raise _not_there(queue, definition)
    for new in actions:
        if isinstance(new, AddColumn):
            place = _place(entries, new.after, definition)
            entries.insert(place, PendingColumn(new.column.name, clause=new.column))
        elif isinstance(new, ChangeColumn) and new.after is not None:
            entry = moved[new.name.lower()]  # still at its old place
            entries.remove(entry)
            entries.insert(_place(entries, new.after, definition), entry)
    if session.keeps_row_id and alteration.engine in ("", "INNODB") and has_row_id(definition):
        _put_row_id_first(entries)
    _with_settings(entries, actions, definition.name, session)
    return _once(entries, definition.name)


def _by_name(
    definition: SourceTable, actions: Sequence[Action]
) -> dict[str, DropColumn | RenameColumn | ChangeColumn]:
    named: dict[str, DropColumn | RenameColumn | ChangeColumn] = {}
    for action in actions:
        if isinstance(action, DropColumn | RenameColumn | ChangeColumn):
            if action.name.lower() in named:
                raise _not_there(action, definition)
            named[action.name.lower()] = action
    return named


def _not_there(action: DropColumn | RenameColumn | ChangeColumn, table: SourceTable) -> Exception:
    if isinstance(action, DropColumn):
        message = f"Can't DROP '{action.name}'; check that column/key exists"
        return StatementError(message, table=table.name, number=1091)
    return unknown(action.name, table.name)


def _place(entries: Sequence[PendingColumn], after: str | None, definition: SourceTable) -> int:
    """Return the index at which a column is inserted. ``after`` is as in ``AddColumn``."""
    if after is None:
        return len(entries)
    if not after:
        return 0
    names = [other.name.lower() for other in entries]
    if after.lower() not in names:
        raise unknown(after, definition.name)
    return names.index(after.lower()) + 1


def has_row_id(definition: SourceTable) -> bool:
    """Return whether MySQL treats the table's key as a generated invisible primary key. A user's
    key with the same definition counts. A key of a partitioned table, or of an engine other than
    InnoDB, does not count (measured on 9.7.4)."""
    if not definition.columns or definition.partitioning or definition.engine:
        return False
    first = definition.columns[0]
    # Rows do not show AUTO_INCREMENT. They name their columns, so a wrong guess ends by name.
    numbered = first.auto_increment or definition.has_primary is None
    return (
        definition.primary_key == (0,)
        and definition.has_primary is not False
        and first.name.lower() == _ROW_ID
        and first.type == ColumnType.LONGLONG
        and first.unsigned
        and not first.visible
        and numbered
    )


def _put_row_id_first(entries: list[PendingColumn]) -> None:
    """Move the column my_row_id to the front, as MySQL does even with FIRST for another column. A
    column that is renamed to my_row_id moves as well. A new column and one with FIRST or AFTER of
    its own do not."""
    for entry in entries:
        if entry.name.lower() == _ROW_ID:
            if entry.before is not None and not entry.placed:
                entries.remove(entry)
                entries.insert(0, entry)
            return


def _with_settings(
    entries: Sequence[PendingColumn], actions: Sequence[Action], table: str, session: Session
) -> None:
    """Apply ALTER COLUMN ... SET DEFAULT, DROP DEFAULT, SET VISIBLE, SET INVISIBLE."""
    for action in actions:
        if not isinstance(action, SetDefault | SetVisible):
            continue
        name = action.name.lower()
        matching = [e for e in entries if e.before and e.before.name.lower() == name]
        if not matching or matching[0].before is None:
            raise unknown(action.name, table)
        entry, column = matching[0], matching[0].before
        if isinstance(action, SetVisible):
            entry.before = replace(column, visible=action.visible)
        else:
            default = _new_default(action, column, session)
            entry.before, entry.new_default = replace(column, default=default), True


def _new_default(action: SetDefault, column: Column, session: Session) -> str | None:
    """Return ``Column.default`` after SET DEFAULT or DROP DEFAULT."""
    if action.default is None:
        return implicit_default(column)
    literal = in_own_charset(action.default, column).set_by_alter
    return literal and normalize_or_keep(literal, column, session)


def _once(entries: list[PendingColumn], table: str) -> list[PendingColumn]:
    seen: dict[str, str] = {}
    for entry in entries:
        other = seen.get(entry.name.lower())
        if other is not None:
            if other != entry.name and not entry.name.isascii():
                raise same_name_error(other, entry.name, table)
            message = f"Duplicate column name '{entry.name}'"
            raise StatementError(message, table=table, number=1060)
        seen[entry.name.lower()] = entry.name
    return entries

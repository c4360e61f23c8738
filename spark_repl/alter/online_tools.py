"""Derive a table's alteration from the copy that an online schema-change tool filled. The table's
own rows reach the copy by INSERT IGNORE ... SELECT and by REPLACE.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..convert.lossless import widens
from ..errors import SettingError
from ..sql.actions import AddColumn
from ..sql.sql_tokens import WORD, tokens
from .alteration import Altered, CarriedColumn, ConstantValue

if TYPE_CHECKING:
    from ..sql.statement import Statement
    from ..tables.column import Column
    from ..tables.source_table import SourceTable
    from ..tables.table_keys import ForeignKey
    from .alteration import ColumnSource

_HINT = (
    'with ddl.online_tools = "follow" the tool\'s table becomes the table; or copy the table'
    " again after the tool's RENAME: spark-repl snapshot --config F --table DB.T"
)


def copied(before: SourceTable, ghost: SourceTable) -> Altered[SourceTable]:
    """Return the alteration that turns the table ``before`` into a tool's copy ``ghost``. Columns
    are matched by name.

    Raise SettingError for a result that the definitions do not show:
    - changed values of a column,
    - a new column whose default is not a literal,
    - rows that a new UNIQUE index rejects.
    """
    names = {column.name.lower(): number for number, column in enumerate(before.columns)}
    origins: list[ColumnSource] = []
    for column in ghost.columns:
        number = names.get(column.name.lower())
        if number is None:
            origins.append(_new(ghost, column))
        else:
            origins.append(_same(ghost, before.columns[number], column, number))
    unique = _unique(before)
    if unique is None or (indexes := _unique(ghost)) is None:
        raise _refused(ghost.name, "which UNIQUE indexes it has is not known")
    if more := indexes - unique:
        listed = ", ".join(min(sorted(key) for key in more))
        raise _refused(ghost.name, f"which rows a new UNIQUE index ({listed}) has no room for")
    _check_equal(before, ghost, names)
    _check_generated(before, ghost, names)
    _check_room(before, ghost)
    return Altered(ghost, tuple(origins))


def check_tool_alteration(statement: Statement, text: str, sql_mode: int) -> None:
    """Raise SettingError if a tool's ALTER has an effect on rows that the definitions do not show:
    a CHECK that rows may fail, or a column that the tool's own UPDATEs set. ``text`` is the
    statement's text."""
    words = tokens(text, sql_mode)
    raw = [token.text.upper() if token.kind == WORD else token.raw for token in words]
    for before, word, after in zip(["", *raw], raw, [*raw[1:], ""], strict=False):
        if (word == "CHECK" and after == "(") or (word == "ENFORCED" and before != "NOT"):
            raise _refused(statement.tables[0], "which rows a new CHECK has no room for")
    for action in statement.alteration.actions if statement.alteration else ():
        if isinstance(action, AddColumn) and action.column.on_update:
            reason = f"the values of the new column {action.column.name}, which UPDATEs set"
            raise _refused(statement.tables[0], reason)


def _new(ghost: SourceTable, column: Column) -> ColumnSource:
    if column.generated or column.auto_increment or column.default is None:
        raise _refused(ghost.name, f"the values of the new column {column.name}")
    return ConstantValue(column.default)


def _same(ghost: SourceTable, old: Column, new: Column, number: int) -> ColumnSource:
    if old.generated != new.generated or (new.auto_increment and not old.auto_increment):
        raise _refused(ghost.name, f"the values of column {new.name}")
    plain = replace(old, name=new.name, nullable=new.nullable, visible=new.visible) == new
    if plain and old.detail == new.detail:
        return CarriedColumn(number)
    if old.generated or not widens(old, new):
        raise _refused(ghost.name, f"what the values of column {new.name} are, whose type changes")
    return CarriedColumn(number, written=True)


def _unique(definition: SourceTable) -> set[frozenset[str]] | None:
    """Return the columns of each key and UNIQUE index, with their prefix lengths; None if they are
    not known."""
    if definition.unique is None:
        return None
    columns = definition.columns
    key = frozenset(columns[number].name.lower() for number in definition.primary_key)
    column_sets = {key} if key else set[frozenset[str]]()
    for index in definition.unique:
        prefixes = index.prefixes or (0,) * len(index.columns)
        names = (
            n.lower() + (f"({p})" if p else "")
            for n, p in zip(index.columns, prefixes, strict=True)
        )
        other = [] if index.whole or index.prefixes else [f"index {index.name}"]
        column_sets.add(frozenset([*names, *other]))
    return column_sets


def _check_equal(before: SourceTable, ghost: SourceTable, names: dict[str, int]) -> None:
    """Raise SettingError if rows that differ in a key or UNIQUE index may be equal in the copy."""
    of_key = tuple(ghost.columns[number].name for number in ghost.primary_key)
    unique = {name.lower() for index in ghost.unique or () for name in index.columns}
    for column in ghost.columns:
        name = column.name.lower()
        if name in names and name in unique | {key_name.lower() for key_name in of_key}:
            old = before.columns[names[name]]
            if old.compares != column.compares or old.nullable > column.nullable:
                reason = f"which rows the key or UNIQUE index ({column.name}) has no room for now"
                raise _refused(ghost.name, reason)


def _check_generated(before: SourceTable, ghost: SourceTable, names: dict[str, int]) -> None:
    """Raise SettingError if an input of a generated column has another collation or another
    text."""
    changed = {
        column.name.lower()
        for column in ghost.columns
        if (number := names.get(column.name.lower())) is not None
        and (column.compares, column.detail)
        != (before.columns[number].compares, before.columns[number].detail)
    }
    for column in ghost.columns:
        words = {token.text.lower() for token in tokens(column.generated, 0)}
        if changed & words:
            raise _refused(ghost.name, f"the values of column {column.name}")


def _check_room(before: SourceTable, ghost: SourceTable) -> None:
    """Raise SettingError if a row may have no parent, or no partition."""
    had = {_foreign(key) for key in before.foreign_keys or ()}
    for key in ghost.foreign_keys or ():
        if _foreign(key) not in had:
            raise _refused(ghost.name, f"which rows a new foreign key ({key.name}) has no room for")
    then, now = before.partitioning, ghost.partitioning
    if now is None or now == then:
        return
    count = len(then.partitions) if then else 0
    if then is None or then != replace(now, partitions=now.partitions[:count]):
        raise _refused(ghost.name, "which rows its partitions have no room for")


def _foreign(key: ForeignKey) -> tuple[object, ...]:
    columns, referenced = (tuple(map(str.lower, names)) for names in (key.columns, key.referenced))
    return columns, key.parent, referenced


def _refused(name: str, reason: str) -> SettingError:
    return SettingError(
        f"an online schema-change tool's table, whose rows are left out, does not say: {reason}",
        table=name,
        hint=_HINT,
    )

"""Read FOREIGN KEY and REFERENCES of CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import StatementError
from ..tables.table_keys import ForeignKey
from ..tables.table_name import database_of, generated_prefix

if TYPE_CHECKING:
    from .sql_tokens import Cursor

# Engines that have foreign keys; other engines accept the clause and ignore it.
ENGINES = ("INNODB", "NDB", "NDBCLUSTER", "DEFAULT")
_ACTIONS = {
    "CASCADE": "CASCADE", "SET NULL": "SET NULL", "SET DEFAULT": "SET DEFAULT",
    "RESTRICT": "", "NO ACTION": "",
}  # fmt: skip


def of_table(parts: Sequence[Cursor], table: str) -> tuple[ForeignKey, ...]:
    """Return the foreign keys among the columns and keys of CREATE TABLE, also if other parts are
    not understood. Keys without a name have no name yet. ``table``: db.table. Raise StatementError
    for a key that is not understood."""
    keys: list[ForeignKey] = []
    for part in parts:
        name = constraint_name(part)
        if part.word("FOREIGN"):
            keys.append(foreign_key(part, table, name))
            continue
        column = part.again().next().raw.strip("`") if not part.at_end() else ""
        while not part.at_end():
            if part.at("REFERENCES"):
                keys.append(inline(references(part, table), column))
            elif part.at_symbol("("):
                part.parentheses()
            else:
                part.next()
    return tuple(keys)


def constraint_name(cursor: Cursor) -> str:
    """Consume CONSTRAINT and the name after it, if they come next."""
    kinds = ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
    return cursor.name() if cursor.word("CONSTRAINT") and not cursor.at(*kinds) else ""


def foreign_key(cursor: Cursor, table: str, name: str) -> ForeignKey:
    """Read on after FOREIGN. The constraint's ``name`` may be ''."""
    cursor.expect("KEY")
    if not cursor.at_symbol("("):
        cursor.name()  # of an index
    columns = tuple(part.name() for part in cursor.parentheses().parts())
    return replace(references(cursor, table), name=name, columns=columns)


def references(cursor: Cursor, table: str) -> ForeignKey:
    """Read ``REFERENCES table [(columns)] [MATCH x] [ON DELETE x] [ON UPDATE x]``. A table without
    a database is in the database of the referencing ``table``."""
    cursor.expect("REFERENCES")
    parent = cursor.table(database_of(table))
    referenced: tuple[str, ...] = ()
    if cursor.at_symbol("("):
        referenced = tuple(part.name() for part in cursor.parentheses().parts())
    on_delete = on_update = ""
    while True:
        if cursor.word("MATCH"):
            cursor.next()
        elif cursor.phrase("ON DELETE"):
            on_delete = _action(cursor)
        elif cursor.phrase("ON UPDATE"):
            on_update = _action(cursor)
        else:
            return ForeignKey("", (), parent, referenced, on_delete, on_update)


def inline(key: ForeignKey, column: str) -> ForeignKey:
    """Return the key of REFERENCES among a column's attributes."""
    return replace(key, columns=(column,), inline=True)


def _action(cursor: Cursor) -> str:
    for words, action in _ACTIONS.items():
        if cursor.phrase(words):
            return action
    raise StatementError(f"{cursor.rest()} is not understood")


def named(
    keys: Sequence[ForeignKey], table: str, before: Sequence[ForeignKey] = ()
) -> tuple[ForeignKey, ...]:
    """Return ``keys`` in which keys without a name have the names that InnoDB generates, in a table
    that has the keys ``before``."""
    prefix = generated_prefix(table)
    given = [key.name.lower().removeprefix(prefix.lower()) for key in before]
    number = max((int(text) for text in given if text.isdigit()), default=0)
    result = []
    for key in keys:
        number += not key.name
        result.append(key if key.name else replace(key, name=f"{prefix}{number}"))
    return tuple(result)


def altered(
    keys: Sequence[ForeignKey], table: str, added: Sequence[ForeignKey], dropped: Sequence[str]
) -> tuple[ForeignKey, ...]:
    """Return a table's keys after ALTER TABLE. ``dropped``: names, also of other constraints."""
    names = {name.lower() for name in dropped}
    left = [key for key in keys if key.name.lower() not in names]
    return (*left, *named(added, table, keys))

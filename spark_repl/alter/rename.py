"""Rename table definitions (RENAME TABLE, CREATE TABLE ... LIKE), and change the foreign keys that
refer to a renamed table or column, as InnoDB does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..tables.case_folding import fold
from ..tables.table_name import parts_of

if TYPE_CHECKING:
    from ..tables.source_table import SourceTable
    from ..tables.table_definition import Definition
    from ..tables.table_keys import ForeignKey
Keys = tuple["ForeignKey", ...]


def rename(definition: Definition, name: str) -> Definition:
    """Return the table under another name, ``database.table``. Foreign keys that the server named
    after the table get new names, and foreign keys that refer to the table itself use the new name.
    """
    database, table = parts_of(name)
    keys = definition.foreign_keys
    if keys is not None:
        prefix = f"{definition.table}_ibfk_"
        keys = tuple(
            replace(
                key,
                name=f"{table}_ibfk_{key.name[len(prefix) :]}"
                if key.name.lower().startswith(prefix.lower())
                else key.name,
                parent=name if key.parent == definition.name else key.parent,
            )
            for key in keys
        )
    return replace(definition, database=database, table=table, foreign_keys=keys, source_name="")


def like(definition: SourceTable, name: str) -> SourceTable:
    """Return the table that CREATE TABLE ``name`` LIKE creates: everything but the foreign keys."""
    database, table = parts_of(name)
    indexes = definition.indexes
    if indexes is not None:
        indexes = tuple(replace(index, generated=False) for index in indexes)
    return replace(
        definition, database=database, table=table, foreign_keys=(), indexes=indexes,
        truncated=False, source_name="",
    )  # fmt: skip


def with_parent(keys: Keys, before: str, after: str) -> Keys:
    """Return a table's foreign keys after RENAME of table ``before`` (db.table) to ``after``."""
    return tuple(
        replace(key, parent=after) if fold(key.parent) == fold(before) else key for key in keys
    )


def with_referenced(keys: Keys, parent: str, names: Mapping[str, str]) -> Keys:
    """Return a table's foreign keys after columns of the table ``parent`` were renamed.

    ``names``: old name -> new name.
    """
    lower = {before.lower(): after for before, after in names.items()}
    return tuple(
        replace(key, referenced=tuple(lower.get(name.lower(), name) for name in key.referenced))
        if fold(key.parent) == fold(parent)
        else key
        for key in keys
    )

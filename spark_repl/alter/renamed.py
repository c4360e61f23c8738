"""A table's definition under another name: RENAME TABLE, CREATE TABLE ... LIKE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..tables.table_name import parts_of

if TYPE_CHECKING:
    from ..tables.table_definition import TableDefinition


def rename(definition: TableDefinition, name: str) -> TableDefinition:
    """The table under another name, ``database.table``; foreign keys that the server has named
    after the table are named anew, those to itself follow."""
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


def like(definition: TableDefinition, name: str) -> TableDefinition:
    """The table that CREATE TABLE ``name`` LIKE makes: all but the foreign keys."""
    database, table = parts_of(name)
    indexes = definition.indexes
    if indexes is not None:
        indexes = tuple(replace(index, generated=False) for index in indexes)
    return replace(
        definition, database=database, table=table, foreign_keys=(), indexes=indexes,
        truncated=False, source_name="",
    )  # fmt: skip

"""Foreign keys that refer to a table or columns that get other names: InnoDB's follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..sql.case_folding import fold

if TYPE_CHECKING:
    from ..tables.table_keys import ForeignKey

Keys = tuple["ForeignKey", ...]


def with_parent(keys: Keys, before: str, after: str) -> Keys:
    """A table's keys behind a RENAME of the table ``before`` (db.table) to ``after``."""
    return tuple(
        replace(key, parent=after) if fold(key.parent) == fold(before) else key for key in keys
    )


def with_referenced(keys: Keys, parent: str, names: Mapping[str, str]) -> Keys:
    """A table's keys behind other names of columns in the table ``parent``: before -> after."""
    lower = {before.lower(): after for before, after in names.items()}
    return tuple(
        replace(key, referenced=tuple(lower.get(name.lower(), name) for name in key.referenced))
        if fold(key.parent) == fold(parent)
        else key
        for key in keys
    )

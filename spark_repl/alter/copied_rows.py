"""copies_rows: whether a server certainly copies a table's rows into a new table for an ALTER TABLE
(ALGORITHM=COPY), and so computes its STORED columns again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..sql.actions import AddColumn, AddKey, ChangeColumn, DropIndex, PartitionBy, SetCharset
from ..sql.keys import PRIMARY
from ..sql.new_columns import is_longer, same_type
from ..tables.column import ColumnType

if TYPE_CHECKING:
    from ..sql.actions import Alteration
    from ..sql.session import Session
    from ..tables.column import Column
    from .column_actions import PendingColumn

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

"""Names as a source with lower_case_table_names = 1 or 2 compares them: in lower case, as they also
stand in its TABLE_MAPs; statements are logged as they were written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..sql.actions import Alteration, RenameTable
from ..sql.folded_name import fold

if TYPE_CHECKING:
    from ..sql.classify import Statement
    from ..tables.table_definition import TableDefinition


def folded_definition(definition: TableDefinition) -> TableDefinition:
    return replace(
        definition,
        database=fold(definition.database),
        table=fold(definition.table),
        source_name=fold(definition.source_name),
    )


def folded(statement: Statement) -> Statement:
    """The statement with the names of its databases and tables folded."""
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

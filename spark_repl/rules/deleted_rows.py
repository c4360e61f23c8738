"""Rows that the source has deleted and the target keeps (``extra_columns``: deleted): what no
statement may do to them, as the source's server has not checked them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..alter.alteration import KeptColumn
from ..convert.widening import widens
from ..errors import SettingError
from ..sql.columns import same_type
from .metadata_columns import keeps_deleted

if TYPE_CHECKING:
    from ..alter.alteration import Altered
    from ..tables.table_definition import TableDefinition

_HINT = (
    "leave the statement out: spark-repl skip --config F --gtid GTID; or copy the table again,"
    " without the deleted rows: spark-repl snapshot --config F --table DB.T"
)


def check_deleted_rows(there: TableDefinition, made: Altered) -> None:
    """Raises SettingError where the target's table ``there`` becomes what ``made`` says, and rows
    that are deleted might go, with a partition, or be one with others by the key: of either the log
    says nothing."""
    if not keeps_deleted(there):
        return
    if made.gone:
        raise _refused(there, "the rows of a partition go")
    target = made.definition
    key = {
        origin.number: target.columns[number]
        for number, origin in enumerate(made.origins)
        if number in target.primary_key and isinstance(origin, KeptColumn)
    }
    for number in there.primary_key:
        old, new = there.columns[number], key.get(number)
        if new is None or not (same_type(old, new) or widens(old, new)):
            raise _refused(there, f"column {old.name} does not tell its rows apart as it did")


def _refused(there: TableDefinition, what: str) -> SettingError:
    reason = f"{what}, and the table keeps rows that are deleted (extra_columns: deleted)"
    return SettingError(reason, table=there.name, hint=_HINT)

"""Columns that the target has and the source has not (``extra_columns`` of ``[[tables]]``): table,
transaction and operation of a row's last change, and whether the source has deleted the row.

They follow all other columns, so the source's columns keep their numbers. A definition has them as
``kept``, with ``extra``. No statement may merge or remove rows that the source has deleted and the
target keeps: the source's server has not checked them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..alter.alteration import CarriedColumn
from ..config.tables import CHANNEL
from ..convert.lossless import widens
from ..errors import BEGIN_AGAIN, SettingError
from ..sql.new_columns import same_type
from ..tables.column import Column, ColumnType

if TYPE_CHECKING:
    from ..alter.alteration import Altered
    from ..tables.source_table import SourceTable
    from ..tables.target_table import TargetTable

_T = ColumnType
_UTF8MB4, _MICROSECONDS = 255, 6
_TYPES = {
    "shard": (_T.VARCHAR, 4 * 64),
    "source_table": (_T.VARCHAR, 4 * 129),
    "gtid": (_T.VARCHAR, 4 * 65535),
    "commit_time": (_T.TIMESTAMP, _MICROSECONDS),
    "operation": (_T.VARCHAR, 4 * 16),
    "position": (_T.LONGLONG, 0),
    "order": (_T.LONGLONG, 0),
    "deleted": (_T.BIT, 1),
    "valid_from_gtid": (_T.VARCHAR, 4 * 65535),
    "valid_from_time": (_T.TIMESTAMP, _MICROSECONDS),
    "valid_from_position": (_T.LONGLONG, 0),
    "valid_from_order": (_T.LONGLONG, 0),
    "valid_to_gtid": (_T.VARCHAR, 4 * 65535),
    "valid_to_time": (_T.TIMESTAMP, _MICROSECONDS),
    "valid_to_position": (_T.LONGLONG, 0),
    "current": (_T.BIT, 1),
}
INSERT, UPDATE, DELETE, TRUNCATE, COPY = "INSERT", "UPDATE", "DELETE", "TRUNCATE", "COPY"
"""values of the column ``_operation``"""
BEFORE, AFTER = "UPDATE_PREIMAGE", "UPDATE_POSTIMAGE"
"""values of the two rows of an UPDATE in mode changelog"""
_HINTS = {
    "extra_columns": "change extra_columns of the table's [[tables]], or the source's table",
    "key_prefix": "change the source's table, leave it out by [filters], or give key_prefix of"
    f" [[tables]] another name and {BEGIN_AGAIN}",
}


def name_of(extra: str) -> str:
    """Return the column's name for an entry of ``extra_columns``."""
    return f"_{extra}"


def with_extra(
    table: TargetTable, wanted: Sequence[str], mode: str = "mirror", shard: str = ""
) -> TargetTable:
    """Return the table with the ``wanted`` extra columns after its own, in a fixed order.
    ``shard``: the name of the column that identifies the shard. Raise SettingError if the table
    cannot have them."""
    if not wanted:
        return table
    names = {column.name.lower() for column in table.source.columns}
    prefix = "extra_columns" if shard == name_of(CHANNEL) else "key_prefix"
    extra = [_column(name, shard) for name in _TYPES if name in wanted]
    if clashing := [column for column in extra if column.name.lower() in names]:
        key = prefix if clashing[0].extra == "shard" else "extra_columns"
        raise _refused(table, key, f"the source's table has a column {clashing[0].name}, too")
    if not table.primary_key and mode == "mirror":
        reason = "the table has no key, so all its columns tell its rows apart"
        raise _refused(table, prefix if shard else "extra_columns", reason)
    return replace(table, columns=(*table.columns, *extra))


def check_extra(table: TargetTable, wanted: Sequence[str], reason: str, hint: str) -> None:
    """Raise SettingError with the ``reason`` if a rule's extra columns differ from the table's."""
    has = tuple(table.extra_columns)
    if {*wanted} != {*has}:
        listed = f"({', '.join(wanted) or 'none'}, not {', '.join(has) or 'none'})"
        raise SettingError(f"{reason} {listed}", table=table.name, hint=hint)


def _column(extra: str, shard: str) -> Column:
    kind, meta = _TYPES[extra]
    collation = _UTF8MB4 if kind == _T.VARCHAR else 0
    name = shard if extra == "shard" else name_of(extra)
    return Column(
        name, kind, meta, nullable=True, collation=collation, default="NULL", kept=True,
        extra=extra,
    )  # fmt: skip


def _refused(table: TargetTable, key: str, reason: str) -> SettingError:
    return SettingError(f"{key}: {reason}", table=table.name, hint=_HINTS[key])


_DELETED_HINT = (
    "leave the statement out: spark-repl skip --config F --gtid GTID; or copy the table again,"
    " without the deleted rows: spark-repl snapshot --config F --table DB.T"
)


def check_deleted_rows(
    before: TargetTable, altered: Altered[SourceTable] | Altered[TargetTable]
) -> None:
    """Raise SettingError if ``altered`` might remove deleted rows of the target's table ``before``
    with a partition, or give them the key of other rows, because the log would show neither."""
    if not before.keeps_deleted:
        return
    if altered.gone:
        raise _deleted_row_error(before, "the rows of a partition go")
    target = altered.definition
    key = {
        origin.number: target.columns[number]
        for number, origin in enumerate(altered.origins)
        if number in target.primary_key and isinstance(origin, CarriedColumn)
    }
    for number in before.primary_key:
        old, new = before.columns[number], key.get(number)
        if new is None or not (same_type(old, new) or widens(old, new)):
            raise _deleted_row_error(
                before, f"column {old.name} does not tell its rows apart as it did"
            )


def _deleted_row_error(table: TargetTable, what: str) -> SettingError:
    reason = f"{what}, and the table keeps rows that are deleted (extra_columns: deleted)"
    return SettingError(reason, table=table.name, hint=_DELETED_HINT)

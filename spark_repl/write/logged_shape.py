"""Whether the logged rows of a table are rows of the target's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ddl.column_rules import hides_columns, shown_columns
from ..ddl.extra_columns import check_extra, extra_of
from ..ddl.table_modes import check_mode
from ..errors import SchemaError, SettingError

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition
    from ..ddl.column_rules import ColumnRules
    from .table import Table


def names_key(table: Table, logged: TableDefinition) -> bool:
    """Whether the log names another key of a table that may have no PRIMARY KEY: the server picks a
    UNIQUE index then, and no statement says which."""
    wanted = table.definition.in_log
    if table.definition.has_primary or logged.primary_key == wanted.primary_key:
        return False
    if wanted is not table.definition:
        if not _fit(wanted, logged):
            return False
        chosen = table.definition.with_logged_key(logged.primary_key)
        exact = [table.definition.columns[i].logged is None for i in chosen.sought_key]
        return bool(exact) and all(exact)
    return table.columns.fits(logged.arrow_schema())


def check_definition(table: Table, logged: TableDefinition) -> None:
    """Raises SchemaError unless the logged rows fit the Delta table: the same names, types, key."""
    wanted = table.definition.in_log
    if wanted is not table.definition:  # the target keeps more: rows come with what it adds
        fits = _fit(wanted, logged)
    else:
        fits = table.columns.fits(logged.arrow_schema())
    if fits and logged.primary_key == wanted.primary_key:
        return
    hint = "a statement that this log does not hold changed the table: use an empty target"
    if [c.form for c in logged.columns] != [c.form for c in wanted.columns]:
        hint = (
            "target.zero_dates, time_as, json_as or geometry_as is not what the table was made with"
        )
    theirs = ", ".join(f"{c.name} {c.type_name}" for c in logged.columns)
    raise SchemaError(
        f"the logged rows have the columns ({theirs}; key {logged.primary_key}), the Delta table"
        f" ({table.columns.describe()}; key {table.definition.primary_key})",
        table=table.name,
        hint=hint,
    )


def check_columns(table: Table, rules: ColumnRules) -> None:
    """Raises SettingError where columns are withheld, masked or added, or rows filtered, otherwise
    than the table was made with."""
    there = table.at_place
    rule = rules.rule_of(there.in_log)
    mine = hides_columns(there) or bool(there.row_filter or extra_of(there) or there.mode)
    if not mine and not rules.concern(table.name):
        return
    check_mode(there, rule.mode, "mode is another one than the table was made with")
    check_extra(
        there,
        rule.added_columns,
        "extra_columns are others than the table was made with",
        "take the change back, or use an empty target",
    )
    if there.row_filter != (said := rule.row_filter):
        raise SettingError(
            f"row_filter {said!r} is another one than the table was made with,"
            f" {there.row_filter!r}",
            table=table.name,
            hint="take the change back, or use an empty target",
        )
    if shown_columns(rules.shaped(there.in_log)) != shown_columns(there):
        raise SettingError(
            "include, exclude, mask or its key is another one than the table was made with",
            table=table.name,
            hint="take the change back, or use an empty target",
        )


def _fit(wanted: TableDefinition, logged: TableDefinition) -> bool:
    """Whether both have the same names and types."""
    ours, theirs = wanted.arrow_schema(), logged.arrow_schema()
    return bool(ours.names == theirs.names and ours.types == theirs.types)

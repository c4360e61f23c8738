"""Logged shape: whether the logged rows of a table fit the target's table, and what TABLE_MAPs tell
of its character sets and collations.

A statement without CHARACTER SET or COLLATE uses the default of the table or the database, which
its event does not contain. A statement on a table, or a cascade to it, may come where no TABLE_MAP
of the table is near. So the applier records what earlier TABLE_MAPs contained.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ...alter.declared_charsets import changes_charset, with_logged_charsets
from ...binlog.charsets.charset import REPLACEMENT
from ...errors import SchemaError, SettingError, reset_table
from ...rules.channel_rows import check_key_stays
from ...rules.column_rules import hides_columns, shown_columns
from ...rules.metadata_columns import check_extra, extra_of, shard_column
from ...rules.table_mode import check_mode
from ...rules.tool_names import tool_table
from ...sql.case_folding import fold
from ...tables.column import NUMERIC_TYPES, ColumnType
from .row_error import copied_anew

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...rules.column_rules import ColumnRules
    from ...tables.column import Column
    from ...tables.table_definition import TableDefinition
    from .table import Table
    from .tracking import Tracking

_TIMESTAMPS = (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP_OLD)


def names_key(table: Table, logged: TableDefinition) -> bool:
    """Whether the log names another key of a table that may have no PRIMARY KEY: the server picks a
    UNIQUE index then, and no statement says which. Raises SettingError where channels tell their
    rows apart by the one that was."""
    wanted = table.definition.in_log
    if table.definition.has_primary or logged.primary_key == wanted.primary_key:
        return False
    if wanted is not table.definition:
        if not _fit(wanted, logged):
            return False
        chosen = table.definition.with_logged_key(logged.primary_key)
        exact = [table.definition.columns[i].logged is None for i in chosen.sought_key]
        if exact and all(exact):
            check_key_stays(table.definition, chosen)
            return True
        return False
    return table.columns.fits(logged.arrow_schema())


def check_definition(table: Table, logged: TableDefinition) -> None:
    """Raises SchemaError unless the logged rows fit the Delta table: the same names, types and key,
    and of each column NULL or NOT NULL, sign and members, as far as the log says them."""
    wanted = table.definition.in_log
    if wanted is not table.definition:  # the target keeps more: rows come with what it adds
        fits = _fit(wanted, logged)
    else:
        fits = table.columns.fits(logged.arrow_schema())
    if fits and logged.primary_key == wanted.primary_key:
        _check_attributes(table, logged)
        return
    hint = f"a statement that this log does not hold changed the table: {copied_anew(table)}"
    if [c.form for c in logged.columns] != [c.form for c in wanted.columns]:
        hint = (
            "target.zero_dates, time_as, json_as or geometry_as is not what the table was made with"
        )
    theirs, ours = _described(logged), _described(wanted)
    if theirs == ours:  # then it is how the target keeps them
        ours = table.columns.describe()
    raise SchemaError(
        f"the logged rows have the columns ({theirs}), the table has ({ours})",
        table=table.name,
        hint=hint,
    )


def _described(definition: TableDefinition) -> str:
    columns = ", ".join(f"{c.name} {c.type_name}" for c in definition.columns)
    key = ", ".join(definition.columns[i].name for i in definition.primary_key)
    return f"{columns}; key {key or 'none'}"


def check_columns(table: Table, rules: ColumnRules) -> None:
    """Raises SettingError where columns are withheld, masked or added, or rows filtered, otherwise
    than the table was made with."""
    there = table.at_place
    rule = rules.rule_of(there.in_log, there)
    mine = hides_columns(there) or bool(there.row_filter or extra_of(there) or there.mode)
    if not mine and not rules.reshapes(table.name):
        return
    check_mode(there, rule.mode, "mode is another one than the table was made with")
    check_extra(
        there,
        rule.added_columns,
        "extra_columns are others than the table was made with",
        _back(table.name),
    )
    number = shard_column(there)
    if number >= 0 and (name := there.columns[number].name) != rule.shards_by:
        raise SettingError(
            f"key_prefix {rule.shards_by!r} is another one than the table was made with, {name!r}",
            table=table.name,
            hint=_back(table.name),
        )
    if there.row_filter != (said := rule.row_filter):
        raise SettingError(
            f"row_filter {said!r} is another one than the table was made with,"
            f" {there.row_filter!r}",
            table=table.name,
            hint=_back(table.name),
        )
    now, then = shown_columns(rules.shaped(there.in_log, there)), shown_columns(there)
    if now == then:
        return
    if [(name, _kind(mask)) for name, mask in now] == [(name, _kind(mask)) for name, mask in then]:
        raise SettingError(
            "the secret key of masks is another one than the table was made with: its rows would be"
            " masked by two",
            table=table.name,
            hint="give the key of before (target.mask_key_env, mask_key_file), or use an empty"
            " target",
        )
    raise SettingError(
        "include, exclude or mask is another one than the table was made with",
        table=table.name,
        hint=_back(table.name),
    )


def _kind(mask: str) -> str:
    """The mask without what is seen of its secret key."""
    return "sha256" if mask.startswith("sha256") else mask


def _back(name: str) -> str:
    """What to do about a rule that is another one than the table was made with."""
    back = f"take the change back, or {reset_table(name)}"
    if (tool := tool_table(name)) is None:
        return back
    own = name.replace("_", r"\_").replace("%", r"\%")
    return (
        f"{back}; its rule may be that of {tool.of}, as whose copy it counts by its name: a rule"
        f" of its own, match = '{own}', says otherwise"
    )


def _check_attributes(table: Table, logged: TableDefinition) -> None:
    """What a statement was taken for counts for later rows, and for what ALTER TABLE makes of those
    that are there: where a TABLE_MAP says otherwise, it was taken wrongly."""
    mine = table.definition_in_log
    if len(mine.columns) != len(logged.columns) or not any(
        map(_is_unlike, mine.columns, logged.columns)
    ):
        return
    ours, theirs = (", ".join(map(_written, one.columns)) for one in (mine, logged))
    raise SchemaError(
        f"the logged rows have the columns ({theirs}), by the statements seen so far they are"
        f" ({ours})",
        table=table.name,
        hint="copy the table again: spark-repl snapshot --config F --table DB.T; and report the"
        " statement, which was not seen or not understood",
    )


def _is_unlike(mine: Column, theirs: Column) -> bool:
    signed = mine.type in NUMERIC_TYPES and mine.unsigned != theirs.unsigned
    if signed or not _same_members(mine.literals, theirs.literals):
        return True
    # What TIMESTAMP means is not known of servers before 8.0.
    said = mine.default == "NULL" and not mine.generated
    unknown = mine.type in _TIMESTAMPS and mine.nullable and not said
    return mine.nullable != theirs.nullable and not unknown


def _same_members(mine: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    """Return whether members agree. SHOW CREATE TABLE and statements have another text for a member
    in which the log has bytes without a character."""
    return len(mine) == len(theirs) and all(
        own == logged or REPLACEMENT in logged for own, logged in zip(mine, theirs, strict=True)
    )


def _written(column: Column) -> str:
    sign = " UNSIGNED" if column.unsigned and column.type in NUMERIC_TYPES else ""
    listed = f"({', '.join(map(repr, column.literals))})" if column.literals else ""
    null = "" if column.nullable else " NOT NULL"
    return f"{column.name} {column.type_name}{listed}{sign}{null}"


def _fit(wanted: TableDefinition, logged: TableDefinition) -> bool:
    """Whether both have the same names and types."""
    ours, theirs = wanted.arrow_schema(), logged.arrow_schema()
    return bool(ours.names == theirs.names and ours.types == theirs.types)


class ToldCollations:
    """Records what the log tells of one group's tables: each character set, collations of those
    with foreign keys; which tables others refer to is asked once."""

    def __init__(self, tracking: Tracking, before: Cut) -> None:
        self._tracking, self._before = tracking, before

    @cached_property
    def _parents(self) -> set[str]:
        known = self._tracking.foreign_keys().values()
        return {fold(key.parent) for keys in known for key in keys or ()}

    def take(self, table: Table, logged: TableDefinition) -> None:
        """Record what the log tells of ``table`` behind ``before``, once, with the next row of the
        control table."""
        there = table.at_place
        told = with_logged_charsets(there, logged)
        if told is there:
            return
        if not changes_charset(told, there) and (
            there.in_log is not there  # no cascade goes there
            or not (there.foreign_keys or fold(table.name) in self._parents)
        ):
            return
        if table.logged is not None:  # it is ahead, and has been told
            table.take_at_place(told)
        else:
            self._tracking.definitions.record(
                table.path, told, self._before.position, with_next=True
            )
            table.definition = told

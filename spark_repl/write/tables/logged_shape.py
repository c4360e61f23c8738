"""Logged shape: whether the logged rows of a table fit the target's table. And the character sets
and collations that TABLE_MAPs have.

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
from ...rules.metadata_columns import check_extra
from ...rules.table_mode import check_mode
from ...rules.tool_names import tool_table
from ...tables.case_folding import fold
from ...tables.column import NUMERIC_TYPES, ColumnType
from .row_error import copied_anew

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...control.records.definitions import Definitions
    from ...control.table.cut import Cut
    from ...rules.column_rules import ColumnRules
    from ...tables.column import Column
    from ...tables.source_table import SourceTable
    from ...tables.table_keys import ForeignKey
    from .table import Table

_TIMESTAMPS = (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP_OLD)


def has_other_key(table: Table, logged: SourceTable) -> bool:
    """Return whether the log shows another key for a table that may have no PRIMARY KEY. The server
    then uses a UNIQUE index as key, which no statement names."""
    wanted = table.definition.source
    if table.definition.has_primary or logged.primary_key == wanted.primary_key:
        return False
    if not table.definition.is_mirror:
        if not _fit(wanted, logged):
            return False
        chosen = table.definition.with_source_key(logged.primary_key)
        exact = [table.definition.columns[i].logged is None for i in chosen.lookup_key]
        if exact and all(exact):
            check_key_stays(table.definition, chosen)
            return True
        return False
    return table.columns.fits(logged.arrow_schema())


def check_definition(table: Table, logged: SourceTable) -> None:
    """Raise SchemaError unless the logged rows fit the Delta table. Names, types and key must be
    equal. NULL or NOT NULL, sign and members of each column must be equal as far as the log
    contains them."""
    wanted = table.definition.source
    if not table.definition.is_mirror:  # the target keeps more: it adds to the rows
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
    if theirs == ours:  # the difference is in the types of the target
        ours = table.columns.describe()
    raise SchemaError(
        f"the logged rows have the columns ({theirs}), the table has ({ours})",
        table=table.name,
        hint=hint,
    )


def _described(definition: SourceTable) -> str:
    columns = ", ".join(f"{c.name} {c.type_name}" for c in definition.columns)
    key = ", ".join(definition.columns[i].name for i in definition.primary_key)
    return f"{columns}; key {key or 'none'}"


def check_columns(table: Table, rules: ColumnRules) -> None:
    """Raise SettingError if the rules for excluded, masked or added columns, or for rows, differ
    from those with which the table was created."""
    definition = table.at_place
    rule = rules.rule_of(definition.source, definition)
    if not definition.is_shaped and not rules.reshapes(table.name):
        return
    check_mode(definition, rule.mode, "mode is another one than the table was made with")
    check_extra(
        definition,
        rule.added_columns,
        "extra_columns are others than the table was made with",
        _back(table.name),
    )
    number = definition.shard_column
    if number >= 0 and (name := definition.columns[number].name) != rule.shards_by:
        raise SettingError(
            f"key_prefix {rule.shards_by!r} is another one than the table was made with, {name!r}",
            table=table.name,
            hint=_back(table.name),
        )
    if definition.row_filter != (row_filter := rule.row_filter):
        raise SettingError(
            f"row_filter {row_filter!r} is another one than the table was made with,"
            f" {definition.row_filter!r}",
            table=table.name,
            hint=_back(table.name),
        )
    now, then = (
        rules.shaped(definition.source, definition).shown_columns,
        definition.shown_columns,
    )
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
    """Return the mask without the fingerprint of its secret key."""
    return "sha256" if mask.startswith("sha256") else mask


def _back(name: str) -> str:
    """Return the hint for a rule that differs from the one that the table was created with."""
    back = f"take the change back, or {reset_table(name)}"
    if (tool := tool_table(name)) is None:
        return back
    own = name.replace("_", r"\_").replace("%", r"\%")
    return (
        f"{back}; its rule may be that of {tool.of}, as whose copy it counts by its name: a rule"
        f" of its own, match = '{own}', says otherwise"
    )


def _check_attributes(table: Table, logged: SourceTable) -> None:
    """Raise SchemaError if a TABLE_MAP contradicts the attributes that statements gave the columns.
    The attributes matter for later rows, and for the values that ALTER TABLE computes from existing
    rows: the applier misread a statement."""
    expected = table.at_place.source
    if len(expected.columns) != len(logged.columns) or not any(
        map(_is_unlike, expected.columns, logged.columns)
    ):
        return
    ours, theirs = (
        ", ".join(map(_written, definition.columns)) for definition in (expected, logged)
    )
    raise SchemaError(
        f"the logged rows have the columns ({theirs}), by the statements seen so far they are"
        f" ({ours})",
        table=table.name,
        hint="copy the table again: spark-repl snapshot --config F --table DB.T; and report the"
        " statement, which was not seen or not understood",
    )


def _is_unlike(expected: Column, logged: Column) -> bool:
    signed = expected.type in NUMERIC_TYPES and expected.unsigned != logged.unsigned
    if signed or not _same_members(expected.literals, logged.literals):
        return True
    # Servers before 8.0 don't log explicit_defaults_for_timestamp: TIMESTAMP may be NOT NULL.
    defaults_to_null = expected.default == "NULL" and not expected.generated
    unknown = expected.type in _TIMESTAMPS and expected.nullable and not defaults_to_null
    return expected.nullable != logged.nullable and not unknown


def _same_members(expected: tuple[str, ...], logged: tuple[str, ...]) -> bool:
    """Return whether members agree. SHOW CREATE TABLE and statements have another text for a member
    in which the log has bytes without a character."""
    return len(expected) == len(logged) and all(
        member == other or REPLACEMENT in other
        for member, other in zip(expected, logged, strict=True)
    )


def _written(column: Column) -> str:
    sign = " UNSIGNED" if column.unsigned and column.type in NUMERIC_TYPES else ""
    listed = f"({', '.join(map(repr, column.literals))})" if column.literals else ""
    null = "" if column.nullable else " NOT NULL"
    return f"{column.name} {column.type_name}{listed}{sign}{null}"


def _fit(wanted: SourceTable, logged: SourceTable) -> bool:
    """Return whether both have the same names and types."""
    ours, theirs = wanted.arrow_schema(), logged.arrow_schema()
    return bool(ours.names == theirs.names and ours.types == theirs.types)


class LoggedCharsets:
    """Records what the log shows about one group's tables: each character set, and collations of
    tables with foreign keys. It determines once which tables are referenced by others."""

    def __init__(
        self,
        definitions: Definitions,
        foreign_keys: Callable[[], Mapping[str, tuple[ForeignKey, ...] | None]],
        before: Cut,
    ) -> None:
        self._definitions, self._foreign_keys = definitions, foreign_keys
        self._before = before

    @cached_property
    def _parents(self) -> set[str]:
        keys_by_table = self._foreign_keys().values()
        return {fold(key.parent) for keys in keys_by_table for key in keys or ()}

    def record(self, table: Table, logged: SourceTable) -> None:
        """Record what the log shows about ``table``, as of ``before``, with the next row of the
        control table. Record it only once."""
        recorded = table.at_place
        logged_charsets = with_logged_charsets(recorded, logged)
        if logged_charsets is recorded:
            return
        if not changes_charset(logged_charsets, recorded) and (
            not recorded.is_mirror  # no cascade goes there
            or not (recorded.foreign_keys or fold(table.name) in self._parents)
        ):
            return
        if table.logged is not None:  # the table is ahead: its newer definition is recorded
            table.define_at_place(logged_charsets)
        else:
            self._definitions.record(
                table.path, logged_charsets, self._before.position, with_next=True
            )
            table.definition = logged_charsets

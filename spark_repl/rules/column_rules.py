"""ColumnRules: apply ``[[tables]]`` to a table's definition, and to a statement that changes it.
The target may lack columns or rows, and may have masked columns.

A rule matches tables and columns by name. The target's definition itself records what it lacks
(``withheld``, ``row_filter``) and what is masked (``mask``), so it differs from a definition by
another rule.

Workers, copies, ``verify`` and ``TargetOptions`` use it. Raises SettingError for a rule that does
not fit a table. Design: docs/design/table-definitions.md, docs/design/masked-keys.md.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..alter.alteration import Altered, CarriedColumn, ConstantValue, UnknownValue
from ..alter.rename import rename
from ..config.rules import nearest
from ..config.tables import SHAPING_KEYS
from ..config.wildcards import lacks_wildcards
from ..errors import SettingError, StatementError
from ..tables.column import BINARY, CHARACTER_TYPES, Column, ColumnType
from ..tables.target_table import TargetTable
from .masking import key_fault, mask_change, masked_default, without_default
from .metadata_columns import check_extra, with_extra
from .table_mode import check_mode, in_mode, keeps_removed_rows
from .table_rules import NO_RULE, TableRules
from .tool_names import Role, tool_table

if TYPE_CHECKING:
    from ..alter.alteration import ColumnSource
    from ..config.tables import TableRule
    from ..tables.source_table import SourceTable

_T = ColumnType
_ASCII = 11
_DIGITS = 64
# Values of other types have no text that is equal for equal values.
_HASHED = CHARACTER_TYPES | {
    _T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.DECIMAL, _T.DATE, _T.DATETIME,
    _T.TIMESTAMP, _T.TIME, _T.YEAR, _T.ENUM, _T.SET, _T.BIT, _T.DATETIME_OLD, _T.TIMESTAMP_OLD,
    _T.TIME_OLD,
}  # fmt: skip
_HINT = "change include, exclude or mask of the table's [[tables]]"
_COPY = "copy the table again (spark-repl snapshot --config F --table DB.T), as run does by itself"
_LEAVE_OUT = (
    "leave the statement out (spark-repl skip --config F --gtid GTID) and copy the table under its"
    " new name"
)


@dataclass(frozen=True)
class ColumnRules:
    """The ``rules`` of all tables, and the secret ``key`` of sha256 masks, at most 64 bytes."""

    rules: TableRules = field(default_factory=TableRules)
    key: bytes = field(default=b"", repr=False)

    @property
    def any(self) -> bool:
        """Return whether any rule withholds or masks columns."""
        return any(rule.include or rule.exclude or rule.mask for rule in self.rules.rules)

    @property
    def withholding(self) -> TableRule | None:
        """Return the first rule because of which values or rows of the log must not be kept
        elsewhere."""
        return next((rule for rule in self.rules.rules if rule.withheld), None)

    def folded(self) -> ColumnRules:
        """Return the rules for a source whose names are in lower case."""
        return replace(self, rules=self.rules.folded())

    @property
    def adds_columns(self) -> bool:
        """Return whether any table has extra columns."""
        return any(rule.added_columns for rule in self.rules.rules)

    def reshapes(self, name: str) -> bool:
        """Return whether the table ``name`` has other rows or columns in the target than on the
        source."""
        return bool(self.rules.shaping(name).reshaping)

    def hides(self, name: str) -> bool:
        """Return whether the table ``name`` has withheld or masked columns."""
        rule = self.rules.shaping(name)
        return bool(rule.include or rule.exclude or rule.mask)

    def filters_rows(self, name: str) -> bool:
        """Return whether the table ``name`` has a row filter."""
        return bool(self.rules.shaping(name).row_filter)

    def mode(self, name: str) -> str:
        """Return the mode of the table ``name``."""
        return self.rules.shaping(name).mode

    def rule_of(self, logged: SourceTable, existing: TargetTable | None = None) -> TableRule:
        """Return the rule for rows and columns of the source's table; NO_RULE if there is none.
        ``existing``: the target's table, if it exists. A table with a row filter is never a tool's
        sentry table."""
        rule = self.rules.shaping(logged.name)
        rows = self._is_own(rule, logged) or bool(existing and existing.row_filter)
        return rule if rows or not _is_sentry(logged, rule) else NO_RULE

    def _is_own(self, rule: TableRule, logged: SourceTable) -> bool:
        return rule is self.rules.of_table(logged.name)

    def check_renamed(self, before: TargetTable, after: str) -> None:
        """Raise SettingError if the name ``after`` gives the target's table ``before`` other rows
        or columns."""
        logged = rename(before.source, after)
        rule = self.rule_of(logged, before)
        check_mode(before, rule.mode, f"it would be called {after}, which has another mode")
        check_extra(
            before,
            rule.added_columns,
            f"it would be called {after}, which has other extra_columns",
            f"give both names the same extra_columns, or {_LEAVE_OUT}",
        )
        if (wanted := rule.row_filter) != before.row_filter:
            raise SettingError(
                f"it would be called {after}, whose rows are filtered otherwise"
                f" (row_filter {wanted!r}, not {before.row_filter!r})",
                table=before.name,
                hint=f"give both names one row_filter, or {_LEAVE_OUT}",
            )
        now, then = before.shown_columns, self.shaped(logged, before).shown_columns
        if now != then:
            differ = ", ".join(sorted({name for name, _ in {*now} ^ {*then}}))
            raise SettingError(
                f"it would be called {after}, whose columns are withheld or masked otherwise"
                f" ({differ})",
                table=before.name,
                hint=f"give both names the same include, exclude and mask, or {_LEAVE_OUT}",
            )

    def check_renamed_waiting(self, before: str, after: str) -> None:
        """Raise SettingError if the new name of a table that waits for a copy would give the copy
        other columns or rows."""
        old, new = self.rules.shaping(before), self.rules.shaping(after)
        if any(getattr(old, key) != getattr(new, key) for key in SHAPING_KEYS):
            raise SettingError(
                f"it would be called {after}, of which other columns or rows are in the target",
                table=before,
                hint=f"give both names the same rule, or {_LEAVE_OUT}",
            )

    def shaped(self, logged: SourceTable, existing: TargetTable | None = None) -> TargetTable:
        """Return the target's table for the source's ``logged``. ``existing``: the target's table
        before. Raise SettingError if a rule does not fit the table."""
        if not self.reshapes(logged.name):
            return TargetTable.mirror_of(logged)
        rule = self.rule_of(logged, existing)
        _check(logged, rule, named=lacks_wildcards(rule.match) and self._is_own(rule, logged))
        masks = {name.lower(): mask for name, mask in rule.mask}
        columns, withheld, key = list[Column](), list[tuple[int, Column]](), dict[int, int]()
        for number, column in enumerate(logged.columns):
            if _is_withheld(column.name, rule):
                withheld.append((number, without_default(column)))
                continue
            key[number] = len(columns)
            mask = masks.get(column.name.lower(), "")
            columns.append(self._masked(column, mask, logged) if mask else column)
        shaped = replace(
            TargetTable.mirror_of(logged),
            columns=tuple(columns),
            withheld=tuple(withheld),
            primary_key=tuple(key[number] for number in logged.primary_key),
            row_filter=rule.row_filter,
        )
        return in_mode(with_extra(shaped, rule.added_columns, rule.mode, rule.shards_by), rule.mode)

    def recordable(self, logged: SourceTable) -> SourceTable:
        """Return the source's table in a form that may be recorded: without the defaults of hidden
        columns. Raise SettingError as ``shaped`` does."""
        return self.shaped(logged).source

    def _masked(self, column: Column, mask: str, table: SourceTable) -> Column:
        masked = self._typed(column, mask, table)
        masked = replace(masked, default=masked_default(masked, self.key))
        return replace(masked, logged=without_default(column, masked))

    def _typed(self, column: Column, mask: str, table: SourceTable) -> Column:
        """Return the masked column without its default."""
        plain = replace(
            column, mask=mask, logged=column, default=None, generated="", auto_increment=False
        )
        text = column.type in CHARACTER_TYPES
        verb, _, value = mask.partition(":")
        if mask == "null":
            return replace(plain, nullable=True)
        if mask == "sha256" and (column.type in _HASHED or column.form == "text"):
            hashed = Column(column.name, _T.STRING, _DIGITS, column.nullable, collation=_ASCII)
            seen = hmac.new(self.key, b"spark_repl", "sha256").hexdigest()[:8]
            return replace(hashed, visible=column.visible, mask=f"sha256:{seen}", logged=column)
        if (verb == "truncate" and text) or (
            verb == "keep_last" and text and column.collation != BINARY
        ):
            # Masked values have any length: CHAR(n) would be padded to n.
            return replace(plain, type=_T.VARCHAR) if column.type == _T.STRING else plain
        if verb == "constant" and text and column.collation != BINARY:
            return replace(plain, meta=max(column.meta, 4 * len(value)))
        raise SettingError(
            f"mask {mask} has no meaning for column {column.name}, of type {column.type_name}",
            table=table.name, hint=_HINT,
        )  # fmt: skip


def _is_withheld(name: str, rule: TableRule) -> bool:
    included = {column.lower() for column in rule.include}
    return bool(included and name.lower() not in included) or name.lower() in {
        column.lower() for column in rule.exclude
    }


def _is_sentry(logged: SourceTable, rule: TableRule) -> bool:
    """Return whether a tool's table is not a copy of the rule's table, but a sentry with one column
    and no row. gh-ost reserves the table's future name by it."""
    tool = tool_table(logged.name_on_source)
    alone = [column.name for column in logged.columns] == ["id"]
    masked = "id" in {name.lower() for name, _ in rule.mask}
    about = bool(rule.row_filter) or masked or _is_withheld("id", rule)
    return alone and about and (tool is None or tool.role is Role.OTHER)


def masked_otherwise(target: TargetTable, read: TargetTable) -> str:
    """Return the first column that both tables have with different masks or secret keys; "" for
    none."""
    masks = dict(target.shown_columns)
    return next((name for name, mask in read.shown_columns if masks.get(name, mask) != mask), "")


def _listed_columns(rule: TableRule) -> list[str]:
    """Return the columns that the rule names."""
    return [*rule.include, *rule.exclude, *(name for name, _ in rule.mask)]


def with_dropped_columns(target: TargetTable, source: SourceTable, rule: TableRule) -> SourceTable:
    """Return the source's table with those dropped columns of the ``target`` that the rule still
    names."""
    had = {column.name.lower() for column in target.source.columns}
    had |= {name.lower() for name in target.gone}
    left = had - {column.name.lower() for column in source.columns}
    return replace(
        source, gone=tuple(name for name in _listed_columns(rule) if name.lower() in left)
    )


def _check(logged: SourceTable, rule: TableRule, *, named: bool) -> None:
    def refused(reason: str) -> SettingError:
        return SettingError(f"[[tables]] {rule.match}: {reason}", table=logged.name, hint=_HINT)

    names = [column.name.lower() for column in logged.columns]
    existing = {*names, *(name.lower() for name in logged.gone)}
    if named and (unknown := [n for n in _listed_columns(rule) if n.lower() not in existing]):
        own = [column.name for column in logged.columns]
        listed = (f"{name}{nearest(name, own)}" for name in unknown)
        raise refused(f"the table has no column {', '.join(listed)}")
    masked = {name.lower() for name, _ in rule.mask}
    hidden = {name for name in names if _is_withheld(name, rule) or name in masked}
    if not hidden:
        return
    if not logged.primary_key:
        raise refused("the table has no key, so all its columns tell its rows apart")
    for name in (names[number] for number in logged.primary_key if names[number] in hidden):
        if fault := key_fault(logged, name, rule):
            raise refused(f"column {name} is of the key{fault}")
    for foreign in logged.foreign_keys or ():
        if any(name.lower() in hidden for name in foreign.columns):
            raise refused(f"foreign key {foreign.name} is of a column that is withheld or masked")


def shaped_alteration(
    before: TargetTable, altered: Altered[SourceTable], rules: ColumnRules, *, strict: bool
) -> Altered[TargetTable]:
    """Return the new state of the target's table ``before`` if the source's table is ``altered``.
    ``strict``: whether the statement's session is strict.

    Raise SettingError if a column would be shown, withheld or masked differently under its new
    name. Raise StatementError if the target's rows lack values that the new rows need.
    """
    source = altered.definition
    target = rules.shaped(with_dropped_columns(before, source, rules.rule_of(source)), before)
    if altered.gone and keeps_removed_rows(before):
        altered = replace(altered, gone=None)
    if altered.gone and before.hides_columns:
        raise _unknown(
            before, "the rows of a partition are not looked for where columns are masked"
        )
    origins: list[ColumnSource] = []
    for column, origin, number in zip(source.columns, altered.origins, target.numbers, strict=True):
        if number >= 0:
            origins.append(_origin(before, target.columns[number], origin, strict=strict))
        elif isinstance(origin, CarriedColumn) and before.numbers[origin.number] >= 0:
            raise _otherwise(before, column, "shown")
    extra = [number for number, column in enumerate(before.columns) if column.extra]
    origins += map(CarriedColumn, extra)
    return altered.of(target, tuple(origins))


def _origin(
    before: TargetTable, column: Column, origin: ColumnSource, *, strict: bool
) -> ColumnSource:
    """Return the origin of a column of the target. ``origin``: that of the source's column."""
    if isinstance(origin, UnknownValue):
        return origin
    if isinstance(origin, CarriedColumn):
        number = before.numbers[origin.number]
        old = before.columns[number] if number >= 0 else None
        if old is None or old.mask != column.mask:
            raise _otherwise(before, column, "withheld" if old is None else "masked otherwise")
        if not column.mask:
            return CarriedColumn(number, origin.written)
        if change := mask_change(old, column, strict=strict):
            raise _unknown(before, f"column {column.name}, which is masked, becomes {change}")
        return CarriedColumn(number)
    if column.mask:
        if origin == ConstantValue("NULL") and not column.mask.startswith("constant"):
            return origin
        raise _unknown(before, f"column {column.name} is new and masked")
    if not isinstance(origin, ConstantValue) and before.hides_columns:
        raise _unknown(before, f"column {column.name} is new, and not of one value")
    return origin


def _otherwise(before: TargetTable, column: Column, how: str) -> SettingError:
    reason = f"column {column.name} was {how} under another name"
    hint = f"{_HINT}, so that both names are treated alike"
    return SettingError(reason, table=before.name, hint=hint)


def _unknown(before: TargetTable, reason: str) -> StatementError:
    return StatementError(reason, table=before.name, hint=_COPY)

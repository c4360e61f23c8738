"""Altered rows: the rows of a table after ALTER TABLE, as MySQL computes them from those before
it.

The target may have replaced values that Delta can't hold: NULL for a zero date (``zero_dates =
"null"``), U+FFFD for bytes without a character (``text_errors = "replace"``). ALTER TABLE is
refused where its outcome depends on the value that was replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from ...alter.alteration import (
    Altered,
    CarriedColumn,
    ComputedValue,
    ConstantValue,
    CurrentTimestamp,
    RestoredColumn,
    UnknownValue,
)
from ...alter.column_defaults import literal
from ...binlog.charsets.charset import REPLACEMENT, charset_of
from ...binlog.json.variant_text import document_to_variant
from ...convert.conversion import convert
from ...convert.lossless import keeps_values
from ...convert.temporal import put_utc
from ...convert.type_change import TypeChange, TypeFamily, family_of
from ...delta.files.delta_columns import one_chunk
from ...delta.log.schema_change import has_mapping, keeps_columns
from ...errors import SettingError, StatementError
from ...expressions.evaluation import computed
from ...expressions.input_rows import InputRows
from ...rules.metadata_columns import TRUNCATE
from ...tables.column import DATE_TYPES, Column, ColumnType, Form
from ..files.compaction import CompactTask, live_rows
from ..files.key_index import write_indexed
from ..files.write_task import Written

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa

    from ...alter.alteration import CarriedColumn
    from ...convert.type_change import TypeChange
    from ...delta.log.table_snapshot import NewTable, Snapshot
    from ...sql.session import Session
    from ...tables.source_table import SourceTable
    from ...tables.target_table import TargetTable

NULL = "NULL"
UNKNOWN_ROWS = (
    "the log does not say what the rows become: copy the table after this statement (spark-repl"
    " snapshot --config F --table DB.T), or change it by hand and leave the statement out"
    " (spark-repl skip --config F --gtid GTID)"
)
_FEED_HINT = (
    "copy the table after this statement (spark-repl snapshot --config F --table DB.T); or switch"
    " its feed off (delta.enableChangeDataFeed = false) until the statement has been applied"
)
_ZERO_DATE = "'0000-00-00"


def keeps_rows(
    before: TargetTable, altered: Altered[TargetTable], session: Session, wide: Collection[int] = ()
) -> bool:
    """Return whether every value of every row stays the same, and new columns are NULL in all rows.
    ``wide``: numbers of columns whose type in the data files holds both the old and the new values.
    """
    return all(
        (
            isinstance(origin, CarriedColumn)
            and _stays(altered, origin, _change(before.columns[origin.number], column, session))
        )
        or origin == ConstantValue(NULL)
        or number in wide
        for number, (origin, column) in enumerate(
            zip(altered.origins, altered.definition.columns, strict=True)
        )
    )


def _stays(altered: Altered[TargetTable], origin: CarriedColumn, change: TypeChange) -> bool:
    """Return whether every value of a column stays."""
    old, column = change.before, change.after
    if altered.replaced_texts and may_recode(origin, change):
        return False
    own = replace(old, name=column.name, kept=column.kept, logged=column.logged)
    same = replace(own, nullable=old.nullable or column.nullable) == column
    if same and (not origin.written or old.detail == column.detail is not None):
        return True
    return keeps_values(change)


def _change(old: Column, column: Column, session: Session) -> TypeChange:
    """Return the change of type. It is ``plain`` if both types are known to be no more than
    ``Column`` has."""
    return TypeChange(old, column, session, plain=old.detail == column.detail == "")


def forbids_null(before: TargetTable, altered: Altered[TargetTable]) -> bool:
    """Return whether a column becomes NOT NULL."""
    return any(
        isinstance(origin, CarriedColumn)
        and before.columns[origin.number].nullable
        and not column.nullable
        for origin, column in zip(altered.origins, altered.definition.columns, strict=True)
    )


def without_zero_dates(altered: Altered[SourceTable]) -> Altered[SourceTable]:
    """Return the alteration with NULL in place of zero dates (zero_dates = "null"), in new columns
    and in columns by which the table is partitioned."""
    origins = tuple(
        ConstantValue(NULL)
        if isinstance(o, ConstantValue) and o.default.startswith(_ZERO_DATE)
        else o
        for o in altered.origins
    )
    gone = altered.gone and replace(altered.gone, no_nulls=True)
    return replace(altered, origins=origins, gone=gone, null_dates=True)


def with_new_rows(before: Snapshot, after: NewTable, table: str) -> NewTable:
    """Return ``after``. Raise StatementError if rows can't be rewritten in the commit that gives
    the table its new columns. With a change data feed, Delta refuses such a commit if it drops or
    renames a mapped column, or changes its type."""
    refuses = before.has("delta.enableChangeDataFeed") and has_mapping(before.configuration)
    if refuses and not keeps_columns(before.schema_string, after.schema_string):
        raise StatementError(
            "Delta does not write rows again in a commit that drops or renames a column, or gives"
            " it another type, of a table with a change data feed",
            table=table,
            hint=_FEED_HINT,
        )
    return after


def unknown_rows(altered: Altered[TargetTable]) -> str:
    """Return why the log does not determine the new values of existing rows; '' if it does."""
    reasons = [origin.reason for origin in altered.origins if isinstance(origin, UnknownValue)]
    return altered.rows_go or next(iter(reasons), "")


class _Made:
    """Columns after the statement. Each is computed when it is needed, as expressions use other
    columns."""

    def __init__(self, arrays: Sequence[pa.Array], of: AlteredRows) -> None:
        self._arrays, self._before, self._altered = arrays, of.before, of.altered
        self._session, self._gone = of.session, are_outlived(of.before, arrays)
        self._images = are_images(of.before, arrays) if of.altered.null_dates else None
        self._columns: dict[int, pa.Array] = {}
        columns = of.altered.definition.columns
        self._rows = InputRows(len(arrays[0]), columns, self._checked_column, of.session, convert)

    def column(self, i: int) -> pa.Array:
        """Return a column. Raise StatementError."""
        if i not in self._columns:
            self._columns[i] = self._make(i)
        return self._columns[i]

    def _checked_column(self, i: int) -> pa.Array:
        """Return a column for use in expressions. Raise StatementError if it may have a replaced
        value."""
        column = self._altered.definition.columns[i]
        change = TypeChange(column, column, self._session)
        if self._altered.null_dates:
            check_replaced_dates(self.column(i), self._images, change)
        if self._altered.replaced_texts:
            check_replaced_texts(self.column(i), change)
        return self.column(i)

    def _make(self, i: int) -> pa.Array:
        origin, column = self._altered.origins[i], self._altered.definition.columns[i]
        if isinstance(origin, CarriedColumn):
            return self._converted(origin, column, whole=not column.nullable)
        if isinstance(origin, ComputedValue):
            return computed(origin.expression, self._rows, column, virtual=origin.virtual)
        if isinstance(origin, UnknownValue):
            raise StatementError(origin.reason, table=self._altered.definition.name)
        if isinstance(origin, RestoredColumn):
            values = self._converted(CarriedColumn(origin.number), column)
            return pc.coalesce(values, self._new(origin.new, column))
        return self._new(origin, column)

    def _converted(self, origin: CarriedColumn, column: Column, *, whole: bool = False) -> pa.Array:
        """Return the values of a column that stays. ``whole``: no NULL may be left, not even in
        rows that the source no longer has."""
        values, old = self._arrays[origin.number], self._before.columns[origin.number]
        change = _change(old, column, self._session)
        lacks = whole and values.null_count
        if _stays(self._altered, origin, change) and not lacks:
            return values
        if self._altered.replaced_texts:
            check_replaced_texts(values, change)
        if self._altered.null_dates and column.type not in DATE_TYPES:
            check_replaced_dates(values, self._images, change)
        check_fit(values, self._gone, change)
        return convert(values, change)

    def _new(self, origin: ConstantValue | CurrentTimestamp, column: Column) -> pa.Array:
        """Return the values of existing rows in a new column."""
        if isinstance(origin, CurrentTimestamp):
            value = _now(column, self._session)
        else:
            value = _default(column, origin.default)
        count = self._rows.count
        return pa.repeat(value[0], count) if count else pa.nulls(0, column.arrow_type)


def _default(column: Column, default: str) -> pa.Array:
    """Return array[1]: the value of existing rows in a new column. Raise SettingError."""
    if default.startswith(_ZERO_DATE) and column.form != Form.TEXT:
        raise SettingError(
            f"rows that are there get {default[1:]} in the new column {column.name}, which is no"
            " date",
            hint='target.zero_dates = "null" or "string" says how to keep such dates',
        )
    if column.form == Form.VARIANT and default.startswith("'"):
        return document_to_variant(default[1:])
    return literal(replace(column, default=default))


def _now(column: Column, session: Session) -> pa.Array:
    """Return array[1]: the time of the statement, truncated to the column's digits."""
    if column.type == ColumnType.TIMESTAMP:  # in UTC for every session time zone
        return put_utc(np.array([session.at], np.int64), np.zeros(1, np.bool_), column)
    step = 10 ** (6 - column.meta)
    moment = pa.array([session.at // step * step], pa.timestamp("us", "UTC"))
    stamp = Column("", ColumnType.TIMESTAMP, column.meta, nullable=True)
    return convert(moment, TypeChange(stamp, column, session))


class MadeRows(Protocol):
    """The rows that a statement computes."""

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the columns after the statement for some rows, ``arrays`` [columns of the table
        before]. Raise StatementError."""


@dataclass(frozen=True)
class AlterTask:
    """A data file whose rows are to be rewritten. ``of``: the file, in the table before; ``to``:
    the table after, without files."""

    of: CompactTask
    to: CompactTask
    rows: MadeRows


def alter_file(task: AlterTask) -> Written:
    """Rewrite the file's rows as a new file, with its key index. Raise StatementError."""
    (file,) = task.of.files
    out = Written(task.of.table, gone=[file.path])
    rows = live_rows(task.of, file, BitMap())
    if rows.num_rows:
        arrays = [one_chunk(column) for column in rows.columns]
        try:
            columns = task.rows.columns(arrays)
        except StatementError as error:
            raise error.at(table=task.of.table) from None
        table = pa.Table.from_arrays(columns, names=list(task.to.columns.physical))
        out.adds += write_indexed(task.to.index, task.to.columns, table)
    return out


@dataclass(frozen=True)
class AlteredRows:
    """The rows that a statement computes from a table that was ``before``."""

    before: TargetTable
    altered: Altered[TargetTable]
    session: Session

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the columns after the statement for some rows, ``arrays`` [columns of the table
        before]. Raise StatementError if a value can't be determined."""
        computed_columns = _Made(arrays, self)
        return [computed_columns.column(i) for i in range(len(self.altered.origins))]


def are_images(definition: TargetTable, arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Return which of some rows, ``arrays`` [columns of the table], are images from the log. Return
    None unless the table's mode is changelog, in which a TRUNCATE is a row whose columns are NULL.
    """
    if not definition.logs_changes:
        return None
    return pc.not_equal(arrays[definition.extra_columns["operation"]], TRUNCATE)


def check_replaced_dates(values: pa.Array, images: pa.Array | None, change: TypeChange) -> None:
    """Raise Unconvertible if a date is NULL but may be a zero date on the source (zero_dates =
    "null"). ``images``: which rows are images of the log; None: check all rows."""
    before = change.before
    if before.mask or before.type not in DATE_TYPES:
        return
    values = values if images is None else values.filter(images)
    if not values.null_count:
        return
    if before.as_logged.nullable:
        raise change.refused(f"a NULL of {before.name} may stand for a zero date")
    raise change.refused("there are NULLs in a column that can have none: zero dates, maybe")


_MEMBERS = (TypeFamily.ENUM, TypeFamily.SET)


def may_recode(origin: CarriedColumn, change: TypeChange) -> bool:
    """Return whether the server may convert the bytes of a column's texts."""
    before, after = family_of(change.before), family_of(change.after)
    if before in _MEMBERS:
        return origin.written
    if before != TypeFamily.TEXT:
        return False
    if after != TypeFamily.TEXT:
        return True
    return charset_of(change.before.collation) != charset_of(change.after.collation)


def check_replaced_texts(values: pa.Array, change: TypeChange) -> None:
    """Raise Unconvertible if one of the values has a character that may be a replacement
    character."""
    if not pa.types.is_string(values.type):
        return
    if pc.any(pc.match_substring(values, REPLACEMENT)).as_py():
        raise change.refused("a text has U+FFFD, which may stand for bytes without a character")


_STRICT_ALL_TABLES = 1 << 22


def are_outlived(definition: TargetTable, arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Return which of some rows, ``arrays`` [columns of the table], are versions that the source no
    longer has; None: none is."""
    current = definition.current_column
    if current < 0:
        return None
    return pc.invert(pc.fill_null(arrays[current], False))


def check_fit(values: pa.Array, gone: pa.Array | None, change: TypeChange) -> None:
    """Raise StatementError if a value of the rows that the source no longer has (``gone``) does not
    fit. It is checked in strict mode, because in other modes a server stores a different value."""
    if gone is None or change.session.is_strict:
        return
    mode = change.session.sql_mode | _STRICT_ALL_TABLES
    strict = replace(change, session=replace(change.session, sql_mode=mode))
    try:
        convert(values.filter(gone), strict)
    except StatementError as error:
        error.message += ", in a version that the source has no more"
        raise

"""A table's rows behind ALTER TABLE, as MySQL makes them from those before it."""

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
from ...alter.defaults import literal
from ...binlog.json.variant_text import document_to_variant
from ...convert.conversion import convert
from ...convert.lossless import keeps_values
from ...convert.temporal import put_utc
from ...convert.type_change import TypeChange
from ...delta.columns import one_chunk
from ...delta.schema_change import has_mapping, keeps_columns
from ...errors import SettingError, StatementError
from ...expressions.evaluation import InputRows, computed
from ...tables.column import DATE_TYPES, Column, ColumnType, Form
from ..files.compaction import CompactTask, live_rows
from ..files.key_index import write_indexed
from ..files.write_task import Written
from ..rows.scd2_history import check_fit, outlived
from .replaced_values import are_images, check_dates, check_texts, may_recode

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...delta.snapshot import NewTable, Snapshot
    from ...sql.session import Session
    from ...tables.table_definition import TableDefinition

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
    before: TableDefinition, altered: Altered, session: Session, held: Collection[int] = ()
) -> bool:
    """Whether every value of every row stays, and new columns are NULL in them. ``held``: numbers
    of columns whose values data files have in a type that is wide enough before and behind."""
    return all(
        (
            isinstance(origin, CarriedColumn)
            and _stays(altered, origin, _change(before.columns[origin.number], column, session))
        )
        or origin == ConstantValue(NULL)
        or number in held
        for number, (origin, column) in enumerate(
            zip(altered.origins, altered.definition.columns, strict=True)
        )
    )


def _stays(altered: Altered, origin: CarriedColumn, change: TypeChange) -> bool:
    """Whether every value of a column stays."""
    old, column = change.before, change.after
    if altered.replaced_texts and may_recode(origin, change):
        return False
    own = replace(old, name=column.name, kept=column.kept, logged=column.logged)
    same = replace(own, nullable=old.nullable or column.nullable) == column
    if same and (not origin.written or old.detail == column.detail is not None):
        return True
    return keeps_values(change)


def _change(old: Column, column: Column, session: Session) -> TypeChange:
    """``plain`` where both types are known to be no more than ``Column`` says."""
    return TypeChange(old, column, session, plain=old.detail == column.detail == "")


def forbids_null(before: TableDefinition, altered: Altered) -> bool:
    """Whether a column becomes NOT NULL."""
    return any(
        isinstance(origin, CarriedColumn)
        and before.columns[origin.number].nullable
        and not column.nullable
        for origin, column in zip(altered.origins, altered.definition.columns, strict=True)
    )


def without_zero_dates(altered: Altered) -> Altered:
    """The same where zero dates are NULL (zero_dates = "null"): in new columns, and in those by
    which the table is partitioned."""
    origins = tuple(
        ConstantValue(NULL)
        if isinstance(o, ConstantValue) and o.default.startswith(_ZERO_DATE)
        else o
        for o in altered.origins
    )
    gone = altered.gone and replace(altered.gone, no_nulls=True)
    return replace(altered, origins=origins, gone=gone, null_dates=True)


def with_new_rows(before: Snapshot, after: NewTable, table: str) -> NewTable:
    """``after``. Raises StatementError where rows can't be written anew in the commit that gives
    the table its new columns: with a change data feed Delta refuses it where a column of a mapping
    goes, or gets another name."""
    refuses = before.has("delta.enableChangeDataFeed") and has_mapping(before.configuration)
    if refuses and not keeps_columns(before.schema_string, after.schema_string):
        raise StatementError(
            "Delta does not write rows anew in a commit that drops or renames a column, or gives it"
            " another type, of a table with a change data feed",
            table=table,
            hint=_FEED_HINT,
        )
    return after


def unknown_rows(altered: Altered) -> str:
    """Why the log does not say what rows that are there become; '' where it does."""
    reasons = [origin.reason for origin in altered.origins if isinstance(origin, UnknownValue)]
    return altered.rows_go or next(iter(reasons), "")


class _Made:
    """Columns behind the statement, each made when it is asked for: expressions ask for others."""

    def __init__(self, arrays: Sequence[pa.Array], of: AlteredRows) -> None:
        self._arrays, self._before, self._altered = arrays, of.before, of.altered
        self._session, self._gone = of.session, outlived(of.before, arrays)
        self._images = are_images(of.before, arrays) if of.altered.null_dates else None
        self._made: dict[int, pa.Array] = {}
        columns = of.altered.definition.columns
        self._rows = InputRows(len(arrays[0]), columns, self._looked_at, of.session, convert)

    def column(self, i: int) -> pa.Array:
        """Raises StatementError."""
        if i not in self._made:
            self._made[i] = self._make(i)
        return self._made[i]

    def _looked_at(self, i: int) -> pa.Array:
        """A column as expressions have it. Raises StatementError."""
        column = self._altered.definition.columns[i]
        change = TypeChange(column, column, self._session)
        if self._altered.null_dates:
            check_dates(self.column(i), self._images, change)
        if self._altered.replaced_texts:
            check_texts(self.column(i), change)
        return self.column(i)

    def _make(self, i: int) -> pa.Array:
        origin, column = self._altered.origins[i], self._altered.definition.columns[i]
        if isinstance(origin, CarriedColumn):
            return self._kept(origin, column, whole=not column.nullable)
        if isinstance(origin, ComputedValue):
            return computed(origin.expression, self._rows, column, virtual=origin.virtual)
        if isinstance(origin, UnknownValue):
            raise StatementError(origin.reason, table=self._altered.definition.name)
        if isinstance(origin, RestoredColumn):
            values = self._kept(CarriedColumn(origin.number), column)
            return pc.coalesce(values, self._new(origin.new, column))
        return self._new(origin, column)

    def _kept(self, origin: CarriedColumn, column: Column, *, whole: bool = False) -> pa.Array:
        """``whole``: no NULL may be left, also in rows that the source has not."""
        values, old = self._arrays[origin.number], self._before.columns[origin.number]
        change = _change(old, column, self._session)
        lacks = whole and values.null_count
        if _stays(self._altered, origin, change) and not lacks:
            return values
        if self._altered.replaced_texts:
            check_texts(values, change)
        if self._altered.null_dates and column.type not in DATE_TYPES:
            check_dates(values, self._images, change)
        check_fit(values, self._gone, change)
        return convert(values, change)

    def _new(self, origin: ConstantValue | CurrentTimestamp, column: Column) -> pa.Array:
        """What the rows that are there get in a new column."""
        if isinstance(origin, CurrentTimestamp):
            value = _now(column, self._session)
        else:
            value = _default(column, origin.default)
        count = self._rows.count
        return pa.repeat(value[0], count) if count else pa.nulls(0, column.arrow_type)


def _default(column: Column, default: str) -> pa.Array:
    """Array[1]: what rows that are there get in a new column. Raises StatementError."""
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
    """Array[1]: the moment of the statement, cut to the column's digits."""
    if column.type == ColumnType.TIMESTAMP:  # of UTC, whatever the session's time zone
        return put_utc(np.array([session.at], np.int64), np.zeros(1, np.bool_), column)
    step = 10 ** (6 - column.meta)
    moment = pa.array([session.at // step * step], pa.timestamp("us", "UTC"))
    stamp = Column("", ColumnType.TIMESTAMP, column.meta, nullable=True)
    return convert(moment, TypeChange(stamp, column, session))


class MadeRows(Protocol):
    """What a statement makes of rows."""

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns [columns of the table before] of some rows -> those behind the statement.
        Raises StatementError."""


@dataclass(frozen=True)
class AlterTask:
    """A data file whose rows are to be written anew. ``of``: the file, in the table as it was;
    ``to``: the table as it will be, without files."""

    of: CompactTask
    to: CompactTask
    rows: MadeRows


def alter_file(task: AlterTask) -> Written:
    """The file's rows as a new one, with its key index. Raises StatementError."""
    (file,) = task.of.files
    out = Written(task.of.table, gone=[file.path])
    rows = live_rows(task.of, file, BitMap())
    if rows.num_rows:
        arrays = [one_chunk(column) for column in rows.columns]
        try:
            made = task.rows.columns(arrays)
        except StatementError as error:
            raise error.at(table=task.of.table) from None
        table = pa.Table.from_arrays(made, names=list(task.to.columns.physical))
        out.adds += write_indexed(task.to.index, task.to.columns, table)
    return out


@dataclass(frozen=True)
class AlteredRows:
    """What a statement makes of the rows of a table that was ``before``."""

    before: TableDefinition
    altered: Altered
    session: Session

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns [columns of the table before] of some rows -> those behind the statement.
        Raises StatementError where a value's outcome isn't known."""
        made = _Made(arrays, self)
        return [made.column(i) for i in range(len(self.altered.origins))]

"""A table's rows behind ALTER TABLE, as MySQL makes them from those before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from ..binlog.definition import Column, ColumnType, Form
from ..ddl.alteration import Altered, Computed, Filled, Kept, Now, Restored, Unknown
from ..ddl.conversion import convert
from ..ddl.defaults import literal
from ..ddl.expressions.evaluation import Rows, computed
from ..ddl.same_values import keeps_values
from ..delta.columns import one_chunk, with_type
from ..errors import SettingError, StatementError
from .compaction import CompactTask, live_rows
from .key_index import write_indexed
from .written import Written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..binlog.definition import TableDefinition
    from ..ddl.session import Session

NULL = "NULL"
UNKNOWN_ROWS = (
    "the log does not say what the rows become: copy the table behind this statement"
    " (spark-repl snapshot --table), or mend it by hand and leave the statement out (spark-repl"
    " skip)"
)
_UTF8MB4 = 255
_ZERO_DATE = "'0000-00-00"


def keeps_rows(before: TableDefinition, altered: Altered, session: Session) -> bool:
    """Whether every value of every row stays, and new columns are NULL in them."""
    return all(
        (isinstance(origin, Kept) and _stays(origin, before, column, session))
        or origin == Filled(NULL)
        for origin, column in zip(altered.origins, altered.definition.columns, strict=True)
    )


def _stays(origin: Kept, before: TableDefinition, column: Column, session: Session) -> bool:
    """Whether every value of a column stays."""
    old = before.columns[origin.number]
    own = replace(old, name=column.name, kept=column.kept, logged=column.logged)
    same = replace(own, nullable=old.nullable or column.nullable) == column
    if same and (not origin.written or old.detail == column.detail is not None):
        return True
    return keeps_values(old, column, session, plain=_is_plain(old, column))


def _is_plain(old: Column, column: Column) -> bool:
    """Whether both types are known to be no more than ``Column`` says."""
    return old.detail == column.detail == ""


def forbids_null(before: TableDefinition, altered: Altered) -> bool:
    """Whether a column becomes NOT NULL."""
    return any(
        isinstance(origin, Kept) and before.columns[origin.number].nullable and not column.nullable
        for origin, column in zip(altered.origins, altered.definition.columns, strict=True)
    )


def without_zero_dates(altered: Altered) -> Altered:
    """The same where zero dates are NULL (zero_dates = "null"): in new columns, and in those by
    which the table is partitioned."""
    origins = tuple(
        Filled(NULL) if isinstance(o, Filled) and o.default.startswith(_ZERO_DATE) else o
        for o in altered.origins
    )
    gone = altered.gone and replace(altered.gone, no_nulls=True)
    return replace(altered, origins=origins, gone=gone)


def unknown_rows(altered: Altered) -> str:
    """Why the log does not say what rows that are there become; '' where it does."""
    reasons = [origin.reason for origin in altered.origins if isinstance(origin, Unknown)]
    return altered.rows_go or next(iter(reasons), "")


def altered_rows(
    arrays: Sequence[pa.Array], before: TableDefinition, altered: Altered, session: Session
) -> list[pa.Array]:
    """The columns [columns of the table before] of some rows -> those behind the statement. Raises
    StatementError where a value's outcome isn't known."""
    made = _Made(arrays, before, altered, session)
    return [made.column(i) for i in range(len(altered.origins))]


class _Made:
    """Columns behind the statement, each made when it is asked for: expressions ask for others."""

    def __init__(
        self,
        arrays: Sequence[pa.Array],
        before: TableDefinition,
        altered: Altered,
        session: Session,
    ) -> None:
        self._arrays, self._before, self._altered = arrays, before, altered
        self._session = session
        self._made: dict[int, pa.Array] = {}
        columns = altered.definition.columns
        self._rows = Rows(len(arrays[0]), columns, self.column, session, convert)

    def column(self, i: int) -> pa.Array:
        """Raises StatementError."""
        if i not in self._made:
            self._made[i] = self._make(i)
        return self._made[i]

    def _make(self, i: int) -> pa.Array:
        origin, session = self._altered.origins[i], self._session
        column, count = self._altered.definition.columns[i], self._rows.count
        if isinstance(origin, Kept):
            return _kept(self._arrays[origin.number], origin, self._before, column, session)
        if isinstance(origin, Computed):
            return computed(origin.expression, self._rows, column, virtual=origin.virtual)
        if isinstance(origin, Unknown):
            raise StatementError(origin.reason, table=self._altered.definition.name)
        if isinstance(origin, Restored):
            kept, values = Kept(origin.number), self._arrays[origin.number]
            values = _kept(values, kept, self._before, column, session)
            return pc.coalesce(values, _new(origin.new, column, session, count))
        return _new(origin, column, session, count)


def _kept(
    values: pa.Array, origin: Kept, before: TableDefinition, column: Column, session: Session
) -> pa.Array:
    old = before.columns[origin.number]
    if _stays(origin, before, column, session):
        return values
    return convert(values, old, column, session, plain=_is_plain(old, column))


def _new(origin: Filled | Now, column: Column, session: Session, count: int) -> pa.Array:
    """What ``count`` rows that are there get in a new column."""
    if isinstance(origin, Now):
        value = _now(column, session)
    else:
        value = _default(column, origin.default, session)
    return pa.repeat(value[0], count) if count else pa.nulls(0, column.arrow_type)


def _default(column: Column, default: str, session: Session) -> pa.Array:
    """Array[1]: what rows that are there get in a new column. Raises StatementError."""
    if default.startswith(_ZERO_DATE) and column.form != Form.TEXT:
        raise SettingError(
            f"rows that are there get {default[1:]} in the new column {column.name}, which is no"
            " date",
            hint='target.zero_dates = "null" or "string" says how to keep such dates',
        )
    try:
        return literal(replace(column, default=default))
    except StatementError:
        if not default.startswith("'"):
            raise
        # A time's text, or a moment in the session's time zone: as text that is converted.
        text = Column("", ColumnType.VARCHAR, len(default) * 4, nullable=True, collation=_UTF8MB4)
        return convert(pa.array([default[1:]]), text, column, session)


def _now(column: Column, session: Session) -> pa.Array:
    """Array[1]: the moment of the statement, cut to the column's digits."""
    step = 10 ** (6 - column.meta)
    moment = pa.array([session.at // step * step], pa.timestamp("us", "UTC"))
    if column.type == ColumnType.TIMESTAMP and not column.form:
        return moment
    stamp = Column("", ColumnType.TIMESTAMP, column.meta, nullable=True)
    return convert(moment, stamp, column, session)


@dataclass(frozen=True)
class AlterTask:
    """A data file whose rows are to be written anew. ``of``: the file, in the table as it was;
    ``to``: the table as it will be, without files."""

    of: CompactTask
    to: CompactTask
    before: TableDefinition
    altered: Altered
    session: Session


def alter_file(task: AlterTask) -> Written:
    """The file's rows as a new one, with its key index. Raises StatementError."""
    (file,) = task.of.files
    out = Written(task.of.table, gone=[file.path])
    rows = live_rows(task.of, file, BitMap())
    if rows.num_rows:
        arrays = [one_chunk(column) for column in rows.columns]
        try:
            made = altered_rows(arrays, task.before, task.altered, task.session)
        except StatementError as error:
            raise error.at(table=task.of.table) from None
        table = pa.Table.from_arrays(made, names=list(task.to.columns.physical))
        out.adds += write_indexed(task.to.index, task.to.columns, table)
    return out


@dataclass(frozen=True)
class AlteredRows:
    """The same for rows that Spark reads, batch by batch."""

    before: TableDefinition
    altered: Altered
    session: Session

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches' rows as they are behind the statement. Raises StatementError."""
        types = self.before.arrow_schema().types
        names = self.altered.definition.arrow_schema().names
        for batch in batches:
            arrays = [with_type(a, kind) for a, kind in zip(batch.columns, types, strict=True)]
            made = altered_rows(arrays, self.before, self.altered, self.session)
            yield pa.RecordBatch.from_arrays(made, names=names)

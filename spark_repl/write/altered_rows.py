"""A table's rows behind ALTER TABLE, as MySQL makes them from those before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import BitMap

from ..binlog.definition import Column, ColumnType, Form
from ..ddl.alteration import Altered, Filled, Kept, Now, Unknown
from ..ddl.conversion import convert
from ..ddl.defaults import literal
from ..ddl.same_values import keeps_values
from ..delta.columns import one_chunk, with_type
from ..errors import StatementError
from .compaction import CompactTask, live_rows
from .key_index import write_indexed
from .written import Written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..binlog.definition import TableDefinition
    from ..ddl.session import Session

NULL = "NULL"
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
    same = replace(old, name=column.name) == column
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
    """The same with NULL in new columns that would be zero dates (zero_dates = "null")."""
    origins = tuple(
        Filled(NULL) if isinstance(o, Filled) and o.default.startswith(_ZERO_DATE) else o
        for o in altered.origins
    )
    return replace(altered, origins=origins)


def unknown_rows(altered: Altered) -> str:
    """Why the log does not say what rows that are there become; '' where it does."""
    reasons = [origin.reason for origin in altered.origins if isinstance(origin, Unknown)]
    return altered.rows_go or next(iter(reasons), "")


def altered_rows(
    arrays: Sequence[pa.Array], before: TableDefinition, altered: Altered, session: Session
) -> list[pa.Array]:
    """The columns [columns of the table before] of some rows -> those behind the statement. Raises
    StatementError where a value's outcome isn't known."""
    count = len(arrays[0])
    out = []
    for origin, column in zip(altered.origins, altered.definition.columns, strict=True):
        if isinstance(origin, Kept):
            old = before.columns[origin.number]
            values = arrays[origin.number]
            if not _stays(origin, before, column, session):
                plain = _is_plain(old, column)
                values = convert(values, old, column, session, plain=plain)
            out.append(values)
        elif isinstance(origin, Unknown):
            raise StatementError(origin.reason, table=altered.definition.name)
        else:
            if isinstance(origin, Now):
                value = _now(column, session)
            else:
                value = _default(column, origin.default, session)
            out.append(pa.repeat(value[0], count) if count else pa.nulls(0, column.arrow_type))
    return out


def _default(column: Column, default: str, session: Session) -> pa.Array:
    """Array[1]: what rows that are there get in a new column. Raises StatementError."""
    if default.startswith(_ZERO_DATE) and column.form != Form.TEXT:
        raise StatementError(
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

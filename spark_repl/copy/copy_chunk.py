"""One chunk of one table, read in one statement and written as data files; runs on a worker."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from ..binlog.charsets.charset import TEXT_ERRORS_HINT
from ..binlog.types.forms import USUAL, Forms
from ..binlog.types.text_values import gather
from ..decode.metadata_values import metadata_of_copy
from ..decode.target_rows import target_rows
from ..delta.files.delta_columns import Columns, write_file
from ..delta.store.storage import remove
from ..errors import (
    SchemaError,
    SecretError,
    SourceError,
    SourceLostError,
    SparkReplError,
    Unconvertible,
)
from ..rules.row_filters import UNKNOWN_HINT, filter_of, unknown
from ..source.connection import begin_query, connect
from ..source.dump import TRIED_AGAIN, is_temporary
from ..tables.column import BINARY
from .source_tables import full_name
from .text_rows import key_to_arrow, may_replace, read_rows, select_list, to_arrow

if TYPE_CHECKING:
    from ..config import Source
    from ..tables.target_table import TargetTable

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FILE_BYTES = 128 << 20


@dataclass(frozen=True)
class CopyTask:
    """Arguments of the copy of one chunk. ``definition``: the target's; ``key``: the secret key of
    masks; ``gtid_executed``: the GTID set that extra columns record for the rows; the applier
    applies the log after it."""

    source: Source
    definition: TargetTable
    columns: Columns
    folder: str
    where: str
    forms: Forms
    key: bytes = field(default=b"", repr=False)
    gtid_executed: str = ""


@dataclass
class Copied:
    """The result of one chunk. ``adds``: Delta's actions for its files, which readers do not see
    until they are committed."""

    adds: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    text_errors: int = 0
    """number of values in which bytes without a character became U+FFFD"""


def load(_: object = None) -> None:
    """Load a worker's modules and kernels (1 s of work) while the first table is being created."""
    row, end = b"\2\0\0\0\1x", b"\5\0\0\1\xfe\0\0\2\0"
    for (values,) in read_rows(BytesIO(row + end), [BINARY]):
        gather(values, pa.string())


def copy_chunk(task: CopyTask) -> Copied:
    """Copy the rows as of one moment, without a lock. Raise SourceError or SchemaError."""

    def attempt() -> Copied:
        connection = connect(task.source)
        try:
            return copy_rows(task, connection)
        finally:
            connection.close()

    return patiently(task.source, attempt)


def patiently(
    source: Source, action: Callable[[], T], *, retries: int | None = None, reconnect: bool = True
) -> T:
    """Run ``action`` and return its result; retry after a temporary error.

    Retry as often as the receiver would (or ``retries`` times, if that is fewer) and with its
    waits. With ``reconnect`` the account has logged in before, so an error of its password counts
    as temporary. Raise the last error of ``action``.
    """
    count = source.connect_retry_count if retries is None else retries
    count = min(count, source.connect_retry_count)
    for attempt in range(count):
        try:
            return action()
        except (SourceError, SecretError) as error:
            if not is_temporary(error, reconnect=reconnect):
                raise
            logger.warning("%s; tried again", error)
            wait = source.connect_retry_s * 2.0 ** min(attempt, 30)
            time.sleep(min(wait, source.connect_retry_max_s))
    try:
        return action()
    except SourceLostError as error:
        if error.hint == TRIED_AGAIN:
            error.hint = f"all {count + 1} attempts failed: repair the connection, and start again"
        raise


def copy_rows(task: CopyTask, connection: Any) -> Copied:
    """Copy the rows over an open connection, in its transaction if it has one.

    Remove the files that are already written if the copy fails. Raise SparkReplError, which names
    the table.
    """
    definition, out = task.definition.source, Copied()
    statement = f"SELECT {select_list(definition)} FROM {full_name(definition)} {task.where}"
    parts, size = list[pa.Table](), 0
    try:
        for columns in read_rows(*begin_query(connection, statement)):
            part, replaced = copied_rows(
                task.definition, columns, task.forms, task.key, task.gtid_executed
            )
            out.text_errors += replaced
            if not part.num_rows:
                continue
            out.rows += part.num_rows
            size += part.nbytes
            parts.append(part)
            if size >= _FILE_BYTES:
                out.adds += _write(task, parts)
                parts, size = [], 0
        if parts:
            out.adds += _write(task, parts)
    except SparkReplError as error:
        for add in out.adds:
            remove(os.path.join(task.folder, add["path"]))
        raise error.at(table=definition.name) from None
    return out


def _write(task: CopyTask, parts: list[pa.Table]) -> list[dict[str, Any]]:
    split = task.columns.split(pa.concat_tables(parts))
    return [write_file(task.folder, task.columns, rows, values) for values, rows in split]


def copied_rows(
    target: TargetTable,
    columns: Iterable[Any],
    forms: Forms,
    key: bytes,
    gtid_executed: str = "",
) -> tuple[pa.Table, int]:
    """Return the target's rows, and the number of texts in which characters were replaced.

    ``columns``: the text form of all columns of the source; ``key``: the secret key of masks;
    ``gtid_executed``: the GTID set that extra columns record for the rows. Rows that do not pass
    the target's filter are left out. Raise SchemaError.
    """
    logged, columns = target.source, list(columns)
    read_columns = [_read(target, i, values, forms) for i, values in enumerate(columns)]
    arrays = [array for array, _ in read_columns]
    replaced = sum(count for _, count in read_columns)
    if target.is_mirror:
        return pa.Table.from_arrays(arrays, schema=target.arrow_schema()), replaced
    names = [str(number) for number in range(len(arrays))]
    read = pa.RecordBatch.from_arrays(arrays, names=names)
    if target.filters_rows:
        read = read.filter(pa.array(_passes(target, columns, arrays, forms)))
    extra = metadata_of_copy(logged, gtid_executed, len(read))
    rows = target_rows(read, logged, target, key, extra)
    return pa.Table.from_arrays(rows.columns, schema=target.arrow_schema()), replaced


def _read(target: TargetTable, i: int, values: Any, forms: Forms) -> tuple[pa.Array, int]:
    """Return the source's column ``i``, and how many texts have a replaced character. Raise
    SparkReplError, whose text contains no value of a hidden column."""
    logged = target.source
    column = logged.columns[i]
    try:
        if i in logged.primary_key:
            return key_to_arrow(column, values), 0
        return to_arrow(column, values, forms)
    except SparkReplError as error:
        if column.name in target.hidden_columns:
            error.message = f"column {column.name}: a value that can't be decoded, and is masked"
        raise


def _looked_at(target: TargetTable, i: int, values: Any) -> pa.Array:
    """Return a column as a row filter compares it. Raise SparkReplError if a value would be
    replaced."""
    try:
        return _read(target, i, values, USUAL)[0]
    except SparkReplError as error:
        if error.hint == TEXT_ERRORS_HINT:
            error.hint = UNKNOWN_HINT
        raise


def _passes(
    target: TargetTable, columns: Sequence[Any], arrays: Sequence[pa.Array], forms: Forms
) -> Any:
    """Return which rows pass the target's filter. Raise SparkReplError for values that the target
    stores in another form than the source."""
    rule = filter_of(target, target.source)
    queries = [
        _looked_at(target, number, columns[number])
        if may_replace(rule.columns[number], forms)
        else arrays[number]
        for number in rule.numbers
    ]
    try:
        return rule.passes(queries)
    except Unconvertible as error:
        hidden = bool({*rule.names} & {*target.hidden_columns})
        raise SchemaError(
            unknown(rule, error, hidden=hidden), table=target.name, hint=UNKNOWN_HINT
        ) from None

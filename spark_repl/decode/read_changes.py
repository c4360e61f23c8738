"""read_changes: the row changes of recorded binary logs as Arrow record batches, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..alter.schema_history import SchemaHistory
from ..binlog.events.xid import Xid
from ..binlog.types.forms import Forms
from ..errors import LogError, SparkReplError, StatementError
from ..position import OFFSET_BITS, OFFSET_MASK, RelayPosition
from ..relay.gtid_column import gtid_column
from ..relay.index import file_indexes, tail_of
from ..relay.lease import Lease
from ..relay.log import read_while_purged
from ..relay.logged_query import read_statement
from ..relay.record import Flag, Kind, gtid_name, holding
from ..relay.split import is_split, pieces_of
from .row_batches import table_batches
from .spans import read_images, slices
from .staged import Span

if TYPE_CHECKING:
    from ..binlog.events.event import Query
    from ..relay.file_head import RelayFile
    from ..relay.log import RelayLog

Longs = npt.NDArray[np.int64]

logger = logging.getLogger(__name__)

_WITH_ROWS = (Kind.ROWS, Kind.XA_ONE_PHASE, Kind.DDL_ROWS)
_STATEMENT_HINT = "set binlog_format=ROW on the source: a statement's rows are not in the log"


def read_changes(
    path: str,
    *,
    tables: Collection[str] | None = None,
    zero_dates: str = "error",
    time_as: str = "string",
    geometry_as: str = "struct",
    text_errors: str = "error",
    rows_query: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read row changes of a folder of binary logs (or one file, or an index file), a batch per
    table.

    The columns are:

    - ``table`` ("db.table"), ``operation`` (INSERT, UPDATE, DELETE).
    - ``gtid`` ("" for an anonymous transaction), ``position`` (packed, as in the stream of
      transactions), ``commit_time``.
    - ``before``, ``after``: structs with the table's columns, NULL where there is none.
    - ``before_absent``, ``after_absent``: for images without all columns (binlog_row_image MINIMAL,
      NOBLOB), the columns that are NULL because the log does not hold them; else NULL.
    - ``after_diffs``: for such images, the JSON diffs whose document is missing; else NULL.

    Batches of one table come in the log's order; batches of several tables alternate. To merge
    them, sort by ``position``. An XA transaction's rows come where it is committed. TRUNCATE, DROP
    and ALTER TABLE are statements, so they do not appear.

    - tables: read only these.
    - zero_dates, time_as, geometry_as, text_errors: as in [target] of the configuration.
    - rows_query: add a column of that name with the statement's text, where the server logged it.

    JSON is always text: Arrow has no variant type, and the text loses nothing. Bytes after the last
    whole transaction of the last file are not read. That is logged as a warning, since a server may
    be writing them just now. Raise LogError, DecodeError and StatementError, with file, position
    and GTID.
    """
    forms, index = Forms(zero_dates, time_as, geometry_as, text_errors=text_errors), None
    with Lease() as lease:
        relay, _ = read_while_purged(
            path, lambda opened: lease.hold(opened, 0)
        )  # the lease covers the whole log, since all of it is read
        state = _State(relay)
        for index in file_indexes(relay):
            for run in _runs_of(index.number, index.records, state):
                yield from _run_batches(run, state.history, tables, forms, rows_query)
    if tail := tail_of(relay, index):
        logger.warning("not read: %s", tail)


@dataclass
class _State:
    """The effects of earlier statements: definitions, and prepared XA transactions by XID."""

    relay: RelayLog
    history: SchemaHistory = field(default_factory=SchemaHistory)
    prepared: dict[Xid, tuple[RelayFile, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Run:
    """Transactions with rows and no statement between them, all plain or all compressed."""

    file: RelayFile
    records: Any
    span: Span

    @cached_property
    def gtids(self) -> pa.Array:
        return gtid_column(self.records).fill_null("")


def _runs_of(number: int, records: Any, state: _State) -> Iterator[_Run]:
    """Yield the runs of a file's index; its first transaction may have begun in earlier files."""
    if len(records) and is_split(records[0]):
        first = records[:1]
        begun = state.relay.file(int(first["position"][0]) >> OFFSET_BITS)
        yield from _runs(begun, first, state)
        records = records[1:]
    yield from _runs(state.relay.file(number), records, state)


def _runs(file: RelayFile, records: Any, state: _State) -> Iterator[_Run]:
    rows = np.isin(records["kind"], _WITH_ROWS)
    # Compressed transactions are read separately, so that the order of a table's changes stays.
    compressed = rows & (records["flags"] & Flag.COMPRESSED != 0)
    for (with_rows, _), group in groupby(zip(rows.tolist(), compressed.tolist(), strict=True)):
        count = len(list(group))
        chosen, records = records[:count], records[count:]
        if with_rows:
            yield from _parts(file, chosen, state)
        else:
            for i in range(count):
                yield from _statement(file, chosen[i : i + 1], state)


def _parts(file: RelayFile, records: Any, state: _State) -> Iterator[_Run]:
    """Yield runs of rows, cut at each CREATE TABLE ... SELECT, which is a statement and rows in
    one transaction."""
    first = 0
    for at in np.flatnonzero(records["kind"] == Kind.DDL_ROWS).tolist():
        if at > first:
            yield _run(state, file, records[first:at])
        state.history.see(_query(state, file, records[at], b"CREATE"))
        first = at
    yield _run(state, file, records[first:])


def _run(state: _State, file: RelayFile, records: Any) -> _Run:
    first = records[0]
    if not is_split(first):
        return _Run(file, records, Span.of(file.path, file.number, records))
    flags, pieces = int(first["flags"]), pieces_of(state.relay, first, 0)
    compressed, checksum = bool(flags & Flag.COMPRESSED), bool(flags & Flag.CHECKSUM)
    span = Span.joined(pieces, int(first["position"]), compressed=compressed, checksum=checksum)
    return _Run(file, records, span)


def _statement(file: RelayFile, records: Any, state: _State) -> Iterator[_Run]:
    """Apply a transaction without rows of its own, the only one of ``records``; yield the rows
    of XA COMMIT."""
    record = records[0]
    kind = Kind(int(record["kind"]))
    if kind == Kind.QUERY:
        query = _query(state, file, record, b"")
        statement = state.history.see(query)
        if statement.changes_rows and not statement.has_failed(query):
            kind = Kind.STATEMENT
    if kind == Kind.XA_PREPARE:
        state.prepared[_xid(state, file, record)] = file, records
    elif kind in (Kind.XA_COMMIT, Kind.XA_ROLLBACK):
        prepared = state.prepared.pop(_xid(state, file, record), None)
        if prepared is None:
            logger.warning(
                "%s ends an XA transaction that this log does not hold", gtid_name(record)
            )
        elif kind == Kind.XA_COMMIT:
            yield replace(_run(state, *prepared), records=records)
    elif kind in (Kind.STATEMENT, Kind.INCIDENT):
        raise _refusal(kind).at(
            file=file.path,
            position=RelayPosition.unpack(int(record["position"])),
            gtid=gtid_name(record),
        )


def _refusal(kind: Kind) -> SparkReplError:
    if kind == Kind.INCIDENT:
        return LogError(
            "an incident occurred on the source: it may have lost events",
            number=13119,
            hint="copy the tables anew from behind this event",
        )
    return StatementError("the transaction changes rows by statements", hint=_STATEMENT_HINT)


def _query(state: _State, file: RelayFile, record: Any, start: bytes) -> Query:
    if is_split(record):
        pieces, checksum = pieces_of(state.relay, record, 0), record["flags"] & Flag.CHECKSUM
        return read_statement(pieces, 0, checksum=bool(checksum), start=start)
    offset, checksum = int(record["position"]) & OFFSET_MASK, record["flags"] & Flag.CHECKSUM
    return read_statement(file.path, offset, checksum=bool(checksum), start=start)


def _xid(state: _State, file: RelayFile, record: Any) -> Xid:
    return Xid.parse(_query(state, file, record, b"XA ").statement)


def _run_batches(
    run: _Run,
    history: SchemaHistory,
    tables: Collection[str] | None,
    forms: Forms,
    rows_query: bool,
) -> Iterator[pa.RecordBatch]:
    for first, last in slices(run.span):
        ordinal = np.arange(first, last)
        try:
            for images, ordinals, _ in read_images(
                run.span.part(first, last),
                ordinal,
                definitions=history.definitions,
                forms=forms,
                pairs=True,
            ):
                if tables is None or images.definition.name in tables:
                    args = images, run.records, run.gtids, ordinals, forms
                    yield from table_batches(*args, rows_query=rows_query)
        except SparkReplError as error:
            raise _placed(error, run) from error


def _placed(error: SparkReplError, run: _Run) -> SparkReplError:
    error.at(file=run.file.path)
    if error.position is not None:
        error.at(gtid=gtid_name(run.records[holding(run.records, error.position)]))
    return error

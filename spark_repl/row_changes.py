"""read_changes: the row changes of recorded binary logs as Arrow record batches, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .apply.row_batches import table_batches
from .apply.schema_history import SchemaHistory
from .apply.spans import Span, read_images, slices
from .binlog.event import (
    CRC_LENGTH,
    HEADER_LENGTH,
    EventType,
    Query,
    parse_header,
    parse_query,
)
from .binlog.payload import decompress
from .errors import LogError, SparkReplError, StatementError
from .position import OFFSET_BITS, RelayPosition
from .relay.file_index import begin, extend
from .relay.index import Flag, Kind, gtid_text
from .relay.log import RelayFile, RelayLog, open_log

Longs = npt.NDArray[np.int64]

log = logging.getLogger(__name__)

_OFFSET_MASK = (1 << OFFSET_BITS) - 1
_WITH_ROWS = (Kind.ROWS, Kind.XA_ONE_PHASE, Kind.DDL_ROWS)
_STATEMENT_HINT = "set binlog_format=ROW on the source: a statement's rows are not in the log"


def read_changes(
    path: str, *, tables: Collection[str] | None = None, zero_dates: str = "error"
) -> Iterator[pa.RecordBatch]:
    """Row changes of a folder of binary logs (or one file, or an index file), a batch per table.

    Columns: ``table`` ("db.table"), ``operation`` (INSERT, UPDATE, DELETE), ``gtid`` ("" for an
    anonymous transaction), ``position`` (packed, as in the stream of transactions),
    ``commit_time``, ``before`` and ``after`` (structs with the table's columns, NULL where there
    is none). Of images without all columns (binlog_row_image MINIMAL, NOBLOB)
    ``before_absent`` and ``after_absent`` list the columns that are NULL because the log does not
    hold them, ``after_diffs`` the JSON diffs whose document is not there; else NULL.

    Batches of one table come in the log's order, those of several tables by turns: to merge them,
    sort by ``position``. An XA transaction's rows come where it is committed.
    tables: only these. zero_dates: "error", or "null" for dates that no calendar has.
    Raises LogError, DecodeError and StatementError, with file, position and GTID.
    """
    relay = open_log(path)
    state = _State()
    for file in relay.files:
        if not relay.head_complete(file.number):
            return
        for run in _runs(relay, file, state):
            yield from _run_batches(run, state.history, tables, zero_dates)


@dataclass
class _State:
    """What statements so far have left: definitions, and prepared XA transactions by XID."""

    history: SchemaHistory = field(default_factory=SchemaHistory)
    prepared: dict[bytes, tuple[RelayFile, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Run:
    """Transactions of rows with no statement between them, all plain or all compressed."""

    file: RelayFile
    records: Any
    span: Span


def _runs(relay: RelayLog, file: RelayFile, state: _State) -> Iterator[_Run]:
    records = extend(begin(relay, file), relay).records
    for with_rows, group in groupby(np.isin(records["kind"], _WITH_ROWS).tolist()):
        count = len(list(group))
        chosen, records = records[:count], records[count:]
        if with_rows:
            yield from _parts(file, chosen, state)
        else:
            for i in range(count):
                yield from _statement(file, chosen[i : i + 1], state)


def _parts(file: RelayFile, records: Any, state: _State) -> Iterator[_Run]:
    """CREATE TABLE ... SELECT is a statement and rows in one transaction."""
    first = 0
    for at in np.flatnonzero(records["kind"] == Kind.DDL_ROWS).tolist():
        if at > first:
            yield _run(file, records[first:at])
        _see(_query(file, records[at], b"CREATE"), state)
        first = at
    yield _run(file, records[first:])


def _run(file: RelayFile, records: Any) -> _Run:
    span = Span(
        file.path,
        file.number,
        (records["position"] & _OFFSET_MASK).astype(np.int64),
        (records["end"] & _OFFSET_MASK).astype(np.int64),
        records["flags"] & Flag.COMPRESSED != 0,
        bool(records["flags"][0] & Flag.CHECKSUM),
    )
    return _Run(file, records, span)


def _statement(file: RelayFile, records: Any, state: _State) -> Iterator[_Run]:
    """What a transaction without rows of its own means; ``records`` is that one alone."""
    record = records[0]
    kind = Kind(int(record["kind"]))
    if kind == Kind.QUERY:
        _see(_query(file, record, b""), state)
    elif kind == Kind.XA_PREPARE:
        state.prepared[_xid(_query(file, record, b"XA START"))] = file, records
    elif kind in (Kind.XA_COMMIT, Kind.XA_ROLLBACK):
        found = state.prepared.pop(_xid(_query(file, record, b"XA")), None)
        if found is None:
            log.warning("%s ends an XA transaction that this log does not hold", _gtid(record))
        elif kind == Kind.XA_COMMIT:
            yield replace(_run(*found), records=records)
    elif kind in (Kind.STATEMENT, Kind.INCIDENT):
        raise _refusal(kind).at(
            file=file.path,
            position=RelayPosition.unpack(int(record["position"])),
            gtid=_gtid(record),
        )


def _refusal(kind: Kind) -> SparkReplError:
    if kind == Kind.INCIDENT:
        return LogError(
            "an incident occurred on the source: it may have lost events",
            number=13119,
            hint="copy the tables anew from behind this event",
        )
    return StatementError("the transaction changes rows by statements", hint=_STATEMENT_HINT)


def _gtid(record: Any) -> str:
    return gtid_text(record)[0] or "ANONYMOUS"


def _query(file: RelayFile, record: Any, start: bytes) -> Query:
    """The first statement of a transaction that begins with ``start``, BEGIN apart."""
    with open(file.path, "rb") as stream:
        stream.seek(int(record["position"]) & _OFFSET_MASK)
        data = stream.read(int(record["length"]))
    crc = CRC_LENGTH if record["flags"] & Flag.CHECKSUM else 0
    for kind, body in _events(data, crc):
        if kind == EventType.TRANSACTION_PAYLOAD:
            inner = [(k, b) for k, b in _events(decompress(body), 0) if k == EventType.QUERY]
        else:
            inner = [(kind, body)] if kind == EventType.QUERY else []
        for _, found in inner:
            query = parse_query(found)
            if query.statement != b"BEGIN" and query.statement.upper().startswith(start):
                return query
    raise LogError("a transaction without the statement that its kind needs", file=file.path)


def _events(data: bytes, crc: int) -> Iterator[tuple[int, bytes]]:
    """(type, body) of the events in ``data``."""
    at = 0
    while at < len(data):
        header = parse_header(data, at)
        if header.length < HEADER_LENGTH + crc:
            raise LogError("bytes that are no event")
        yield header.type, data[at + HEADER_LENGTH : at + header.length - crc]
        at += header.length


def _xid(query: Query) -> bytes:
    """The XID as the server writes it: the same text in XA START, COMMIT and ROLLBACK."""
    return query.statement.split(None, 2)[2]


def _see(query: Query, state: _State) -> None:
    state.history.see(query.text, query.database)


def _run_batches(
    run: _Run, history: SchemaHistory, tables: Collection[str] | None, zero_dates: str
) -> Iterator[pa.RecordBatch]:
    for first, last in slices(run.span):
        ordinal = np.arange(first, last)
        try:
            for images, ordinals, _ in read_images(
                run.span, first, last, ordinal, known=history.definitions, pairs=True
            ):
                if tables is None or images.definition.name in tables:
                    yield from table_batches(images, run.records, ordinals, zero_dates)
        except SparkReplError as error:
            raise _placed(error, run) from error


def _placed(error: SparkReplError, run: _Run) -> SparkReplError:
    error.at(file=run.file.path)
    if error.position is not None:
        packed = RelayPosition.parse(error.position).packed
        at = max(0, int(np.searchsorted(run.records["position"], packed, "right")) - 1)
        error.at(gtid=_gtid(run.records[at]))
    return error

"""read_changes: the row changes of recorded binary logs as Arrow record batches, without Spark.

It is a function of the package for users; the bench calls it, and ``observe.quarantine_rows`` uses
``table_batches``. The batches are returned one table at a time, in the log's order for each table.
Statements are followed for what rows depend on (definitions of tables, prepared XA branches) and
return nothing themselves. The log may be written and purged meanwhile: a lease holds the files that
are read.

Raises LogError for damage, DecodeError for a value that can't be decoded without a loss, and
StatementError for changes that the log has as a statement's text. Each has file, position and GTID.
Bytes after the last whole transaction are logged as a warning. Design:
docs/design/reading-the-log.md.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..alter.schema_history import SchemaHistory
from ..binlog.events.xid import Xid
from ..binlog.json.diff import describe, pending_diffs
from ..binlog.rows.change_bits import EXISTS, MOVED
from ..binlog.rows.partial_rows import PartialImages
from ..binlog.types.forms import Forms
from ..errors import DecodeError, LogError, SparkReplError, StatementError
from ..position import OFFSET_BITS, OFFSET_MASK, RelayPosition
from ..relay.gtid_column import gtid_column
from ..relay.index import file_indexes, tail_of
from ..relay.lease import Lease
from ..relay.log import read_while_purged
from ..relay.logged_query import read_statement
from ..relay.record import Flag, Kind, gtid_name, holding
from ..relay.span import Span
from ..relay.split_transactions import is_split, pieces_of
from .spans import read_images, slices

if TYPE_CHECKING:
    from ..binlog.events.event import Query
    from ..binlog.rows.row_images import RowImages
    from ..binlog.types.forms import Forms
    from ..relay.log import RelayLog
    from ..relay.relay_file import RelayFile

logger = logging.getLogger(__name__)

Longs = npt.NDArray[np.int64]


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
            hint="copy the tables again after this event",
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


_BATCH_ROWS = 1 << 16
_WORDS = pa.array(["INSERT", "UPDATE", "DELETE"])
_NAMES = (
    "table", "operation", "gtid", "position", "commit_time", "before", "after", "before_absent",
    "after_absent", "after_diffs",
)  # fmt: skip


def table_batches(
    images: RowImages,
    records: Any,
    gtids: pa.Array,
    ordinals: Longs,
    forms: Forms,
    *,
    rows_query: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield batches in which each pair of entries (``walk``, pairs) is one row with both images.

    ``records`` and ``gtids`` (StringArray) belong to all transactions; ``ordinals`` are the numbers
    of the images' transactions among them.
    """
    names = [*_NAMES, "rows_query"] if rows_query else list(_NAMES)
    heads = np.flatnonzero(images.flags & MOVED == 0)
    paired = np.append(images.flags[1:] & MOVED != 0, False)[heads]
    for at in range(0, len(heads), _BATCH_ROWS):
        head, pair = heads[at : at + _BATCH_ROWS], paired[at : at + _BATCH_ROWS]
        inserted = images.flags[head] == EXISTS
        after = np.where(inserted, head, np.where(pair, head + 1, -1))
        before = np.where(inserted, -1, head)
        owner = ordinals[images.transaction[head]]
        operation = pa.array(np.where(inserted, 0, np.where(pair, 1, 2)).astype(np.int8))
        first = np.append(True, owner[1:] != owner[:-1])  # they come in the log's order
        gtid, place = gtids.take(pa.array(owner[first])), np.cumsum(first) - 1
        try:
            old, old_absent, _ = _side(images, before, forms)
            new, new_absent, diffs = _side(images, after, forms)
        except DecodeError as error:
            if error.row is not None:
                start = records["position"][owner[error.row]]
                error.at(position=RelayPosition.unpack(int(start)))
            raise
        yield pa.RecordBatch.from_arrays(
            [
                _constant(images.definition.name, len(head)),
                pa.DictionaryArray.from_arrays(operation, _WORDS),
                pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), gtid),
                pa.array(records["position"][owner].astype(np.int64)),
                pa.array(records["commit_time"][owner].astype(np.int64)).cast(
                    pa.timestamp("us", "UTC")
                ),
                old, new, old_absent, new_absent, diffs,
                *([images.rows_query(head)] if rows_query else []),
            ],
            names=names,
        )  # fmt: skip


def _constant(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([text]))


def _side(images: RowImages, entries: Longs, forms: Forms) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return (struct of the images of ``entries``, -1 for none; absent columns; JSON diffs), [n]
    each."""
    fields = [field.with_nullable(True) for field in images.definition.arrow_schema()]
    none = entries < 0
    if none.all():
        rows = pa.nulls(len(entries), pa.struct(fields))
    else:
        mask = pa.array(none) if none.any() else None
        arrays = images.values(entries, forms)
        rows = pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)
    if not isinstance(images, PartialImages):
        nothing = pa.nulls(len(entries), pa.list_(pa.string()))
        return rows, nothing, nothing
    existing = np.flatnonzero(~none)
    absent, diffs = _lacks(images, entries[existing])
    index = np.zeros(len(entries), np.int64)
    index[existing] = np.arange(len(existing))
    back = pa.array(index, mask=none)
    return rows, absent.take(back), diffs.take(back)


def _lacks(images: PartialImages, entries: Longs) -> tuple[pa.Array, pa.Array]:
    """Return the names of the columns that images lack, and the JSON diffs in words; NULL for
    none."""
    columns = images.definition.columns
    present, pending = images.presence(entries)
    names = np.array([column.name for column in columns], object)
    distinct = present.dictionary_encode()
    lists = [_absent(bitmap, names) for bitmap in distinct.dictionary.to_pylist()]
    absent = pa.array(lists, pa.list_(pa.string())).take(distinct.indices)
    words: list[list[str] | None] = [None] * len(entries)
    for row in np.flatnonzero(np.asarray(pending.is_valid())):
        words[row] = [
            text
            for column, data in pending_diffs(pending[int(row)].as_py())
            for text in describe(data, columns[column].name)
        ]
    return absent, pa.array(words, pa.list_(pa.string()))


def _absent(bitmap: bytes, names: Any) -> Sequence[str] | None:
    present = np.unpackbits(
        np.frombuffer(bitmap, np.uint8), count=len(names), bitorder="little"
    ).astype(bool)
    return None if present.all() else list(names[~present])

"""The transactions of one log file as fixed-size records: the scan that starts and extends an
index.

The kind of a compressed transaction is determined by its first two events, or by all events of an
XA branch. Small payloads are examined many at a time. Of a large payload only the first zstd block
is decompressed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import zstandard

from ..binlog.event_types import (
    CRC_LENGTH,
    HEADER_LENGTH,
    MARIADB_FIRST,
    MARIADB_LAST,
    EventType,
    type_name,
)
from ..binlog.events.event import parse_gtid, parse_header, parse_query, parse_xa_prepare
from ..binlog.events.payload import NONE, Payload, View, decompress_all, head_at, small_frames
from ..binlog.events.transaction import (
    COMMIT_TIME,
    END,
    FLAGS,
    GNO,
    KIND,
    LAST_COMMITTED,
    PAYLOAD_OFFSET,
    QUERY_OFFSET,
    ROW_EVENTS,
    SEQUENCE_NUMBER,
    START,
    Flag,
    Kind,
    Scan,
    Stop,
)
from ..binlog.events.windows import read_exactly, windows
from ..binlog.kernels.jit import Bytes, Ints, jit, number
from ..errors import DecodeError, LogError
from ..position import OFFSET_BITS, RelayPosition
from .file_index import FileIndex, GrowingRecords
from .record import RECORD
from .split_transactions import Open, follow, open_pieces, size_of

if TYPE_CHECKING:
    from .log import RelayLog
    from .relay_file import RelayFile

# Bytes mapped at a time: pages of the log that were read count as memory of this process.
_WINDOW_BYTES = 128 << 20
_OUTLINE_BYTES = 1 << 20
"""of one transaction's events that are not row changes, if it is indexed by itself"""


def begin(log: RelayLog, file: RelayFile, before: Open | None = None) -> FileIndex:
    """Return the index of a file that has not been scanned yet. ``before``: as in ``FileIndex``."""
    head = log.head(file.number)
    no_records = np.zeros(0, RECORD)
    checksum = head.source.checksum
    return FileIndex(
        file.number, head.fingerprint, no_records, head.length, checksum, False,
        before=before, open=before,
    )  # fmt: skip


def extend(index: FileIndex, log: RelayLog, folder: Path | None = None) -> FileIndex:
    """Return the index extended by a scan from ``index.scanned`` to the end or to damage.

    ``folder``: where appended records are stored; default in memory. Raise LogError for a file
    that has become shorter.
    """
    file = log.file(index.number)
    size = log.size(file.number)
    if size < index.scanned:
        raise LogError(
            f"the file has become shorter: {size} bytes, {index.scanned} were read before",
            file=file.name,
            hint="a server that crashed cuts its last file; fetch it again as a new log",
        )
    if index.open is not None and index.size == size:
        return index
    if index.before is not None and not len(index.records):
        index = _continue_open(index, log, file, index.before)
        if index.open is not None or index.damage:
            return index
    if size == index.scanned:
        return replace(index, size=size, stop=Stop.END, bad=size, damage=None)
    window = _WINDOW_BYTES
    while True:
        end = min(size, index.scanned + window)
        before, index = index.scanned, _extend_to(index, log, file, end, folder)
        if end == size or index.damage:
            return index
        if index.scanned == before and window == _WINDOW_BYTES:  # one transaction is larger
            index = _extend_by_one(index, log, file, folder)
        window = window * 2 if index.scanned == before else _WINDOW_BYTES


def _extend_to(
    index: FileIndex, log: RelayLog, file: RelayFile, end: int, folder: Path | None
) -> FileIndex:
    """Return the index extended up to ``end``, where an event may be cut."""
    from ..binlog.events.scan import scan  # numba: half a second that reading an index does without

    buf = np.memmap(file.path, np.uint8, "r", shape=(end,))
    relay = log.head(index.number).own.is_relay_log
    result = scan(buf, index.scanned, index.checksum, relay=relay)
    records, damage = _records(file, buf, result)
    resume, closed, checksum = result.resume, result.closed, result.checksum
    if len(records) < len(result.numbers):
        bad = result.numbers[len(records)]
        resume, closed, checksum = int(bad[START]), False, bool(bad[FLAGS] & Flag.CHECKSUM)
    return replace(
        _appended(index, records, folder), scanned=resume, checksum=checksum, closed=closed,
        size=buf.size, stop=result.stop, bad=result.bad,
        damage=damage or _damage(file, buf, result),
    )  # fmt: skip


def _appended(index: FileIndex, records: np.ndarray, folder: Path | None) -> FileIndex:
    growing = index.growing
    if len(index.records):
        growing = growing or GrowingRecords(folder)
        records = growing.append(index.records, records)
    return replace(index, records=records, growing=growing)


def _extend_by_one(
    index: FileIndex, log: RelayLog, file: RelayFile, folder: Path | None
) -> FileIndex:
    """Return the index extended by one transaction that is larger than a window. Map only a window
    of it at a time. Return ``index`` unchanged if the transaction is compressed, has other
    statements than row changes or many events of other kinds, or does not end in the file."""
    start = index.scanned
    try:
        rest = follow(log, file, Open((), index.checksum), start, _OUTLINE_BYTES)
    except LogError:
        return index  # the scan reports the damage
    if rest.open is None or rest.scan is None:
        return index
    first = rest.scan.numbers[0]
    if first[KIND] != Kind.ROWS or first[QUERY_OFFSET] or first[FLAGS] & Flag.COMPRESSED:
        return index
    record, _ = _joined(file, rest.open, rest.scan)
    record["position"] = RelayPosition(file.number, start).packed
    record["end"] = RelayPosition(file.number, rest.end).packed
    return replace(_appended(index, record, folder), scanned=rest.end, closed=False)


def _continue_open(index: FileIndex, log: RelayLog, file: RelayFile, before: Open) -> FileIndex:
    """Return the index after the end of the transaction that was open before the file."""
    size, start = log.size(file.number), log.head(file.number).length
    try:
        rest = follow(log, file, before, start)
    except LogError as error:
        return replace(index, size=size, open=None, stop=Stop.END, bad=size, damage=error)
    index = replace(index, size=size, open=rest.open, stop=rest.stop, bad=rest.bad, damage=None)
    lost_to = rest.end if before.lost else 0
    if rest.open is None:
        return replace(index, scanned=rest.bad, lost_to=lost_to)
    if rest.scan is None:
        return replace(index, scanned=start, lost_to=lost_to)
    record, damage = _joined(file, rest.open, rest.scan)
    if damage:
        return replace(index, open=None, damage=damage)
    first = RelayPosition.unpack(int(record["position"][0]))
    record["position"] = RelayPosition(number_of(log, rest.open), first.offset).packed
    record["end"] = RelayPosition(file.number, rest.end).packed
    return replace(index, records=record, scanned=rest.end, open=None)


def number_of(log: RelayLog, now: Open) -> int:
    """Return the number of the file in which an open transaction begins."""
    return next(file.number for file in log.files if file.path == now.pieces[0].path)


def _joined(file: RelayFile, now: Open, scan: Scan) -> tuple[np.ndarray, LogError | None]:
    """Return the record of a transaction in several files, with its offset in the first file.

    ``scan``: the scan of the transaction's outline.
    """
    from ..binlog.events.scan import scan as scan_events

    damage = None
    if scan.numbers[0, FLAGS] & Flag.COMPRESSED:
        with open_pieces(now.pieces) as stream:
            buf = np.frombuffer(stream.read(), np.uint8)
        scan = scan_events(buf, 0, now.checksum, relay=True)
        records, damage = _records(file, buf, scan)
    else:
        records, _ = _records(file, np.zeros(0, np.uint8), scan)
        records["row_events"] = now.row_events
        records["uncompressed"] = size_of(now.pieces)
    records["position"] = now.pieces[0].begin
    records["length"] = size_of(now.pieces)
    return records[:1], damage


def _records(file: RelayFile, buf: np.ndarray, scan: Scan) -> tuple[np.ndarray, LogError | None]:
    """Return (RECORD[n], None), or the records before a damaged compressed transaction and its
    error."""
    numbers = scan.numbers
    records = np.zeros(len(numbers), RECORD)
    base = file.number << OFFSET_BITS
    records["position"] = base + numbers[:, START]
    records["end"] = base + numbers[:, END]
    records["length"] = numbers[:, END] - numbers[:, START]
    records["uncompressed"] = records["length"]
    for name, column in (
        ("last_committed", LAST_COMMITTED),
        ("sequence_number", SEQUENCE_NUMBER),
        ("commit_time", COMMIT_TIME),
        ("gno", GNO),
        ("query_offset", QUERY_OFFSET),
        ("row_events", ROW_EVENTS),
        ("kind", KIND),
        ("flags", FLAGS),
    ):
        records[name] = numbers[:, column]
    records["uuid"] = scan.uuids.view("V16").reshape(-1)
    records["tag"] = scan.tags.view("S32").reshape(-1)
    good, damage = _classify_compressed(file, buf, scan, records)
    return records[:good], damage


def _classify_compressed(
    file: RelayFile, buf: np.ndarray, scan: Scan, records: np.ndarray
) -> tuple[int, LogError | None]:
    """Fill in kind and uncompressed size. Return (number of good records, error of the next
    one)."""
    compressed = np.flatnonzero(records["flags"] & Flag.COMPRESSED)
    if not len(compressed):
        return len(records), None
    from ..binlog.events.payload import payload_heads

    starts = scan.numbers[compressed, PAYLOAD_OFFSET]
    crc = np.where(records["flags"][compressed] & Flag.CHECKSUM, CRC_LENGTH, 0)
    ends = scan.numbers[compressed, END] - crc
    bodies = np.column_stack((starts + HEADER_LENGTH, ends))
    heads = payload_heads(buf, bodies)
    kinds, sizes = np.full(len(compressed), Kind.ROWS, np.uint8), heads[:, 2].copy()
    reader, good, damage = zstandard.ZstdDecompressor(), len(compressed), None
    for i in np.flatnonzero(~are_usual(buf, bodies, heads)).tolist():
        try:
            body = buf.data[bodies[i, 0] : bodies[i, 1]]
            kinds[i], sizes[i] = classify(body, reader, heads[i].tolist())
        except LogError as error:
            good, damage = i, error.at(file=file.name, position=int(starts[i]))
            break
    classified = compressed[:good]
    records["kind"][classified] = kinds[:good]
    records["uncompressed"][classified] = (
        starts[:good] - scan.numbers[classified, START] + sizes[:good]
    )
    return (len(records) if damage is None else int(compressed[good])), damage


def _damage(file: RelayFile, buf: np.ndarray, scan: Scan) -> LogError | None:
    """Return why the scan stopped; None if more bytes may let it continue."""
    if scan.stop in (Stop.END, Stop.OPEN, Stop.CUT):
        return None
    code = int(buf[scan.bad + 4])
    name, hint = type_name(code), "the file is damaged here: relay verify says more"
    if scan.stop == Stop.NO_EVENT:
        length = int.from_bytes(buf[scan.bad + 9 : scan.bad + 13], "little")
        if not length:
            return None  # space that is yet to be written to
        message = f"an event can't have {length} bytes"
    elif scan.stop == Stop.UNKNOWN_EVENT:
        message = f"event type {code} is unknown and not marked ignorable: an event from the future"
        hint = "a newer version of spark_repl may know it"
        if MARIADB_FIRST <= code <= MARIADB_LAST:
            hint = "this is a type of MariaDB, whose logs are not supported"
    elif scan.stop == Stop.UNEXPECTED_EVENT:
        message = f"a {name} event can't stand here: the transactions' boundaries are broken"
    else:
        message, hint = _why_malformed(buf, scan.bad, name, hint)
    return LogError(message, file=file.name, position=scan.bad, hint=hint)


def _why_malformed(buf: np.ndarray, at: int, name: str, hint: str) -> tuple[str, str]:
    """Return (message, hint); a GTID event may have fields that only a later server knows."""
    length = int.from_bytes(buf[at + 9 : at + 13], "little")
    if buf[at + 4] == EventType.GTID_TAGGED:
        try:
            parse_gtid(EventType.GTID_TAGGED, buf[at + HEADER_LENGTH : at + length].tobytes())
        except LogError as error:
            return error.message, error.hint or hint
    return f"the {name} event is too short for what it must hold", hint


# Looked up once: an enumeration's members cost a microsecond each time.
_QUERY, _XID = int(EventType.QUERY), int(EventType.XID)
_XA_PREPARE, _TABLE_MAP = int(EventType.XA_PREPARE), int(EventType.TABLE_MAP)
# The NUL after a Query's database, and its statement.
_BEGIN = np.frombuffer(b"\0BEGIN", np.uint8)
# Enough for BEGIN with all its status variables and the header of the event after it.
_HEAD_BYTES = 2048
# Up to this size one call for everything is faster than a stream for the head.
_SMALL_BYTES = 1 << 15
# Payloads looked at in one call: 16 MB of small ones at most.
_TOGETHER = 512
# Bytes read at a time of a branch that may end with XA PREPARE.
_KIND_WINDOW_BYTES = 1 << 20


def are_usual(buf: Bytes, bodies: Ints, heads: Ints) -> npt.NDArray[np.bool_]:
    """Return bool[n]: which payloads have the usual form, that is, are small and certainly contain
    rows after BEGIN and a TABLE_MAP.

    ``classify`` determines the kind of the others. ``bodies``, ``heads``: as in
    ``binlog.events.payload.payload_bodies``.
    """
    fits, places = small_frames(buf, bodies, heads, _SMALL_BYTES)
    small = np.flatnonzero(fits)
    usual = np.zeros(len(bodies), np.bool_)
    for first in range(0, len(small), _TOGETHER):
        some = small[first : first + _TOGETHER]
        sizes = heads[some, 2]
        events = decompress_all(buf, places[some], sizes)
        if events is not None:
            edges = np.concatenate(([0], np.cumsum(sizes)))
            begin_usual(np.frombuffer(events, np.uint8), edges, _BEGIN, some, usual)
    return usual


@jit
def begin_usual(
    events: Bytes, edges: Ints, begin: Bytes, which: Ints, usual: npt.NDArray[np.bool_]
) -> None:
    """Mark the payloads that begin with BEGIN and a TABLE_MAP.

    ``events``: their concatenated events. ``edges``: where each payload's events begin, and the
    end. ``which``: their indexes in ``usual``.
    """
    for i in range(which.size):
        at, end = edges[i], edges[i + 1]
        length = number(events, at + 9, 4) if at + HEADER_LENGTH <= end else 0
        last = at + length - begin.size
        if last < at + HEADER_LENGTH or at + length + 5 > end:
            continue
        same = events[at + 4] == _QUERY and events[at + length + 4] == _TABLE_MAP
        for k in range(begin.size):
            same = same and events[last + k] == begin[k]
        usual[which[i]] = same


def classify(
    body: memoryview, reader: zstandard.ZstdDecompressor, fields: list[int]
) -> tuple[Kind, int]:
    """Return (kind, bytes of the events inside) of a TRANSACTION_PAYLOAD body without its checksum.

    ``reader``: a decompressor, shared by calls of one thread. ``fields``: the payload's row of
    payload_heads.
    """
    try:
        head = head_at(fields, bytes(body[:_HEAD_BYTES]))
        at, size = head.length, head.uncompressed
        if head.compression == NONE:
            events = bytes(body[at : at + _HEAD_BYTES])
        elif size <= _SMALL_BYTES:
            events = reader.decompress(body[at:], max_output_size=size)
        else:
            events = reader.stream_reader(body[at:]).read(_HEAD_BYTES)
        if len(events) < HEADER_LENGTH:
            raise DecodeError("there is no event in it")
        kind = Kind.ROWS if _is_usual(events) else _kind(events, body)
    except (MemoryError, DecodeError, zstandard.ZstdError) as e:
        raise LogError(f"a TRANSACTION_PAYLOAD event is damaged: {e}") from e
    return kind, size


def _is_usual(head: bytes) -> bool:
    """Return whether the first events are BEGIN and a TABLE_MAP, without parsing them."""
    edges, usual = np.array([0, len(head)]), np.zeros(1, np.bool_)
    begin_usual(np.frombuffer(head, np.uint8), edges, _BEGIN, edges[:1], usual)
    return bool(usual[0])


def _kind(head: bytes, body: memoryview) -> Kind:
    begin = parse_header(head)
    if begin.type != _QUERY:
        raise LogError(f"a compressed transaction begins with a {begin.name} event")
    first = parse_query(head[HEADER_LENGTH : begin.length]).statement
    if first.startswith(b"XA START"):
        return _xa_kind(first, Payload(View(body), len(body)))
    second = head[begin.length :]
    if len(second) < HEADER_LENGTH:
        return Kind.ROWS
    header = parse_header(second)
    if header.type == _XID:
        return Kind.EMPTY
    if header.type != _QUERY:
        return Kind.ROWS
    if header.length > len(second):
        events = Payload(View(body), len(body))
        second = read_exactly(events, begin.length + header.length)[begin.length :]
    return _statement_kind(parse_query(second[HEADER_LENGTH : header.length]).statement)


def _statement_kind(statement: bytes) -> Kind:
    text = statement.upper()
    if text == b"COMMIT":
        return Kind.EMPTY
    if text.startswith(b"CREATE") and b") START TRANSACTION" in text:
        return Kind.DDL_ROWS
    return Kind.ROWS if text.startswith(b"SAVEPOINT") else Kind.STATEMENT


def _xa_kind(start: bytes, payload: Payload) -> Kind:
    events, statements = b"", list[bytes]()
    for window in windows(payload, payload.uncompressed, _KIND_WINDOW_BYTES):
        events = window.tobytes()
        last = _last_event(events, statements)
    header, body = parse_header(events, last), events[last + HEADER_LENGTH :]
    *inner, end = statements[1:] or [b""]
    if header.type == _QUERY and b"ROLLBACK" in end:
        return Kind.ROLLBACK
    if header.type != _XA_PREPARE:
        raise LogError(f"XAER_RMFAIL: a compressed XA transaction ends with a {header.name} event")
    prepared = parse_xa_prepare(body)
    if start.replace(b" ", b"").lower() != f"XASTART{prepared}".encode().lower():
        raise LogError("a compressed transaction's XA_PREPARE event holds an invalid XID")
    for statement in (*inner, end):
        if statement.startswith((b"BEGIN", b"XA START", b"XA COMMIT")):
            raise LogError(f"{statement[:9].decode()} stands inside a compressed XA transaction")
        if statement and not statement.startswith((b"SAVEPOINT", b"XA END")):
            return Kind.STATEMENT
    return Kind.XA_ONE_PHASE if prepared.one_phase else Kind.XA_PREPARE


def _last_event(events: bytes, statements: list[bytes]) -> int:
    """Return the offset of the last event; add the statements of all events."""
    at = last = 0
    while at < len(events):
        header, last = parse_header(events, at), at
        if header.length < HEADER_LENGTH:
            raise LogError("a compressed transaction holds bytes that are no event")
        at += header.length
        if header.type == _QUERY:
            statements.append(parse_query(events[last + HEADER_LENGTH : at]).statement.upper())
    return last

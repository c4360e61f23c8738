"""Log inspection: checks each checksum and boundary of a relay log, lists files, prints events.

The commands ``relay verify``, ``relay ls`` and ``relay dump`` call it. It compares nothing with the
target: ``verify`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..binlog.event_types import CRC_LENGTH, HEADER_LENGTH, EventType, type_name
from ..binlog.events.event import (
    parse_format_description,
    parse_gtid,
    parse_header,
    parse_incident,
    parse_previous_gtids,
    parse_query,
    parse_rotate,
    parse_xa_prepare,
)
from ..binlog.events.transaction import Stop
from ..binlog.kernels.crc import event_crc, verify_events
from ..errors import LogError
from ..gtid import GtidSet
from .file_transactions import begin, extend
from .index import with_open
from .lease import Lease
from .record import gtid_text
from .split_transactions import Open, lost_part

if TYPE_CHECKING:
    from .file_index import FileIndex
    from .index import TransactionIndex
    from .log import RelayLog
    from .relay_file import RelayFile

Shown = Callable[[str, int], str]
_GTID_TYPES = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
WRONG_CHECKSUM = "(wrong checksum)"
CUT_AT_END = ("transaction cut at the end of the file", "event cut at the end")
"""problems of a file whose last bytes are missing"""
_INFO_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The result of ``verify_log`` for one file."""

    file: str
    bytes: int
    transactions: int
    checksum: bool
    """whether the events carry a CRC32: without, only the boundaries could be checked"""
    closed: bool
    """whether the file ends with ROTATE or STOP"""
    problem: str | None = None
    offset: int | None = None
    """of the first event with a problem"""
    note: str | None = None
    """what is unusual but loses nothing by itself"""

    @property
    def ok(self) -> bool:
        return self.problem is None


@dataclass(frozen=True, slots=True)
class FileListing:
    """One line of ``relay ls``."""

    file: str
    number: int
    bytes: int
    server_version: str
    server_id: int
    checksum: bool
    transactions: int
    first_gtid: str
    last_gtid: str
    previous_gtids: str
    closed: bool
    fingerprint: str


@dataclass(frozen=True, slots=True)
class EventLine:
    """One line of ``relay dump``."""

    file: str
    offset: int
    type: str
    length: int
    end_log_pos: int
    server_id: int
    info: str
    crc: int | None = None
    """the CRC32 that the event carries; None without checksums"""


def verify_log(log: RelayLog) -> Iterator[FileCheck]:
    """Read every byte of every file. Yield one result per file, in order, errors included."""
    executed: GtidSet | None = None
    left: Open | None = None
    for i, file in enumerate(log.files):
        last = i == len(log.files) - 1
        try:
            if i == 0:
                left = lost_part(log, file)
            index = _indexed(log, file, left, last=last)
            check = _check_file(log, file, index, last=last)
            left = index.open
        except LogError as e:
            size = log.size(file.number)
            offset = int(e.position) if e.position and e.position.isdigit() else None
            yield FileCheck(file.name, size, 0, False, False, e.message, offset)
            executed = left = None
            continue
        previous = log.head(file.number).previous_gtids
        if check.ok and executed is not None and executed != previous:
            check = _with_note(check, _differ(executed, previous))
        executed = previous.union(
            GtidSet.from_arrays(index.records["uuid"], index.records["gno"], index.records["tag"])
        )
        yield check


def list_files(log: RelayLog, index: TransactionIndex) -> Iterator[FileListing]:
    for part in index.files:
        file, head = log.file(part.number), log.head(part.number)
        ends = gtid_text(part.records[[0, -1]]) if len(part.records) else ["", ""]
        yield FileListing(
            file.name, file.number, part.size, head.source.server_version, head.source.server_id,
            part.checksum, len(part.records), ends[0], ends[1], str(head.previous_gtids),
            part.closed, head.fingerprint,
        )  # fmt: skip


def dump(
    log: RelayLog,
    *,
    number: int | None = None,
    start: int = 4,
    end: int | None = None,
    lease: Lease | None = None,
    show: Shown = lambda statement, _: statement,
) -> Iterator[EventLine]:
    """Yield every event, in order; with ``number`` only those of that file, from offset to offset.

    A purge does not remove the file that is being read, or later ones. ``lease``: a lease that
    already protects a file. ``show``: returns a statement's text for the line, by the session's
    sql_mode.
    """
    with lease or Lease() as locked:
        for file in log.files if number is None else (log.file(number),):
            locked.hold(log, file.number)
            stop = log.size(file.number) if end is None else end
            yield from _dump_file(file, start, stop, show)


def _indexed(log: RelayLog, file: RelayFile, left: Open | None, *, last: bool) -> FileIndex:
    index = extend(begin(log, file, left), log)
    if index.damage:
        raise index.damage
    return index if last else with_open(log, file, index)


def _check_file(log: RelayLog, file: RelayFile, index: FileIndex, *, last: bool) -> FileCheck:
    head = log.head(file.number)
    buf = np.memmap(file.path, np.uint8, "r", shape=(index.size,))
    checked = index.bad if index.stop in (Stop.CUT, Stop.NO_EVENT) else index.size
    problem, offset, note = None, None, None
    bad = int(verify_events(buf, 4, checked)) if index.checksum else -1
    if bad >= 0:
        name = type_name(int(buf[bad + 4]))
        problem, offset = f"the checksum of the {name} event is wrong", bad
    elif index.open is not None and not last:
        note = "a transaction is open at its end: a later file goes on with it, or begins it again"
    elif index.stop == Stop.OPEN:
        problem, offset = CUT_AT_END[0], index.scanned
    elif index.stop != Stop.END:
        cut = index.stop == Stop.CUT
        problem, offset = CUT_AT_END[1] if cut else "bytes that are no event", index.bad
    elif not index.closed and not last:
        note = "ends without ROTATE or STOP"
    elif head.own.in_use and not last:
        note = "was not closed: its server crashed"
    transactions = len(index.records)
    checksum = index.checksum
    return FileCheck(
        file.name, index.size, transactions, checksum, index.closed, problem, offset, note
    )


def _with_note(check: FileCheck, note: str) -> FileCheck:
    notes = f"{check.note}; {note}" if check.note else note
    return FileCheck(
        check.file, check.bytes, check.transactions, check.checksum, check.closed, None, None, notes
    )


def _differ(executed: GtidSet, previous: GtidSet) -> str:
    differences = []
    if missing := previous.subtract(executed):
        differences.append(f"PREVIOUS_GTIDS names {missing}, which the files before don't hold")
    if extra := executed.subtract(previous):
        differences.append(f"PREVIOUS_GTIDS lacks {extra}, which the files before hold")
    return "; ".join(differences)


def _dump_file(file: RelayFile, start: int, end: int | None, show: Shown) -> Iterator[EventLine]:
    buf = np.memmap(file.path, np.uint8, "r")
    stop = len(buf) if end is None else min(end, len(buf))
    offset, checksum = max(start, 4), _first_checksum(buf)
    while offset < stop:
        head = buf[offset : offset + HEADER_LENGTH].tobytes()
        length = parse_header(head).length if len(head) == HEADER_LENGTH else 0
        if length < HEADER_LENGTH or offset + length > len(buf):
            left = len(buf) - offset
            yield EventLine(file.name, offset, "-", left, 0, 0, f"{left} bytes that are no event")
            return
        event = buf[offset : offset + length].tobytes()
        header = parse_header(event)
        if header.type == EventType.FORMAT_DESCRIPTION:
            checksum = parse_format_description(event).checksum
        # A FORMAT_DESCRIPTION event always has one.
        has_crc = checksum or header.type == EventType.FORMAT_DESCRIPTION
        crc = int.from_bytes(event[-CRC_LENGTH:], "little") if has_crc else None
        info = _info(event, checksum, show)
        if crc is not None and event_crc(event) != crc:
            info = f"{WRONG_CHECKSUM} {info}"
        yield EventLine(
            file.name, offset, header.name, length, header.end_log_pos, header.server_id, info, crc
        )
        offset += length


def _first_checksum(buf: np.ndarray) -> bool:
    """Return whether the file's first event declares CRC32, for a dump that starts after it."""
    head = buf[4 : 4 + HEADER_LENGTH].tobytes()
    if len(head) < HEADER_LENGTH or head[4] != EventType.FORMAT_DESCRIPTION:
        return False
    try:
        return parse_format_description(buf[4 : 4 + parse_header(head).length].tobytes()).checksum
    except LogError:
        return False


def _info(event: bytes, checksum: bool, show: Shown) -> str:
    try:
        text = _describe(event, checksum, show)
    except LogError as e:
        text = f"({e.message})"
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _INFO_CHARACTERS_MAX else one_line[:197] + "..."


def _describe(event: bytes, checksum: bool, show: Shown) -> str:
    code = event[4]
    body = event[HEADER_LENGTH : len(event) - CRC_LENGTH * checksum]
    if code in _GTID_TYPES:
        gtid = parse_gtid(code, body)
        stamps = f"last_committed={gtid.last_committed} sequence_number={gtid.sequence_number}"
        return f"{gtid} {stamps}"
    if code == EventType.QUERY:
        query = parse_query(body)
        text = show(query.text, query.sql_mode)
        return f"use `{query.database}`; {text}" if query.database else text
    if code == EventType.FORMAT_DESCRIPTION:
        description = parse_format_description(event)
        return f"server {description.server_version}, checksum {description.checksum}"
    if code == EventType.PREVIOUS_GTIDS:
        return str(parse_previous_gtids(body))
    if code == EventType.ROTATE:
        rotate = parse_rotate(body)
        return f"{rotate.name};pos={rotate.position}"
    if code == EventType.XA_PREPARE:
        prepared = parse_xa_prepare(body)
        return f"{prepared}{' ONE PHASE' if prepared.one_phase else ''}"
    if code == EventType.XID:
        return f"xid={int.from_bytes(body[:8], 'little')}"
    if code == EventType.INCIDENT:
        incident = parse_incident(body)
        return f"#{incident.number} {incident.message}"
    if code == EventType.ROWS_QUERY:
        return show(body[1:].decode("utf-8", "replace"), 0)
    if code == EventType.TABLE_MAP or EventType.WRITE_ROWS <= code <= EventType.DELETE_ROWS:
        return _table_info(code, body)
    return ""


def _table_info(code: int, body: bytes) -> str:
    number = int.from_bytes(body[:6], "little")
    if code != EventType.TABLE_MAP:
        return f"table_id={number} flags={int.from_bytes(body[6:8], 'little')}"
    length = body[8] if len(body) > 8 else 0
    database = body[9 : 9 + length].decode("utf-8", "replace")
    at = 10 + length
    table = body[at + 1 : at + 1 + body[at]].decode("utf-8", "replace") if at < len(body) else "?"
    return f"table_id={number} ({database}.{table})"

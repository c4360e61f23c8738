"""Writes small, valid MySQL binary logs, so that odd histories can be made without a server.

Files as a 9.x server with binlog_row_metadata=FULL and CRC32 writes them; columns are numbers
(``int``, and what else ``_NUMBERS`` has), VARCHAR in utf8mb4 (``varchar(N)``, or ``varchar(N)
COLLATE utf8mb4_bin``) or cp932 (``varchar(N) CHARACTER SET cp932``, its values as bytes) or JSON
(``json``, its values in binary). Every call appends to the current file at once.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import zstandard

Value = int | float | Decimal | str | bytes | None
Row = Sequence[Value] | Mapping[int, Value]
"""All values, or (binlog_row_image=MINIMAL) column number -> value."""

Xid = tuple[bytes, bytes, int]
"""gtrid, bqual, format id."""

SERVER = "9.7.0"
_UTF8MB4 = 255
_COLLATIONS = {"cp932": 95, "latin1": 8, "utf8mb4_bin": 46}
"""by the last word of a column's type"""
_QUERY, _ROTATE, _FDE, _XID, _TABLE_MAP = 2, 4, 15, 16, 19
_WRITE, _UPDATE, _DELETE, _GTID, _PREVIOUS, _XA_PREPARE = 30, 31, 32, 33, 35, 38
_ROWS_QUERY, _PAYLOAD, _ANONYMOUS = 29, 40, 34
_EPOCH = 1_700_000_000
SOURCE = "11111111-2222-3333-4444-555555555555"


@dataclass(frozen=True)
class Table:
    """``key``: indexes of the primary key's columns; empty for a table without one. ``map_flags``,
    ``row_flags``: of its TABLE_MAPs, and of its row events beside STMT_END. ``not_null``: indexes
    of other columns that are NOT NULL. ``bare``: a TABLE_MAP has types alone, as before 8.0."""

    name: str
    columns: tuple[tuple[str, str], ...] = (("id", "int"), ("v", "varchar(40)"))
    key: tuple[int, ...] = (0,)
    database: str = "t"
    map_flags: int = 0
    row_flags: int = 0
    not_null: tuple[int, ...] = ()
    bare: bool = False

    @property
    def create(self) -> str:
        parts = [
            f"`{name}` {kind}{' NOT NULL' if i in self.not_null else ''}"
            for i, (name, kind) in enumerate(self.columns)
        ]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(self.columns[i][0] for i in self.key)})")
        return f"CREATE TABLE {self.database}.{self.name} ({', '.join(parts)})"


@dataclass(frozen=True)
class Change:
    """``images``: rows, for an update before and after image by turns."""

    table: Table
    kind: int
    images: tuple[Row, ...]


def insert(table: Table, *rows: Row) -> Change:
    return Change(table, _WRITE, rows)


def delete(table: Table, *rows: Row) -> Change:
    return Change(table, _DELETE, rows)


def update(table: Table, *pairs: tuple[Row, Row]) -> Change:
    return Change(table, _UPDATE, tuple(image for pair in pairs for image in pair))


class LogWriter:
    """One server's log in ``folder``. ``gno``: that of the next transaction; ``anonymous``: whether
    it has none (gtid_mode OFF and the permissive modes); ``parent``: its last_committed (None: the
    transaction before); ``rows_query``: written before its rows."""

    def __init__(
        self,
        folder: Path,
        *,
        source: str = SOURCE,
        gno: int = 1,
        stem: str = "bin",
        server_id: int = 1,
        created: int = _EPOCH,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.stem, self.source, self.gno = folder, stem, source, gno
        self.server_id, self.number, self.sequence = server_id, 0, 0
        self.spans: list[tuple[str, int, int]] = []  # of each transaction: file, start, end
        self._first = gno
        self.parent: int | None = None
        self.rows_query, self.anonymous = "", False
        self._open(created)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.stem}.{self.number:06d}"

    def gtid(self, ordinal: int) -> str:
        """GTID of the ordinal-th transaction (from 0) that this writer wrote."""
        return f"{self.source}:{self._first + ordinal}"

    def ddl(self, statement: str, database: str = "t", status: bytes = b"", error: int = 0) -> None:
        """``status``: the event's status variables; ``error``: with which it failed."""
        self._transaction([(_QUERY, _query(statement, database, status, error))])

    def transaction(
        self,
        *changes: Change,
        commit: bool = True,
        rollback: bool = False,
        compressed: bool = False,
        query: str = "",
        whole: bool = True,
        statement: str = "",
        status: bytes = b"",
    ) -> None:
        """BEGIN, table maps and rows, XID, or ROLLBACK; ``commit=False`` leaves the XID out (a cut
        log).

        ``query``: the text of a ROWS_QUERY event before each change; not ``whole``: all are of
        the first statement; ``statement``: one before the rows, with its ``status`` variables.
        """
        events = [(_QUERY, _query("BEGIN", ""))]
        events += [(_QUERY, _query(statement, "t", status))] if statement else []
        query = query or self.rows_query
        for i, change in enumerate(changes):
            if query and (whole or i == 0):
                events.append(_rows_query(query))
            events += [
                (_TABLE_MAP, _table_map(change.table)),
                (change.kind, _rows_event(change, ends=whole or i == len(changes) - 1)),
            ]
        end = (_QUERY, _query("ROLLBACK", "")) if rollback else (_XID, struct.pack("<Q", self.gno))
        events += [end] if commit else []
        self._transaction([(_PAYLOAD, self._packed(events))] if compressed else events)

    def _packed(self, events: list[tuple[int, bytes]]) -> bytes:
        inner = b"".join(
            struct.pack("<IBIIIH", _EPOCH, kind, self.server_id, 19 + len(data), 0, 0) + data
            for kind, data in events
        )
        data = zstandard.compress(inner)
        sizes = (b"\xfe" + struct.pack("<Q", size) for size in (len(inner), len(data)))
        return b"\x02\x01\0\x03\x09%b\x01\x09%b\0" % tuple(sizes) + data

    def xa_prepare(
        self,
        xid: Xid,
        *changes: Change,
        one_phase: bool = False,
        compressed: bool = False,
        begin: str = "XA START",
        end: str = "XA_PREPARE",
        held: Xid | None = None,
        amid: str = "",
    ) -> None:
        """XA START, table maps and rows, XA END, XA_PREPARE. Malformed with another ``begin``
        (BEGIN) or ``end`` (XID, or a statement), with a statement ``amid``, or when XA_PREPARE
        ``held`` another XID."""
        begun = begin if begin == "BEGIN" else f"{begin} {_xid_text(xid)}"
        events = [(_QUERY, _query(begun, ""))]
        for change in changes:
            events += [_rows_query(self.rows_query)] if self.rows_query else []
            events += [
                (_TABLE_MAP, _table_map(change.table)),
                (change.kind, _rows_event(change)),
            ]
        if amid:
            events.append((_QUERY, _query(amid, "")))
        gtrid, bqual, format_id = held or xid
        prepare = struct.pack("<BIII", one_phase, format_id, len(gtrid), len(bqual))
        events.append((_QUERY, _query(f"XA END {_xid_text(xid)}", "")))
        ends = {
            "XA_PREPARE": (_XA_PREPARE, prepare + gtrid + bqual),
            "XID": (_XID, struct.pack("<Q", self.gno)),
        }
        events.append(ends.get(end) or (_QUERY, _query(end, "")))
        self._transaction([(_PAYLOAD, self._packed(events))] if compressed else events)

    def xa_end(self, action: str, xid: Xid) -> None:
        """The second part, in a transaction of its own: ``action`` is COMMIT or ROLLBACK."""
        self._transaction([(_QUERY, _query(f"XA {action} {_xid_text(xid)}", ""))])

    def events(self, names: Sequence[str], xid: Xid) -> None:
        """A transaction of events that may be no transaction at all: XID, XA_PREPARE, or else
        statements; XA START and its like are of ``xid``."""
        gtrid, bqual, format_id = xid
        prepare = struct.pack("<BIII", 0, format_id, len(gtrid), len(bqual)) + gtrid + bqual
        bodies = {"XID": (_XID, struct.pack("<Q", self.gno)), "XA_PREPARE": (_XA_PREPARE, prepare)}
        ours = ("XA START", "XA COMMIT", "XA ROLLBACK")
        for name in names:
            text = f"{name} {_xid_text(xid)}" if name in ours else name
            bodies.setdefault(name, (_QUERY, _query(text, "")))
        self._transaction([bodies[name] for name in names])

    def rotate(self) -> None:
        following = f"{self.stem}.{self.number + 1:06d}"
        self._event(_ROTATE, struct.pack("<Q", 4) + following.encode())
        self._open(0)

    def _transaction(self, events: list[tuple[int, bytes]]) -> None:
        start = self.path.stat().st_size
        self.sequence += 1
        stamp = (_EPOCH + self.gno) * 1_000_000
        body = struct.pack(
            "<B16sqBqq",
            0,
            bytes(16) if self.anonymous else uuid.UUID(self.source).bytes,
            0 if self.anonymous else self.gno,
            2,
            self.sequence - 1 if self.parent is None else self.parent,
            self.sequence,
        )
        self.parent = None
        body += stamp.to_bytes(7, "little")
        total = 19 + len(body) + 9 + 4 + 4 + sum(19 + len(data) + 4 for _, data in events)
        body += b"\xfe" + struct.pack("<Q", total) + struct.pack("<I", 90700)
        for kind, data in [(_ANONYMOUS if self.anonymous else _GTID, body), *events]:
            self._event(kind, data)
        self.gno += not self.anonymous
        self.spans.append((self.path.name, start, self.path.stat().st_size))

    def _open(self, created: int) -> None:
        self.number += 1
        self.sequence = 0
        self.path.write_bytes(b"\xfebin")
        version = SERVER.encode().ljust(50, b"\0")
        self._event(_FDE, struct.pack("<H50sIB", 4, version, created, 19) + bytes(41) + b"\x01")
        held = struct.pack("<Q", 0)
        if self.gno > 1:
            held = struct.pack("<Q", 1) + uuid.UUID(self.source).bytes
            held += struct.pack("<Qqq", 1, 1, self.gno)
        self._event(_PREVIOUS, held)

    def _event(self, kind: int, body: bytes) -> None:
        at, length = self.path.stat().st_size, 19 + len(body) + 4
        head = struct.pack(
            "<IBIIIH", _EPOCH + self.gno, kind, self.server_id, length, at + length, 0
        )
        data = head + body
        with self.path.open("ab") as file:
            file.write(data + struct.pack("<I", zlib.crc32(data)))


def _xid_text(xid: Xid) -> str:
    gtrid, bqual, format_id = xid
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}"


def _rows_query(text: str) -> tuple[int, bytes]:
    return _ROWS_QUERY, bytes([len(text) & 0xFF]) + text.encode()


def _query(statement: str, database: str, status: bytes = b"", error: int = 0) -> bytes:
    name = database.encode()
    head = struct.pack("<IIBHH", 1, 0, len(name), error, len(status)) + status
    return head + name + b"\0" + statement.encode()


def _bits(values: Sequence[bool]) -> bytes:
    out = bytearray((len(values) + 7) // 8)
    for i, value in enumerate(values):
        out[i >> 3] |= value << (i & 7)
    return bytes(out)


def _bytes_of(kind: str) -> int:
    return 4 * int(kind.partition("(")[2].partition(")")[0])


# type -> its number, how a value is packed, and what TABLE_MAP says of it
_NUMBERS = {
    "smallint": (2, "<h", b""),
    "int": (3, "<i", b""),
    "bigint": (8, "<q", b""),
    "float": (4, "<f", b"\x04"),
    "double": (5, "<d", b"\x08"),
    "decimal(6,2)": (246, "", b"\x06\x02"),
    "decimal(9,4)": (246, "", b"\x09\x04"),
}
_METAS = {"json": b"\x04", **{kind: meta for kind, (_, _, meta) in _NUMBERS.items()}}
_DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def _meta(kind: str) -> bytes:
    return _METAS[kind] if kind in _METAS else struct.pack("<H", _bytes_of(kind))


def _table_map(table: Table) -> bytes:
    count = len(table.columns)
    kinds = [kind for _, kind in table.columns]
    meta = b"".join(_meta(kind) for kind in kinds)
    numbers = sum(kind in _NUMBERS for kind in kinds)
    texts = [kind for kind in kinds if kind not in _METAS]
    nullable = _bits([i not in table.key + table.not_null for i in range(count)])
    database, name = table.database.encode(), table.name.encode()
    out = struct.pack("<IHH", _table_id(table), 0, table.map_flags | 1)
    out += bytes([len(database)]) + database + b"\0" + bytes([len(name)]) + name + b"\0"
    types = {"json": 245, **{kind: number for kind, (number, _, _) in _NUMBERS.items()}}
    out += bytes([count]) + bytes(types.get(kind, 15) for kind in kinds)
    out += bytes([len(meta)]) + meta + nullable
    if table.bare:
        return out
    fields = [(4, b"".join(bytes([len(c.encode())]) + c.encode() for c, _ in table.columns))]
    if numbers:
        fields.append((1, bytes((numbers + 7) // 8)))
    if texts:
        said = [_COLLATIONS.get(kind.split(" ")[-1]) for kind in texts]
        other = b"".join(bytes([i, number]) for i, number in enumerate(said) if number)
        fields.append((2, b"\xfc" + struct.pack("<H", _UTF8MB4) + other))
    if table.key:
        fields.append((8, bytes(table.key)))
    return out + b"".join(bytes([tag, len(data)]) + data for tag, data in fields)


def _decimal(value: Decimal, precision: int, scale: int) -> bytes:
    """Up to 9 digits on each side of the point."""
    digits = str(abs(int(value.scaleb(scale)))).zfill(precision)
    parts = (digits[: precision - scale], digits[precision - scale :])
    data = b"".join(int(part).to_bytes(_DECIMAL_BYTES[len(part)], "big") for part in parts)
    if value < 0:
        data = bytes(byte ^ 255 for byte in data)
    return bytes([data[0] ^ 128]) + data[1:]


def _table_id(table: Table) -> int:
    return 64 + zlib.crc32(f"{table.database}.{table.name}.{table.columns}".encode()) % 100_000


def _rows_event(change: Change, *, ends: bool = True) -> bytes:
    count = len(change.table.columns)
    flags = change.table.row_flags | ends
    out = struct.pack("<IHHH", _table_id(change.table), 0, flags, 2) + bytes([count])
    for row in change.images[: 2 if change.kind == _UPDATE else 1]:
        held = row if isinstance(row, Mapping) else range(count)
        out += _bits([i in held for i in range(count)])
    return out + b"".join(_image(change.table, row) for row in change.images)


def _image(table: Table, row: Row) -> bytes:
    held = sorted(row.items()) if isinstance(row, Mapping) else list(enumerate(row))
    out = _bits([value is None for _, value in held])
    for i, value in held:
        kind = table.columns[i][1]
        if kind.startswith("decimal") and value is not None:
            out += _decimal(Decimal(value), *_NUMBERS[kind][2])
        elif kind in _NUMBERS and value is not None:
            out += struct.pack(_NUMBERS[kind][1], value)
        elif kind == "json" and isinstance(value, bytes):
            out += struct.pack("<I", len(value)) + value
        elif isinstance(value, (str, bytes)):
            data = value.encode() if isinstance(value, str) else value
            out += struct.pack("<H" if _bytes_of(kind) > 255 else "<B", len(data)) + data
    return out

"""Help for the decoder's tests: transactions of a small log; values as the server prints them."""

from __future__ import annotations

import datetime
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_repl.binlog.events.payload import decompress
from spark_repl.position import RelayPosition
from spark_repl.tables.column import ColumnType, Form
from spark_repl.tables.table_definition import TableDefinition


def transactions(data: bytes, compressed: bool) -> list[tuple[int, int]]:
    """(start, end) of each transaction: from its GTID event to the next, by headers alone."""
    found: list[list[int]] = []
    at = 4
    while at < len(data):
        kind, size = data[at + 4], struct.unpack_from("<I", data, at + 9)[0]
        if kind == 40 and not compressed:
            found.pop()
        elif kind in (33, 34, 42):
            found.append([at, at + size])
        elif found and kind not in (3, 4):
            found[-1][1] = at + size
        at += size
    return [(a, b) for a, b in found]


def read_log(path: Path, compressed: bool = True) -> tuple[Any, Any, Any, Any]:
    """``walk``'s arguments for a file with checksums; may leave compressed transactions out."""
    data = path.read_bytes()
    spans = np.array(transactions(data, compressed), np.int64)
    positions = np.array([RelayPosition(1, int(a)).packed for a in spans[:, 0]], np.int64)
    return np.frombuffer(data, np.uint8), spans[:, 0].copy(), spans[:, 1].copy(), positions


def payloads(data: bytes) -> list[bytes]:
    """Decompressed inner events of the compressed transactions of a file with checksums."""
    found, at = [], 4
    while at < len(data):
        kind, size = data[at + 4], struct.unpack_from("<I", data, at + 9)[0]
        if kind == 40:
            found.append(decompress(data[at + 19 : at + size - 4]))
        at += size
    return found


def printed(batch: pa.RecordBatch, definition: TableDefinition) -> list[list[str | None]]:
    """Rows of text as a client of the server sees them; binary in upper-case hex."""
    columns = []
    for column, array in zip(definition.columns, batch.columns, strict=True):
        if column.type == ColumnType.BIT and column.meta == 1:
            values = [None if v is None else f"{int(v):02X}" for v in array.to_pylist()]
        elif column.form == Form.MICROSECONDS:
            values = [_duration(v, column.meta) for v in array.to_pylist()]
        elif column.form != Form.TEXT and column.type in (
            ColumnType.DATETIME,
            ColumnType.TIMESTAMP,
        ):
            values = [_moment(v, column.meta) for v in array.cast(pa.timestamp("us")).to_pylist()]
        else:
            values = [_text(v, column.type) for v in array.to_pylist()]
        columns.append(values)
    return [list(row) for row in zip(*columns, strict=True)]


def _moment(value: datetime.datetime | None, digits: int) -> str | None:
    if value is None:
        return None
    text = value.isoformat(" ", "microseconds").rjust(26, "0")
    return text[:19] if digits == 0 else text[: 20 + digits]


def _duration(value: int | None, digits: int) -> str | None:
    if value is None:
        return None
    seconds, fraction = divmod(abs(value), 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    part = f".{fraction:06d}"[: digits + 1] if digits else ""
    return "-" * (value < 0) + text + part


def _text(value: Any, kind: int) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if kind == ColumnType.GEOMETRY and isinstance(value, dict):
        return (struct.pack("<I", value["srid"]) + value["wkb"]).hex().upper()
    if kind == ColumnType.VECTOR:
        return struct.pack(f"<{len(value)}f", *value).hex().upper()
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, float):
        return repr(value)
    if kind == ColumnType.YEAR:
        return f"{value:04d}"
    return format(value, "f") if kind == ColumnType.DECIMAL else str(value)

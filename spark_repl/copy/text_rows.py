"""Rows of a query's answer as Arrow: packets of the text protocol, split in compiled code.

A driver that makes a Python object of each value reads 0.1 million rows a second. This module finds
the values' positions in the raw bytes, as the decoder does for row events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets.charset import KEY_TEXT_HINT, TEXT_ERRORS_HINT
from ..binlog.events.grammar import read_uint
from ..binlog.json.variant_text import text_to_variant
from ..binlog.kernels.jit import jit
from ..binlog.rows.equal_values import has_second_forms, refuse_second_forms
from ..binlog.types import geometry_vector, text_values
from ..binlog.types.civil_calendar import ZERO_DATES_HINT
from ..binlog.types.column_values import Values
from ..binlog.types.forms import USUAL, Forms
from ..errors import DecodeError, SchemaError, SourceLostError, SparkReplError
from ..source.dump import refusal
from ..sql.default_literals import REAL_DETAIL
from ..tables.column import BINARY, CHARACTER_TYPES, DATE_TYPES, Column, ColumnType, Form
from .printed_values import printed_values

if TYPE_CHECKING:
    from ..tables.source_table import SourceTable

_T = ColumnType
_UTF8MB4 = 45
_BATCH_ROWS = 1 << 15
_BUFFER_BYTES = 4 << 20
_READ_BYTES = 1 << 20
_PACKET_MAX = 0xFFFFFF
_NEED, _FULL, _END, _ERROR, _BIG = range(5)
# A year, month or day of 0. The conversion to a date finds other invalid dates.
_ZERO_DATE = "^0000|^....-00|^....-..-00"


class Stream(Protocol):
    def readinto1(self, buffer: memoryview, /) -> int: ...


def select_list(definition: SourceTable) -> str:
    """Return the columns of a SELECT. MySQL prints FLOAT with six digits, and DOUBLE(M,D) with D
    decimals. Converted to DOUBLE in the SELECT, they are exact, and a zero keeps its sign."""
    parts = []
    for column in definition.columns:
        name = "`" + column.name.replace("`", "``") + "`"
        if column.type == _T.FLOAT or (column.type == _T.DOUBLE and _may_have_digits(column)):
            name = f"{name} * 1e0"
        parts.append(name)
    return ", ".join(parts)


def _may_have_digits(column: Column) -> bool:
    return column.detail is None or bool(REAL_DETAIL.search(column.detail))


def key_to_arrow(column: Column, values: Values) -> pa.Array:
    """Return the array of a key's column. Do not replace bytes that are no character, because two
    keys could then become equal. Raise as ``to_arrow``, and DecodeError for a form that could be
    another key's."""
    if has_second_forms(column):
        refuse_second_forms(column, values)
    try:
        return to_arrow(column, values, USUAL)[0]
    except SparkReplError as error:
        if error.hint == TEXT_ERRORS_HINT:
            error.hint = KEY_TEXT_HINT
        raise


def read_rows(stream: Stream, collations: Sequence[int]) -> Iterator[list[Values]]:
    """Yield batches of rows, each as columns of values, valid until the next batch is read.
    ``collations``: the columns' collations in the server's answer.

    ``stream`` is positioned after the column descriptions. Raise SourceError for the server's
    error.
    """
    count = len(collations)
    buffer = np.zeros(_BUFFER_BYTES, np.uint8)
    start = have = rows = 0
    offsets = np.zeros((count, _BATCH_ROWS), np.int64)
    lengths = np.zeros((count, _BATCH_ROWS), np.int32)
    while True:
        rows, start, code = _split_rows(buffer, start, have, offsets, lengths, rows)
        if code == _NEED and have < len(buffer):  # TLS gives 16 KB at a time
            have += _read(stream, buffer.data[have : have + _READ_BYTES])
            continue
        if rows:
            yield [
                Values(buffer, offsets[c, :rows], lengths[c, :rows], collation)
                for c, collation in enumerate(collations)
            ]
            rows = 0
        if code == _END:
            return
        if code == _ERROR:
            raise refusal(buffer[start + 4 : have].tobytes())
        if code == _BIG:
            row, left_over = _join(stream, buffer[start:have].tobytes())
            _columns(row, 0, offsets, lengths, 0)
            yield [
                Values(row, offsets[c, :1], lengths[c, :1], collation)
                for c, collation in enumerate(collations)
            ]
            buffer = np.zeros(max(len(buffer), 2 * len(left_over)), np.uint8)
            buffer[: len(left_over)] = np.frombuffer(left_over, np.uint8)
            start, have = 0, len(left_over)
        elif code == _NEED:
            left = have - start
            grown = buffer if left < len(buffer) // 2 else np.zeros(2 * len(buffer), np.uint8)
            grown[:left] = buffer[start:have].copy()
            buffer, start, have = grown, 0, left


def _read(stream: Stream, space: memoryview) -> int:
    """Read into ``space``, and return the number of bytes. Raise SourceLostError."""
    try:
        count = stream.readinto1(space)
    except OSError as error:
        raise SourceLostError(f"Lost connection to the source: {error}", number=2013) from error
    if not count:
        raise SourceLostError("Lost connection to the source during query", number=2013)
    return count


def _join(stream: Stream, have: bytes) -> tuple[npt.NDArray[np.uint8], bytes]:
    """Return a row of 16 MB or more, joined from its packets, and the bytes after it."""
    parts, data, length = list[bytes](), bytearray(have), _PACKET_MAX
    space = memoryview(bytearray(_READ_BYTES))
    while length == _PACKET_MAX:
        while len(data) < 4 or len(data) < 4 + (length := int.from_bytes(data[:3], "little")):
            data += space[: _read(stream, space)]
        parts.append(bytes(data[4 : 4 + length]))
        del data[: 4 + length]
    return np.frombuffer(b"".join(parts), np.uint8), bytes(data)


@jit
def _columns(data: Any, at: Any, offsets: np.ndarray, lengths: np.ndarray, row: Any) -> None:
    for column in range(offsets.shape[0]):
        size: Any = np.int64(data[at])
        at += 1
        if size == 0xFB:
            size = np.int64(-1)
        elif size > 0xFB:
            width = 2 if size == 0xFC else (3 if size == 0xFD else 8)
            size = read_uint(data, at, width)
            at += width
        offsets[column, row] = at
        lengths[column, row] = size
        at += max(size, 0)


@jit
def _split_rows(
    data: np.ndarray, start: int, have: int, offsets: np.ndarray, lengths: np.ndarray, rows: int
) -> Any:
    """Return (rows in the batch, offset after them, why it ends). ``rows``: those already in it."""
    at: Any = np.int64(start)
    for row in range(rows, offsets.shape[1]):
        if have - at < 4:
            return row, at, _NEED
        length = read_uint(data, at, 3)
        if length == _PACKET_MAX:
            return row, at, _BIG
        if have - at < 4 + length:
            return row, at, _NEED
        first = data[at + 4]
        if first == 0xFE and length < 9:
            return row, at, _END
        if first == 0xFF:
            return row, at, _ERROR
        _columns(data, at + 4, offsets, lengths, row)
        at += 4 + length
    return offsets.shape[1], at, _FULL


def to_arrow(column: Column, values: Values, forms: Forms) -> tuple[pa.Array, int]:
    """Return the array that the decoder of row events would return for a column, and the number of
    texts in which characters were replaced. Raise SchemaError."""
    if column.type in (_T.ENUM, _T.SET) or column.type in CHARACTER_TYPES:
        return _text(column, values, forms)
    return _other(column, values, forms), 0


def may_replace(column: Column, forms: Forms) -> bool:
    """Return whether the target may store a different value for some values of the column."""
    if column.type in DATE_TYPES:
        return forms.zero_dates == "null" and column.form != Form.TEXT
    texts = column.type in (_T.ENUM, _T.SET) or column.type in CHARACTER_TYPES
    return texts and forms.text_errors == "replace"


def _text(column: Column, values: Values, forms: Forms) -> tuple[pa.Array, int]:
    """Return texts as the decoder of the log decodes them, and how many have a replaced
    character."""
    if column.type in CHARACTER_TYPES and column.collation == BINARY:
        return text_values.gather(values, pa.binary()), 0
    collation = values.collation or column.collation or _UTF8MB4
    if collation == BINARY:  # members, which are read as UTF-8 in TABLE_MAP, too
        collation = _UTF8MB4
    try:
        return text_values.decode(values, collation, forms.text_errors)
    except DecodeError as error:
        raise SchemaError(f"column {column.name}: {error.message}", hint=error.hint) from None


def _other(column: Column, values: Values, forms: Forms) -> pa.Array:
    if column.type == _T.BIT:
        return _bit(column, values)
    if column.type == _T.GEOMETRY:
        return geometry_vector.geometry(column, values)
    if column.type == _T.VECTOR:
        return geometry_vector.vector(values)
    if column.form == Form.VARIANT:
        return text_to_variant(values)
    if not column.form and (parsed := printed_values(values, column.arrow_type)) is not None:
        return parsed
    texts = text_values.gather(values, pa.string())
    if column.form == Form.MICROSECONDS:
        return _microseconds(texts)
    if column.type in DATE_TYPES and column.form != Form.TEXT:
        return _dates(column, texts, forms.zero_dates)
    return texts if column.arrow_type == pa.string() else texts.cast(column.arrow_type)


def _bit(column: Column, values: Values) -> pa.Array:
    raw = text_values.gather(values, pa.binary())
    return pc.equal(raw, b"\1") if column.meta == 1 else raw


def _microseconds(texts: pa.Array) -> pa.Array:
    """Return an Int64Array of microseconds from TIME values as the server prints them,
    -838:59:59.000000."""
    parts = pc.extract_regex(
        texts, r"^(?P<sign>-?)(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)\.?(?P<f>\d*)$"
    )
    hours, minutes, seconds = (pc.struct_field(parts, name).cast(pa.int64()) for name in "hms")
    fraction = pc.utf8_rpad(pc.struct_field(parts, "f"), 6, "0").cast(pa.int64())
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    total = pc.add(pc.multiply(whole, 1_000_000), fraction)
    return pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(total), total)


def _dates(column: Column, texts: pa.Array, zero_dates: str) -> pa.Array:
    zero_dated = pc.match_substring_regex(texts, _ZERO_DATE)
    if pc.any(zero_dated).as_py():
        if zero_dates != "null":
            raise SchemaError(
                f"column {column.name} holds zero or partial dates",
                hint=ZERO_DATES_HINT,
            )
        texts = pc.if_else(zero_dated, pa.scalar(None, pa.string()), texts)
    if column.type == _T.DATE:
        return texts.cast(pa.date32())
    timestamps = texts.cast(pa.timestamp("us"))
    return timestamps if column.type == _T.DATETIME else pc.assume_timezone(timestamps, "UTC")

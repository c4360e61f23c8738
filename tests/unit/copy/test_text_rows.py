"""Rows of a query's answer: packets of any size, however the stream cuts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.binlog.types.text_values import gather
from spark_repl.copy.source_tables import ListedTable, refuse_diffs
from spark_repl.copy.text_rows import read_rows, select_list
from spark_repl.errors import SourceError, SourceLostError
from spark_repl.sql.classify import classify

_MAX = 0xFFFFFF


class Bytes:
    """A stream that gives at most ``step`` bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self.data, self.step, self.at = memoryview(data), step, 0

    def readinto1(self, buffer: memoryview, /) -> int:
        part = self.data[self.at : self.at + min(len(buffer), self.step)]
        buffer[: len(part)] = part
        self.at += len(part)
        return len(part)


def packets(payload: bytes) -> Iterator[bytes]:
    """A payload of a multiple of 16 MB - 1 ends with an empty packet."""
    for at in range(0, len(payload) + 1, _MAX):
        part = payload[at : at + _MAX]
        yield len(part).to_bytes(3, "little") + b"\0" + part


def value(data: bytes | None) -> bytes:
    if data is None:
        return b"\xfb"
    size = len(data)
    if size < 0xFB:
        return bytes([size]) + data
    width, code = next(w for w in ((2, 0xFC), (3, 0xFD), (8, 0xFE)) if size < 1 << 8 * w[0])
    return bytes([code]) + size.to_bytes(width, "little") + data


def answer(rows: list[tuple[bytes | None, ...]], end: bytes = b"\xfe\0\0\2\0") -> bytes:
    payloads = [b"".join(map(value, row)) for row in rows]
    return b"".join(part for payload in [*payloads, end] for part in packets(payload))


def found_in(data: bytes, step: int) -> list[tuple[Any, ...]]:
    found = []
    for columns in read_rows(Bytes(data, step), [45, 45]):
        arrays = [gather(column, pa.binary()).to_pylist() for column in columns]
        found += list(zip(*arrays, strict=True))
    return found


@pytest.mark.parametrize("step", [700_001, 1 << 20])
def test_rows_of_16_mb_and_more_are_read(step: int) -> None:
    # The second fills its packet to the last byte, so an empty one follows.
    sizes = (3, _MAX - 10, _MAX + 1, 5, 2 * _MAX + 77, 250)
    rows = [(str(size).encode(), b"x" * size) for size in sizes]
    rows.append((None, b"y" * (_MAX - 4)))
    assert found_in(answer(rows), step) == rows


def test_rows_are_read_however_the_stream_is_cut() -> None:
    rows: list[tuple[bytes | None, ...]] = [(b"a" * (i % 300), None) for i in range(500)]
    assert found_in(answer(rows), 7) == rows


def test_small_steps_make_no_small_batches() -> None:
    """TLS gives 16 KB a read: a batch of 80 rows each, three times the time of a whole one."""
    rows: list[tuple[bytes | None, ...]] = [(b"a" * 200, b"b")] * 100_000
    sizes = [len(columns[0].length) for columns in read_rows(Bytes(answer(rows), 16_384), [45, 45])]
    assert sum(sizes) == len(rows)
    assert len(sizes) < 8


def test_errors_of_the_server_and_the_wire() -> None:
    error = b"\xff\xf5\x05#HY000killed"
    with pytest.raises(SourceError, match="killed") as caught:
        found_in(answer([(b"a", b"b")], error), 1000)
    assert caught.value.number == 1525
    with pytest.raises(SourceLostError):
        found_in(answer([(b"a", b"x" * (_MAX + 9))])[: _MAX + 5], 1 << 20)


def test_diffs_for_a_variant_are_refused_before_the_copy() -> None:
    made = {
        kind: classify(f"CREATE TABLE t (id int PRIMARY KEY, x {kind})", "d").definition
        for kind in ("json", "text")
    }
    tables = {kind: ListedTable(found, 1, 1) for kind, found in made.items() if found}
    options = {"binlog_row_value_options": "PARTIAL_JSON"}
    refuse_diffs([tables["json"]], {"binlog_row_value_options": ""})
    refuse_diffs([tables["text"]], options)
    with pytest.raises(SourceError, match="kept as VARIANT"):
        refuse_diffs([tables["text"], tables["json"]], options)


def test_a_double_is_asked_for_with_all_its_digits() -> None:
    """FLOAT shows six, and what has (M,D) those."""
    made = classify(
        "CREATE TABLE t.r (a DOUBLE, b DOUBLE(10,2) UNSIGNED, c REAL(9,1) ZEROFILL, d FLOAT,"
        " e FLOAT(7,3), f DECIMAL(7,3))",
        "t",
    ).definition
    assert made is not None
    assert select_list(made) == "`a`, `b` * 1e0, `c` * 1e0, `d` * 1e0, `e` * 1e0, `f`"
    unknown = replace(made, columns=(replace(made.columns[0], detail=None),))
    assert select_list(unknown) == "`a` * 1e0"

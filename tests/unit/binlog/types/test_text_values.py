"""Bytes without a character in texts: which rows have some, and what takes their place."""

from __future__ import annotations

import numpy as np
import pytest

from spark_repl.binlog.charsets.charset import replaced_text, to_text
from spark_repl.binlog.rows.decode_column import decode_column
from spark_repl.binlog.types.column_values import Values
from spark_repl.binlog.types.forms import USUAL, Forms
from spark_repl.binlog.types.text_values import decode, find_invalid
from spark_repl.errors import DecodeError
from spark_repl.tables.column import Column, ColumnType
from tests.support.json_binary import laid_out

REPLACE = Forms(text_errors="replace")


def values(*rows: bytes | None) -> Values:
    buffer, offset, length = laid_out([row or b"" for row in rows], b"")
    nulls = np.array([row is None for row in rows])
    return Values(buffer, offset, np.where(nulls, -1, length).astype(np.int32))


@pytest.mark.parametrize(
    ("collation", "faulty", "want"),
    [
        (255, b"a\xed\xa0\x80b", "a\ufffdb"),
        (33, b"\xed\xb0\x80", "\ufffd"),
        (25, b"a\xa4\xe1", "a\ufffdα"),
        (28, b"\xfe\x50\xd6\xd0", "\ufffd中"),
        (35, b"\xd8\x00\xdc\x00\x00a", "\ufffd\ufffda"),
        (60, b"\x00\x00\xd8\x00\x00\x00\x00a", "\ufffda"),
    ],
)
def test_characters_are_replaced_one_by_one(collation: int, faulty: bytes, want: str) -> None:
    fine = "ab".encode({35: "utf-16-be", 60: "utf-32-be"}.get(collation, "ascii"))
    rows = values(fine, None, faulty, b"", faulty)
    array, replaced = decode(rows, collation, "replace")
    array.validate(full=True)
    assert array.to_pylist() == ["ab", None, want, "", want] and replaced == 2
    with pytest.raises(DecodeError, match="are not text in character set") as caught:
        decode(rows, collation)
    assert caught.value.row == 2 and "target.text_errors" in str(caught.value.hint)
    assert decode(values(fine, None), collation)[1] == 0


def test_the_error_names_the_first_character_that_is_none() -> None:
    with pytest.raises(DecodeError, match="bytes a4 are not text in character set greek"):
        decode(values(b"x" * 70 + b"\xa4"), 25)


def test_utf8_is_what_python_takes_for_it() -> None:
    rand = np.random.default_rng(7)
    edges = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
             0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]  # fmt: skip
    rows = [bytes(rand.choice(edges, rand.integers(0, 6)).tolist()) for _ in range(20_000)]
    given = values(*rows)
    bad = np.zeros(len(rows), np.bool_)
    find_invalid(given.buffer, given.offset, given.length, bad)
    for row, is_bad in zip(rows, bad.tolist(), strict=True):
        try:
            row.decode()
            assert not is_bad, row
        except UnicodeDecodeError:
            assert is_bad, row


@pytest.mark.parametrize(
    ("charset", "data"),
    [("greek", b"\xa4"), ("greek", b"\xaa"), ("cp1256", b"\x8a"), ("big5", b"\xa1\xfe"),
     ("ucs2", b"\xd8\x00\xdc\x00")],
)  # fmt: skip
def test_what_the_server_converts_to_a_question_mark(charset: str, data: bytes) -> None:
    """Python has a letter for it; the server has ? or U+FFFD."""
    with pytest.raises(DecodeError):
        to_text(data, charset)
    assert set(replaced_text(data, charset)) == {"\ufffd"}
    assert to_text(b"\xa2\x41\xa1\xfd", "big5")  # others with these bytes are characters


@pytest.mark.parametrize("kind", [ColumnType.ENUM, ColumnType.SET])
def test_enum_and_set_literals_that_are_no_text_are_replaced_or_refused(kind: ColumnType) -> None:
    column = Column("c", kind, 1, True, literals=("a\ufffd", "b"))
    faulty, fine = values(b"\2", None, b"\1"), values(b"\2", None)
    array, replaced = decode_column(column, faulty, REPLACE)
    assert array.to_pylist() == ["b", None, "a\ufffd"] and replaced == 1
    assert decode_column(column, fine, USUAL)[0].to_pylist() == ["b", None]
    with pytest.raises(DecodeError, match="has bytes that are not text") as caught:
        decode_column(column, faulty, USUAL)
    assert caught.value.row == 2

"""Masks: the values that a masked column has instead of its own."""

from __future__ import annotations

import hashlib
import hmac
import random
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_repl.alter.column_defaults import default_value, literal
from spark_repl.binlog.kernels.sha256 import hmac_sha256
from spark_repl.config.tables import TableRule
from spark_repl.position import RelayPosition
from spark_repl.rules.column_rules import ColumnRules
from spark_repl.rules.masking import masked
from spark_repl.rules.table_rules import TableRules
from spark_repl.sql.classify import classify
from spark_repl.tables.column import Column, ColumnType

TEXT = Column("v", ColumnType.VARCHAR, 160, True, collation=255)
KEY = b"planted-key"


def hashed(text: bytes) -> str:
    return hmac.new(KEY, text, hashlib.sha256).hexdigest()


def made(values: list[Any], mask: str, kind: pa.DataType | None = None) -> list[Any]:
    array = pa.array(values, kind or pa.string())
    out = masked(array, replace(TEXT, mask=mask, logged=TEXT), KEY)
    assert len(out) == len(values)
    # Also of a slice, whose buffers are those of all.
    part = masked(array.slice(1), replace(TEXT, mask=mask, logged=TEXT), KEY)
    assert part.to_pylist() == out.to_pylist()[1:]
    return list(out.to_pylist())


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000])
def test_a_digest_is_pythons_hmac_sha256(length: int) -> None:
    data = random.Random(length).randbytes(length)
    offsets = np.array([0, 0, length], np.int64)
    for key in (b"", b"k" * 64):
        out = hmac_sha256(key, np.frombuffer(data, np.uint8), offsets).tobytes().decode()
        assert out[:64] == hmac.new(key, b"", hashlib.sha256).hexdigest()
        assert out[64:] == hmac.new(key, data, hashlib.sha256).hexdigest()


def test_each_mask_replaces_texts_by_characters() -> None:
    values = ["", "ä", None, "0123456789", "日本語の文字列", "abcd"]
    digests = [None if one is None else hashed(one.encode()) for one in values]
    assert made(values, "sha256:ab") == digests
    assert made(values, "truncate:3") == ["", "ä", None, "012", "日本語", "abc"]
    assert made(values, "truncate:0") == ["", "", None, "", "", ""]
    assert made(values, "keep_last:4") == ["", "*", None, "******6789", "***の文字列", "****"]
    assert made(values, "keep_last:0") == ["", "*", None, "*" * 10, "*" * 7, "****"]
    assert made(values, "constant:x:y") == ["x:y"] * 6
    assert made(values, "null") == [None] * 6


def test_each_mask_replaces_bytes_by_bytes() -> None:
    values = [b"", b"\xff\x00\x01", None]
    bytes_ = replace(TEXT, collation=63)
    out = masked(pa.array(values), replace(bytes_, mask="truncate:2"), KEY)
    assert out.to_pylist() == [b"", b"\xff\x00", None]
    assert made(values, "sha256:ab", pa.binary()) == [hashed(b""), hashed(b"\xff\x00\x01"), None]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-7, pa.int32(), b"-7"),
        (Decimal("1.50"), pa.decimal128(5, 2), b"1.50"),
        (date(2026, 1, 2), pa.date32(), b"2026-01-02"),
        (True, pa.bool_(), b"true"),
        (
            datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            pa.timestamp("us", "UTC"),
            b"2026-01-02 03:04:05.000000Z",
        ),
    ],
)
def test_other_types_are_hashed_by_their_text(value: Any, kind: pa.DataType, text: bytes) -> None:
    assert made([value, None, value], "sha256:ab", kind) == [hashed(text), None, hashed(text)]


@pytest.mark.parametrize(
    ("kind", "mask", "shown"),
    [
        ("BINARY(6) NOT NULL DEFAULT 'abc'", "truncate:2", b"ab"),
        ("BINARY(6) NOT NULL DEFAULT 'abc'", "truncate:4", b"abc\0"),
        ("BINARY(6) NOT NULL", "truncate:4", bytes(4)),
        ("CHAR(6) DEFAULT 'a bc'", "truncate:2", "a "),
        ("CHAR(6) DEFAULT 'ab c'", "keep_last:2", "** c"),
        ("VARCHAR(6) DEFAULT 'ab c'", "keep_last:5", "****"),
    ],
)
def test_a_default_is_masked_as_values_are(kind: str, mask: str, shown: str | bytes) -> None:
    """Not filled up to the length of the source's column, nor without spaces that it had inside."""
    made = classify(f"CREATE TABLE t.a (id INT PRIMARY KEY, v {kind})", "t").definition
    assert made is not None
    rules = ColumnRules(TableRules((TableRule("t.a", mask=(("v", mask),)),)), KEY)
    column = rules.shaped(made).columns[1]
    assert default_value(column, "t.a", RelayPosition(1, 4))[0].as_py() == shown
    assert masked(literal(made.columns[1]), column, KEY)[0].as_py() == shown

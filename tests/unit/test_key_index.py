"""Hashes of keys: the same before and after a type is widened, whoever wrote the file."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.sink.key_index import KeyIndex, hash_keys

_AT = [datetime.datetime(1, 1, 2, 3, 4, 5, 6), datetime.datetime(9999, 12, 31), None]


def chunked(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


@pytest.mark.parametrize(
    ("values", "narrow", "wide"),
    [
        ([1, -128, None], pa.int8(), pa.int64()),
        ([1.5, -0.0, None], pa.float32(), pa.float64()),
        ([Decimal("1.50"), Decimal("-100.00"), Decimal("0.00"), None],
         pa.decimal128(10, 2), pa.decimal128(38, 9)),
        ([Decimal("100"), None], pa.decimal128(5, 0), pa.decimal128(20, 3)),
        (["a", "", None], pa.string(), pa.large_string()),
        ([b"\0a", b"", None], pa.binary(), pa.large_binary()),
    ],
)  # fmt: skip
def test_same_hash_after_widening(values, narrow, wide):
    beside = chunked(list(range(len(values))), pa.int32())
    for keys in (lambda c: [c], lambda c: [c, beside]):
        before = hash_keys(keys(chunked(values, narrow)))
        assert (before == hash_keys(keys(chunked(values, wide)))).all()
        assert len(np.unique(before)) == len(values)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_timestamps_of_files_that_spark_wrote(tmp_path: Path, zone: str | None) -> None:
    # OPTIMIZE writes them as INT96, which pyarrow reads as nanoseconds of 64 bits else.
    keys = pa.table({"k": pa.array(_AT, pa.timestamp("us", zone))})
    pq.write_table(keys, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"])
    found = hash_keys(index.read_keys("f.parquet"))
    assert (found == hash_keys([keys.column("k")])).all()


@pytest.mark.parametrize("left", [None, b"", b"\x93NUMPY\x01"])
def test_index_that_is_gone_or_half_written_is_made_again(tmp_path: Path, left: Any) -> None:
    pq.write_table(pa.table({"k": pa.array([7, 5, 5], pa.int64())}), tmp_path / "f.parquet")
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"])
    if left is not None:
        (tmp_path / "keys").mkdir()
        (tmp_path / "keys" / "f.parquet.npy").write_bytes(left)
    at, rows = index.candidates("f.parquet", np.array([5, 6, 7]))
    assert sorted(zip(at.tolist(), rows.tolist(), strict=True)) == [(0, 1), (0, 2), (2, 0)]

"""Codes of rows of tables without a key: rows are compared by value."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.tables.column import GEOMETRY_STRUCT, VECTOR_LIST
from spark_repl.write.files import key_index
from spark_repl.write.files.key_index import value_codes

_COLUMNS: dict[pa.DataType, list[Any]] = {
    pa.int32(): [1, 2, None],
    pa.string(): ["", "a", None],
    pa.float32(): [0.0, -0.0, 1.5, None],
    pa.float64(): [0.0, -0.0],
    GEOMETRY_STRUCT: [None, {"srid": 0, "wkb": b""}, {"srid": 4326, "wkb": b""}],
    VECTOR_LIST: [None, [], [0.0], [-0.0]],
}


@pytest.mark.parametrize("mask", [-1, 3], ids=["true hash", "two bits of it"])
@pytest.mark.parametrize("kinds", [list(_COLUMNS), list(_COLUMNS)[:2]], ids=["all", "plain"])
@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_equal_rows_have_equal_codes(
    monkeypatch: pytest.MonkeyPatch, mask: int, kinds: list[pa.DataType], count: int
) -> None:
    true = key_index.hash_keys
    monkeypatch.setattr(key_index, "hash_keys", lambda keys: true(keys) & mask)
    rand = random.Random(count)
    data = [[rand.choice(_COLUMNS[kind]) for _ in range(count)] for kind in kinds]
    arrays = [pa.array(values, kind) for values, kind in zip(data, kinds, strict=True)]
    rows = pa.table(arrays, names=[str(i) for i in range(len(kinds))])
    code, distinct = value_codes(rows)
    codes: dict[str, set[int]] = {}
    for number, row in zip(code.tolist(), zip(*data, strict=True), strict=True):
        codes.setdefault(repr(row), set()).add(number)
    assert all(len(numbers) == 1 for numbers in codes.values())
    assert set().union(*codes.values()) == set(range(distinct))
    assert len(codes) == distinct

"""The key index: every row of every key, whatever others do to the files' indexes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_repl.write.files.key_index import IndexTask, KeyIndex, build, hash_keys

KEYS = st.lists(st.integers(-6, 6), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(KEYS, KEYS)
def test_candidates_are_all_rows_with_the_key(
    tmp_path: Path, stored: list[int], needed: list[int]
) -> None:
    # Scenario 159: no row with the key is missed.
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["id"])
    index.add("f", np.array(stored, np.int64))
    at, rows = index.candidates("f", np.sort(np.array(needed, np.int64)))
    found = sorted(zip(at.tolist(), rows.tolist(), strict=True))
    want = [(i, row) for i, key in enumerate(sorted(needed)) for row, k in enumerate(stored)
            if k == key]  # fmt: skip
    assert found == want


def test_missing_indexes_are_built_and_those_of_gone_files_go(tmp_path: Path) -> None:
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["id"])
    for name in ("a.parquet", "sub /b.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": pa.array([3, 1, 2])}), tmp_path / name)
    names = ["a.parquet", "sub%20/b.parquet"]  # as a table's log names them
    assert index.missing(names) == names
    build(IndexTask(index, names[0]))
    assert index.missing(names) == names[1:]
    build(IndexTask(index, names[1]))
    assert index.missing(names) == []
    wanted = hash_keys([pa.chunked_array([[1]])])
    assert index.candidates(names[1], wanted)[1].tolist() == [1]
    (tmp_path / "a.parquet").unlink()
    index.forget_gone()
    assert index.missing(names) == names[:1]

"""Key index: hashes that stay equal when a type is widened, whichever writer wrote the file."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.tables.column import GEOMETRY_STRUCT, VECTOR_LIST
from spark_repl.write.files.key_index import (
    KeyIndex,
    hash_keys,
    hashes_alike,
    is_exact,
    write_indexed,
)

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
def test_hashes_stay_after_widening_a_key(values, narrow, wide):
    beside = chunked(list(range(len(values))), pa.int32())
    for keys in (lambda c: [c], lambda c: [c, beside]):
        before = hash_keys(keys(chunked(values, narrow)))
        assert (before == hash_keys(keys(chunked(values, wide)))).all()
        assert len(np.unique(before)) == len(values)


@pytest.mark.parametrize(
    ("values", "kind", "want"),
    [
        ([5, -1], pa.int32(), [5, -1]),
        ([5, None], pa.int64(), [5, -7046029254386353131]),
        ([True, None], pa.bool_(), [-2960836685804272853, 1728126539969246250]),
        ([datetime.date(2000, 2, 29)], pa.date32(), [-2733422239751376020]),
        ([datetime.datetime(1, 1, 2, 3)], pa.timestamp("us"), [7520909903999422336]),
        ([1.5, -0.0, 0.0], pa.float64(), [-631827123567113068, 0, 0]),
        ([Decimal("1.50")], pa.decimal128(5, 2), [1826692135596014441]),
        (["é", ""], pa.string(), [1199699986671086778, -162702791582339457]),
        ([{"srid": 7, "wkb": b"x"}], GEOMETRY_STRUCT, [949559754031631281]),
        ([[1.5, 2.5]], VECTOR_LIST, [161254008095710506]),
    ],
)
def test_hashes_stay_those_of_existing_index_files(values, kind, want):
    """Indexes outlive versions: another hash needs another format."""
    assert hash_keys([chunked(values, kind)]).tolist() == want


def test_a_key_of_two_numbers_is_hashed():
    keys = [chunked([5], pa.int32()), chunked([6], pa.int64())]
    assert hash_keys(keys).tolist() == [5032867725359169077]
    assert not is_exact([key.type for key in keys])
    assert is_exact([pa.int32()]) and not is_exact([pa.string()])


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_int96_timestamps_of_spark_hash_as_ours(tmp_path: Path, zone: str | None) -> None:
    # OPTIMIZE writes them as INT96, which pyarrow reads as nanoseconds of 64 bits else.
    keys = pa.table({"k": pa.array(_AT, pa.timestamp("us", zone))})
    pq.write_table(keys, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"])
    found = hash_keys(index.read_keys("f.parquet"))
    assert (found == hash_keys([keys.column("k")])).all()


@pytest.mark.parametrize("left", [None, b"", b"\x93NUMPY\x01"])
def test_a_missing_or_half_written_index_is_rebuilt(tmp_path: Path, left: Any) -> None:
    pq.write_table(pa.table({"k": pa.array([7, 5, 5], pa.int64())}), tmp_path / "f.parquet")
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"])
    if left is not None:
        (tmp_path / "keys").mkdir()
        (tmp_path / "keys" / "f.parquet.npy").write_bytes(left)
    at, rows = index.candidates("f.parquet", np.array([5, 6, 7]))
    assert sorted(zip(at.tolist(), rows.tolist(), strict=True)) == [(0, 1), (0, 2), (2, 0)]


def test_a_file_is_indexed_when_it_is_written(tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array([7, 5], pa.int64())})
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"])
    index.forget_gone()  # nothing yet
    (add,) = write_indexed(index, Columns.of(schema_json(rows.schema)), rows)
    assert index.missing([add["path"]]) == []
    begun = tmp_path / "keys" / "f.parquet.npy.1.part"  # another process writes it now
    begun.touch()
    index.forget_gone()
    assert begun.exists() and index.missing([add["path"]]) == []
    os.utime(begun, (0, 0))  # it was killed
    (tmp_path / add["path"]).unlink()
    index.forget_gone()
    assert not (tmp_path / "keys").exists(), "an empty folder may be of a key of before"


def test_a_partitions_folder_may_have_the_longest_name(tmp_path: Path) -> None:
    """Others' OPTIMIZE writes into folders that are named by a partition's value."""
    folder = tmp_path / ("p=" + "é" * 126)
    folder.mkdir()
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"])
    files = [f"{folder.name}/part-0000{n}-{'0' * 36}.c000.zstd.parquet" for n in (0, 1)]
    for number, path in enumerate(files):
        pq.write_table(pa.table({"k": pa.array([7, number])}), tmp_path / path)
    for _ in range(2):
        assert index.missing(files) == files
        for number, path in enumerate(files):
            index.build(path)
            at, rows = index.candidates(path, np.array([number, 9]))
            assert (at.tolist(), rows.tolist(), index.row_count(path)) == ([0], [1], 2)
        assert index.missing(files) == []
        index.forget_gone()  # which may take it: it is made again


def test_an_index_is_written_though_its_folder_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, true, gone = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"]), os.makedirs, [1]

    def makedirs(path: str, **named: Any) -> None:
        true(path, **named)
        if gone:
            gone.pop()
            os.rmdir(path)

    monkeypatch.setattr(os, "makedirs", makedirs)
    index.add("f.parquet", np.array([1]))
    assert index.missing(["f.parquet"]) == []


def test_an_index_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    index = KeyIndex(str(tmp_path), str(tmp_path), ["k"])
    with pytest.raises(FileNotFoundError):
        index._opened(str(tmp_path / "absent" / "f.part"))


def test_look_ups_return_every_pair_of_many_equal_keys(tmp_path: Path) -> None:
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"])
    index.add("f", np.full(40, 7))
    at, rows = index.candidates("f", np.array([6, 7, 7, 8]))
    assert at.tolist() == [1] * 40 + [2] * 40
    assert rows.tolist() == [*range(40)] * 2


@pytest.mark.parametrize("bitwise", [False, True])
def test_different_keys_with_equal_hashes_do_not_match(tmp_path: Path, bitwise: bool) -> None:
    stored = pa.table({"k": pa.array([1.0, 0.0]), "s": ["a", "b"]})
    pq.write_table(stored, tmp_path / "f.parquet")
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k", "s"])
    wanted = [chunked([1.0, 1.0, -0.0], pa.float64()), chunked(["a", "b", "b"], pa.string())]
    at, rows = np.array([0, 1, 2]), np.array([0, 0, 1])
    found = index.same("f.parquet", wanted, at, rows, bitwise=bitwise)
    assert found.tolist() == [True, False, not bitwise]
    if not bitwise:
        assert index.same("f.parquet", wanted, at, rows).tolist() == found.tolist()


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 100_000])
def test_the_size_of_an_index_gives_its_number_of_rows(tmp_path: Path, rows: int) -> None:
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"])
    assert index.row_count("f") == 0, "there is none"
    index.add("f", np.arange(rows))
    assert index.row_count("f") == rows
    (tmp_path / "keys" / "f.npy").write_bytes(b"")
    assert index.row_count("f") == 0, "left by a dead machine"


@pytest.mark.parametrize(
    ("narrow", "wide", "alike"),
    [
        (pa.int16(), pa.int64(), True),
        (pa.decimal128(5, 2), pa.decimal128(20, 3), True),
        (pa.float32(), pa.float64(), True),
        (pa.int32(), pa.decimal128(14, 4), False),
        (pa.int32(), pa.float64(), False),
        (pa.date32(), pa.timestamp("us"), False),
    ],
)
def test_keys_match_in_files_with_a_wider_type(
    tmp_path: Path, narrow: pa.DataType, wide: pa.DataType, alike: bool
) -> None:
    """A table looks for its keys by the type that it has itself, whatever its files have."""
    values = {pa.date32(): datetime.date(2000, 2, 29), pa.decimal128(5, 2): Decimal(7)}
    keys = chunked([values.get(narrow, 7)], narrow)
    pq.write_table(pa.table({"k": keys.cast(wide)}), tmp_path / "x.parquet")
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["k"], [narrow])
    hashes = hash_keys([keys])
    assert index.load("x.parquet")[0].tolist() == hashes.tolist()
    assert index.same("x.parquet", [keys], np.array([0]), np.array([0])).all()
    assert hashes_alike(narrow, wide) is alike
    assert (hash_keys([keys.cast(wide)]) == hashes).all() == alike

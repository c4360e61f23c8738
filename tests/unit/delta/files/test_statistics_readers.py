"""Statistics beside the engines that skip files by them: delta-rs, DuckDB and Polars find the rows
that Python finds, of every type and by every comparison. Spark is asked in ``spark/test_skipping``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.delta.files.delta_columns import Columns, schema_json, write_file
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_snapshot import NewTable
from tests.support.local_delta import LocalDelta
from tests.support.random_rows import SCHEMA, RandomTable, random_table
from tests.support.readers import (
    COMPARISONS,
    Condition,
    Rows,
    by_delta_rs,
    by_duckdb,
    by_duckdb_query,
    by_polars,
)  # fmt: skip

Reader = Callable[[str, pa.Schema, Sequence[Condition]], list[Rows]]
READERS: tuple[Reader, ...] = (by_delta_rs, by_duckdb, by_polars)
FEATURES = {
    "plain": {}, "marked": {"marked": True}, "mapped": {"mapped": True}, "parted": {"parted": True},
    "all": {"marked": True, "mapped": True, "parted": True},
}  # fmt: skip

KINDS = (pa.string(), pa.float32(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
SCHEMA_OF = {kind: pa.schema([("id", pa.int64()), ("value", kind)]) for kind in KINDS}


def wrong(
    reader: Reader, table: RandomTable, schema: pa.Schema, conditions: Sequence[Condition]
) -> list[Condition]:
    """The conditions by which a reader finds other rows than Python does."""
    answers = reader(table.folder, schema, conditions)
    return [
        one for one, found in zip(conditions, answers, strict=True) if found != one.rows(table.rows)
    ]


def one_row_files(folder: Path, values: Sequence[Any], kind: pa.DataType) -> RandomTable:
    """A table with a file for each value of its column ``value``."""
    delta, schema = LocalDelta(), pa.schema([("id", pa.int64()), ("value", kind)])
    delta.create(str(folder), NewTable(schema_json(schema), {}), Stamp("us", 1, ""))
    snapshot = delta.snapshot(str(folder))
    assert snapshot is not None
    columns = Columns.of(snapshot.schema_string)
    rows = [{"id": number, "value": value} for number, value in enumerate(values)]
    adds = [write_file(str(folder), columns, pa.Table.from_pylist([r], schema)) for r in rows]
    delta.commit(snapshot, [{"add": add} for add in adds], Stamp("us", 2, ""))
    return RandomTable(str(folder), rows)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "features", ["all", *(pytest.param(f, marks=pytest.mark.slow) for f in FEATURES if f != "all")]
)
def test_every_reader_finds_random_rows_by_random_conditions(
    tmp_path: Path, features: str, reader: Reader
) -> None:
    chosen = dict(FEATURES[features])
    if reader is by_polars:  # which refuses mapped columns
        chosen.pop("mapped", None)
    random = Random(len(features))
    table = random_table(tmp_path / "t", random, **chosen)
    conditions = table.conditions(random, 3)
    if reader is by_duckdb and "mapped" in chosen and "parted" in chosen:
        conditions = [one for one in conditions if one.column != "place"]
    assert not wrong(reader, table, SCHEMA, conditions)


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_finds_texts_of_every_plane(tmp_path: Path, reader: Reader) -> None:
    """delta-kernel decodes escaped surrogate pairs of planes 2, 4 ... 16 to smaller characters."""
    names = [f"{chr(plane * 0x10000 + 0xBB7)}{end}" for plane in range(1, 17) for end in ("", "本")]
    table = one_row_files(tmp_path / "t", names, pa.string())
    asked = [Condition("value", comparison, name) for comparison in COMPARISONS for name in names]
    assert not wrong(reader, table, SCHEMA_OF[pa.string()], asked)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_every_reader_finds_zeros_of_both_signs(
    tmp_path: Path, kind: pa.DataType, reader: Reader
) -> None:
    """delta-kernel orders -0.0 before 0.0."""
    zeros = (0.0, -0.0, -1.0, 1.0)
    table = one_row_files(tmp_path / "t", zeros, kind)
    asked = [Condition("value", comparison, zero) for comparison in COMPARISONS for zero in zeros]
    assert not wrong(reader, table, SCHEMA_OF[kind], asked)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_every_reader_finds_moments_of_any_century(
    tmp_path: Path, kind: pa.DataType, reader: Reader
) -> None:
    """Behind 2262 delta-rs looks for no row in the last millisecond of bounds without its
    microseconds."""
    random = Random(1)
    moments = [
        datetime(year, 3, 4, 5, 6, 7, random.randrange(1_000_000))
        for year in (1, 1582, 1677, 1969, 2024, 2261, 2263, *range(2300, 10_000, 400), 9999)
    ]
    table = one_row_files(tmp_path / "t", moments, kind)
    asked = [Condition("value", comparison, one) for one in moments for comparison in COMPARISONS]
    assert not wrong(reader, table, SCHEMA_OF[kind], asked)


def test_duckdb_gives_null_for_mapped_partitions(tmp_path: Path) -> None:
    """What ``config check`` warns of, with the extension of DuckDB 1.5."""
    table = random_table(tmp_path / "t", Random(1), mapped=True, parted=True)
    ((count,),) = by_duckdb_query([(f"SELECT count(place) FROM delta_scan('{table.folder}')", ())])[
        0
    ]
    assert count == 0 < sum(row["place"] is not None for row in table.rows)


FOLDERS: dict[str, tuple[Reader, ...]] = {
    "a'+&[": READERS, "a b": (by_delta_rs, by_duckdb), "a#?": (by_delta_rs, by_duckdb),
    "ä": (by_delta_rs,), "a%": (by_delta_rs,), "a%20b": (),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_that_each_reader_opens(tmp_path: Path, folder: str, reader: Reader) -> None:
    """What ``config check`` warns of: an engine that opens such a folder reads it rightly."""
    table, asked = one_row_files(tmp_path / folder, ["x"], pa.string()), [Condition("id", "=", 0)]
    if reader in FOLDERS[folder]:
        assert not wrong(reader, table, SCHEMA_OF[pa.string()], asked)
    else:
        with pytest.raises(Exception, match=r"(?i)no such file|not found|cannot open|error"):
            reader(table.folder, SCHEMA_OF[pa.string()], asked)

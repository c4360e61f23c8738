"""Keys that two channels have in one Delta table, by the digests of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_repl.delta.log.table_log import TableLog
from spark_repl.rules.metadata_columns import with_extra
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.verify.cut_files import files_of
from spark_repl.verify.shared_keys_check import SharedKeysCheck
from spark_repl.verify.target_files import digest_files


def table(kind: str = "BIGINT", row_filter: str = "id > 0") -> TargetTable:
    create = f"CREATE TABLE orders (v VARCHAR(9), id {kind}, n VARCHAR(9), PRIMARY KEY (n, id))"
    definition = classify(create, "lake").definition
    assert definition is not None
    target = replace(TargetTable.mirror_of(definition), table="orders//eu", row_filter=row_filter)
    return with_extra(target, ["shard"], shard="_channel")


def written(folder: Path, rows: dict[str, list[tuple[int, str]]]) -> str:
    """A Delta table with each channel's rows (id, n)."""
    for channel, keys in rows.items():
        columns = {
            "v": [f"of {channel}"] * len(keys),
            "id": pa.array([key for key, _ in keys], pa.int64()),
            "n": [name for _, name in keys],
            "_channel": [channel] * len(keys),
        }
        write_deltalake(folder, pa.table(columns), mode="append", partition_by=["_channel"])
    return str(folder)


def find(folder: str, work: Path, definition: TargetTable, version: int) -> SharedKeysCheck:
    whole = files_of(TableLog(), folder, version)
    return SharedKeysCheck.find(definition, whole, str(work), digest_files)


@pytest.mark.parametrize("kind", ["BIGINT", "INT"])
def test_keys_that_two_channels_have_are_differences(tmp_path: Path, kind: str) -> None:
    """The column is as wide as the widest channel needs."""
    (work := tmp_path / "work").mkdir()
    rows = {"eu": [(1, "a"), (2, "a"), (3, "a")], "us": [(2, "b"), (3, "a"), (1 << 40, "a")]}
    folder = written(tmp_path / "t", rows | {"cn": [(1, "a"), (9, "a")]})
    definition = table(kind)
    assert len(find(folder, work, definition, 0).keys) == 0
    claimed = find(folder, work, definition, 2)
    assert len(claimed.keys) == 2 and claimed.channels == ("cn", "us")
    described = claimed.differences(str(work), 100)
    assert sorted(one["row"]["id"] for one in described) == [1, 3]
    assert {**described[0], "row": {}} == {
        "table": "lake.orders//eu", "kind": "claimed", "row": {}, "channels": ["cn", "us"],
    }  # fmt: skip
    assert len(claimed.differences(str(work), 1)) == 1
    assert claimed.differences(str(work), 0) == []


def test_filters_of_several_channels_separate_rows() -> None:
    assert table().is_separated_by_filter
    assert not table(row_filter="").is_separated_by_filter

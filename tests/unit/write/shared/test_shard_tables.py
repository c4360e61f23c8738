"""Columns of a Delta table of shards: those of each shard, and the union of all."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.delta.log.log_state import LogState
from spark_repl.delta.log.schema_change import with_column_ids
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from spark_repl.errors import SettingError
from spark_repl.rules.metadata_columns import with_extra
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.shared.shard_tables import (
    check_alike,
    columns_of,
    stays_in_files,
    union_metadata,
)

MAPPED = {"delta.columnMapping.mode": "name"}


def shard(number: int, columns: str) -> TargetTable:
    created = classify(f"CREATE TABLE orders ({columns}, PRIMARY KEY (id))", "lake").definition
    assert created is not None
    created = replace(created, table=f"orders//{number}")
    return with_extra(TargetTable.mirror_of(created), ["shard"], shard="shop")


def of(definition: TargetTable) -> Snapshot:
    new = with_column_ids(NewTable(schema_json(definition.arrow_schema()), MAPPED, ("shop",)))
    return with_metadata(Snapshot("", 0, "", "", {}, LogState(0, {}, {})), new)


def with_metadata(before: Snapshot, new: NewTable | None) -> Snapshot:
    assert new is not None
    return replace(
        before, schema_string=new.schema_string, configuration=new.configuration,
        partition_columns=new.partition_columns,
    )  # fmt: skip


def view(snapshot: Snapshot, definition: TargetTable) -> Columns:
    return columns_of(Columns.of(snapshot.schema_string, snapshot.partition_columns), definition)


def names(snapshot: Snapshot) -> list[str]:
    return [field["name"] for field in json.loads(snapshot.schema_string)["fields"]]


ONE = shard(1, "id INT, v VARCHAR(9)")


def test_a_second_shard_adds_its_missing_columns() -> None:
    snapshot = of(ONE)
    two = shard(2, "w INT, ID INT, v VARCHAR(40)")
    both = with_metadata(snapshot, union_metadata(snapshot, two, (), [ONE]))
    assert names(both) == ["id", "v", "shop", "w"] and both.partition_columns == ("shop",)
    fields = json.loads(both.schema_string)["fields"]
    assert fields[3]["nullable"] and fields[:3] == json.loads(snapshot.schema_string)["fields"]
    assert (
        union_metadata(both, two, (), [ONE]) is None
        and union_metadata(both, ONE, (), [two]) is None
    )
    own, whole = view(both, two), Columns.of(both.schema_string)
    assert own.names == ("w", "ID", "v", "shop") and own.partitions == ("shop",)
    assert own.physical == tuple(whole.physical[number] for number in (3, 0, 1, 2))
    assert own.fits(two.arrow_schema())


def test_a_column_with_two_types_is_refused() -> None:
    snapshot = of(ONE)
    with pytest.raises(
        SettingError, match=r"column v is string in lake.orders, with lake.orders//1"
    ):
        union_metadata(snapshot, shard(2, "id INT, V INT"), (), [ONE])
    with pytest.raises(SettingError, match="with another shard, and would be integer"):
        union_metadata(snapshot, shard(2, "id INT, v INT"), (), [])


def test_a_copy_refuses_shards_with_unlike_columns() -> None:
    check_alike([ONE, shard(2, "id INT, V VARCHAR(40), w INT"), shard(3, "id INT, w INT")])
    other = replace(shard(1, "id INT, v INT"), table="others//1")
    with pytest.raises(SettingError) as caught:
        check_alike([ONE, shard(2, "id DATE, V VARCHAR(40)"), shard(3, "id INT, v INT"), other])
    assert caught.value.message == (
        "column id is integer in lake.orders//1 and date in lake.orders//2; column v is string in"
        " lake.orders//1 and integer in lake.orders//3"
    )
    wide = [shard(number, f"id {kind}") for number, kind in enumerate(("INT", "BIGINT", "DOUBLE"))]
    check_alike(wide[:2])
    with pytest.raises(SettingError, match="id is long in lake"):
        check_alike(wide)


def test_a_column_is_dropped_with_the_last_shard_that_has_it() -> None:
    snapshot, less = of(ONE), shard(1, "id INT")
    two = shard(2, "id INT, v VARCHAR(9)")
    assert union_metadata(snapshot, less, ["id", "v", "shop"], [two]) is None
    before, after = view(snapshot, ONE), view(snapshot, less)
    assert not stays_in_files(before, after, [0, 2], Columns.of(snapshot.schema_string))
    gone = with_metadata(snapshot, union_metadata(snapshot, less, ["id", "v", "shop"], [less]))
    assert names(gone) == ["id", "shop"]
    assert stays_in_files(before, view(gone, less), [0, 2], Columns.of(gone.schema_string))
    again = with_metadata(gone, union_metadata(gone, ONE, ["id", "shop"], []))
    assert names(again) == ["id", "shop", "v"]
    assert view(again, ONE).physical[1] != before.physical[1]


def test_a_column_of_one_shard_may_get_another_type() -> None:
    snapshot, other = of(ONE), shard(1, "id INT, v INT")
    new = with_metadata(
        snapshot, union_metadata(snapshot, other, ["id", "v", "shop"], [shard(2, "id INT")])
    )
    before, after = view(snapshot, ONE), view(new, other)
    assert names(new) == ["id", "v", "shop"] and before.physical[1] != after.physical[1]
    assert not stays_in_files(before, after, [0, 1, 2], Columns.of(new.schema_string))


def test_a_wider_type_makes_another_column() -> None:
    snapshot, wide = of(ONE), shard(1, "id BIGINT, v VARCHAR(9)")
    two = shard(2, "ID INT, v VARCHAR(9)")
    had = ["id", "v", "shop"]
    with pytest.raises(SettingError, match="id is integer in lake"):
        union_metadata(snapshot, wide, had, [two])
    new = with_metadata(snapshot, union_metadata(snapshot, wide, had, [two], widens=True))
    assert names(new) == ["id", "v", "shop"]
    assert json.loads(new.schema_string)["fields"][0]["type"] == "long"
    own, other, before = view(new, wide), view(new, two), view(snapshot, two)
    assert own.wider == () and other.wider == ((0, "long"),)
    assert own.physical == other.physical and own.physical[0] != before.physical[0]
    assert own.fits(wide.arrow_schema()) and other.fits(two.arrow_schema())
    assert (
        union_metadata(new, two, had, [wide]) is None
        and union_metadata(new, ONE, had, [two]) is None
    )
    rows = pa.table([[1], ["a"], ["2"]], schema=two.arrow_schema())
    assert other.rename(rows).schema.types == [pa.int64(), pa.string(), pa.string()]
    assert other.first(2).wider == other.wider and other.first(0).wider == ()


def test_a_column_gets_a_type_that_holds_both() -> None:
    snapshot, two = of(shard(1, "id INT, v DECIMAL(6,2)")), shard(2, "id INT, v DECIMAL(9,4)")
    both = with_metadata(snapshot, union_metadata(snapshot, two, (), [ONE], widens=True))
    assert json.loads(both.schema_string)["fields"][1]["type"] == "decimal(9,4)"
    three = shard(3, "id INT, v BIGINT")
    all_three = with_metadata(both, union_metadata(both, three, (), [two], widens=True))
    assert json.loads(all_three.schema_string)["fields"][1]["type"] == "decimal(23,4)"
    assert view(all_three, three).wider == ((1, "decimal(23,4)"),)


def test_a_rename_in_one_shard_adds_a_column() -> None:
    snapshot, other = of(ONE), shard(1, "id INT, u VARCHAR(9)")
    two, had = shard(2, "id INT, v VARCHAR(9)"), ["id", "v", "shop"]
    new = with_metadata(snapshot, union_metadata(snapshot, other, had, [two]))
    assert names(new) == ["id", "v", "shop", "u"]
    before, after = view(snapshot, ONE), view(new, other)
    assert not stays_in_files(before, after, [0, 1, 2], Columns.of(new.schema_string))
    last = with_metadata(new, union_metadata(new, replace(other, table="orders//2"), had, [other]))
    assert names(last) == ["id", "shop", "u"]


def test_columns_that_swap_names_need_new_files() -> None:
    one = shard(1, "id INT, v INT, u INT")
    snapshot, had = of(one), ["id", "v", "u", "shop"]
    other = shard(1, "id INT, u INT, v INT")
    assert union_metadata(snapshot, other, had, [one]) is None
    before, after, whole = (
        view(snapshot, one),
        view(snapshot, other),
        Columns.of(snapshot.schema_string),
    )
    assert not stays_in_files(before, after, [0, 1, 2, 3], whole)
    assert stays_in_files(before, after, [0, 2, 1, 3], whole)

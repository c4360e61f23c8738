"""The columns of one Delta table that many tables are in: each shard's, and the union of all."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_repl.delta.columns import Columns, schema_json
from spark_repl.delta.log_state import LogState
from spark_repl.delta.schema_change import with_column_ids
from spark_repl.delta.snapshot import NewTable, Snapshot
from spark_repl.errors import SettingError
from spark_repl.rules.metadata_columns import with_extra
from spark_repl.sql.classify import classify
from spark_repl.tables.table_definition import TableDefinition
from spark_repl.write.shared.shard_tables import check_alike, columns_of, stays_in_files, union

MAPPED = {"delta.columnMapping.mode": "name"}


def shard(number: int, columns: str) -> TableDefinition:
    made = classify(f"CREATE TABLE orders ({columns}, PRIMARY KEY (id))", "lake").definition
    assert made is not None
    return with_extra(replace(made, table=f"orders//{number}"), ["shard"], shard="shop")


def of(definition: TableDefinition) -> Snapshot:
    new = with_column_ids(NewTable(schema_json(definition.arrow_schema()), MAPPED, ("shop",)))
    return behind(Snapshot("", 0, "", "", {}, LogState(0, {}, {})), new)


def behind(before: Snapshot, new: NewTable | None) -> Snapshot:
    assert new is not None
    return replace(
        before, schema_string=new.schema_string, configuration=new.configuration,
        partition_columns=new.partition_columns,
    )  # fmt: skip


def view(there: Snapshot, definition: TableDefinition) -> Columns:
    return columns_of(Columns.of(there.schema_string, there.partition_columns), definition)


def names(snapshot: Snapshot) -> list[str]:
    return [field["name"] for field in json.loads(snapshot.schema_string)["fields"]]


ONE = shard(1, "id INT, v VARCHAR(9)")


def test_a_second_shard_brings_what_is_not_there() -> None:
    there = of(ONE)
    two = shard(2, "w INT, ID INT, v VARCHAR(40)")
    both = behind(there, union(there, two, (), [ONE]))
    assert names(both) == ["id", "v", "shop", "w"] and both.partition_columns == ("shop",)
    fields = json.loads(both.schema_string)["fields"]
    assert fields[3]["nullable"] and fields[:3] == json.loads(there.schema_string)["fields"]
    assert union(both, two, (), [ONE]) is None and union(both, ONE, (), [two]) is None
    mine, whole = view(both, two), Columns.of(both.schema_string)
    assert mine.names == ("w", "ID", "v", "shop") and mine.partitions == ("shop",)
    assert mine.physical == tuple(whole.physical[number] for number in (3, 0, 1, 2))
    assert mine.fits(two.arrow_schema())


def test_one_name_of_two_types() -> None:
    there = of(ONE)
    with pytest.raises(
        SettingError, match=r"column v is string in lake.orders, with lake.orders//1"
    ):
        union(there, shard(2, "id INT, V INT"), (), [ONE])
    with pytest.raises(SettingError, match="with another shard, and would be integer"):
        union(there, shard(2, "id INT, v INT"), (), [])


def test_shards_that_are_to_be_copied() -> None:
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


def test_a_column_goes_with_the_last_shard_that_has_it() -> None:
    there, less = of(ONE), shard(1, "id INT")
    two = shard(2, "id INT, v VARCHAR(9)")
    assert union(there, less, ["id", "v", "shop"], [two]) is None
    before, after = view(there, ONE), view(there, less)
    assert not stays_in_files(before, after, [0, 2], Columns.of(there.schema_string))
    gone = behind(there, union(there, less, ["id", "v", "shop"], [less]))
    assert names(gone) == ["id", "shop"]
    assert stays_in_files(before, view(gone, less), [0, 2], Columns.of(gone.schema_string))
    again = behind(gone, union(gone, ONE, ["id", "shop"], []))
    assert names(again) == ["id", "shop", "v"]
    assert view(again, ONE).physical[1] != before.physical[1]


def test_another_type_of_what_one_shard_has_alone() -> None:
    there, other = of(ONE), shard(1, "id INT, v INT")
    new = behind(there, union(there, other, ["id", "v", "shop"], [shard(2, "id INT")]))
    before, after = view(there, ONE), view(new, other)
    assert names(new) == ["id", "v", "shop"] and before.physical[1] != after.physical[1]
    assert not stays_in_files(before, after, [0, 1, 2], Columns.of(new.schema_string))


def test_a_wider_type_is_another_column() -> None:
    there, wide = of(ONE), shard(1, "id BIGINT, v VARCHAR(9)")
    two = shard(2, "ID INT, v VARCHAR(9)")
    had = ["id", "v", "shop"]
    with pytest.raises(SettingError, match="id is integer in lake"):
        union(there, wide, had, [two])
    new = behind(there, union(there, wide, had, [two], widens=True))
    assert names(new) == ["id", "v", "shop"]
    assert json.loads(new.schema_string)["fields"][0]["type"] == "long"
    mine, other, before = view(new, wide), view(new, two), view(there, two)
    assert mine.wider == () and other.wider == ((0, "long"),)
    assert mine.physical == other.physical and mine.physical[0] != before.physical[0]
    assert mine.fits(wide.arrow_schema()) and other.fits(two.arrow_schema())
    assert union(new, two, had, [wide]) is None and union(new, ONE, had, [two]) is None
    rows = pa.table([[1], ["a"], ["2"]], schema=two.arrow_schema())
    assert other.rename(rows).schema.types == [pa.int64(), pa.string(), pa.string()]
    assert other.first(2).wider == other.wider and other.first(0).wider == ()


def test_a_type_that_holds_both() -> None:
    there, two = of(shard(1, "id INT, v DECIMAL(6,2)")), shard(2, "id INT, v DECIMAL(9,4)")
    both = behind(there, union(there, two, (), [ONE], widens=True))
    assert json.loads(both.schema_string)["fields"][1]["type"] == "decimal(9,4)"
    three = shard(3, "id INT, v BIGINT")
    all_three = behind(both, union(both, three, (), [two], widens=True))
    assert json.loads(all_three.schema_string)["fields"][1]["type"] == "decimal(23,4)"
    assert view(all_three, three).wider == ((1, "decimal(23,4)"),)


def test_another_name_in_one_shard() -> None:
    there, other = of(ONE), shard(1, "id INT, u VARCHAR(9)")
    two, had = shard(2, "id INT, v VARCHAR(9)"), ["id", "v", "shop"]
    new = behind(there, union(there, other, had, [two]))
    assert names(new) == ["id", "v", "shop", "u"]
    before, after = view(there, ONE), view(new, other)
    assert not stays_in_files(before, after, [0, 1, 2], Columns.of(new.schema_string))
    last = behind(new, union(new, replace(other, table="orders//2"), had, [other]))
    assert names(last) == ["id", "shop", "u"]


def test_names_that_swap() -> None:
    one = shard(1, "id INT, v INT, u INT")
    there, had = of(one), ["id", "v", "u", "shop"]
    other = shard(1, "id INT, u INT, v INT")
    assert union(there, other, had, [one]) is None
    before, after, whole = view(there, one), view(there, other), Columns.of(there.schema_string)
    assert not stays_in_files(before, after, [0, 1, 2, 3], whole)
    assert stays_in_files(before, after, [0, 2, 1, 3], whole)

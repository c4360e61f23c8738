"""ChannelRows: what channels of one table record of their rows, and which pairs are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.errors import SettingError
from spark_repl.rules.channel_rows import ChannelRows, check_key_stays
from spark_repl.rules.metadata_columns import with_extra
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable


def table(key: str, text: str = "id = 1") -> TargetTable:
    create = f"CREATE TABLE t.a (region VARCHAR(9), B VARCHAR(9), id INT, PRIMARY KEY ({key}))"
    definition = classify(create, "t").definition
    assert definition is not None
    return replace(
        with_extra(TargetTable.mirror_of(definition), ["shard"], shard="_channel"), row_filter=text
    )


def rows(text: str, key: str = "id") -> ChannelRows:
    return ChannelRows.of(table(key, text))


def test_a_table_has_the_key_in_lower_case_and_sorted() -> None:
    assert rows("id = 1", "id, B") == ChannelRows("id = 1", (("b", ""), ("id", "")))


def test_filters_are_not_compared_but_for_equal_ones() -> None:
    assert rows("id = 1").overlap(rows("id < 5")) == ""
    assert rows("id = 1").overlap(rows("id = 1")) == "the two channels have the same filter"


def test_channels_of_one_table_need_one_key() -> None:
    assert rows("id < 3", "id, b").overlap(rows("id > 3", "b, id")) == ""
    fault = rows("id < 3", "id, b").overlap(rows("id > 3", "id, region"))
    assert fault == "the key is b, id, and id, region"
    assert ChannelRows("id < 3").overlap(rows("id > 3")) == ""


def test_rows_recorded_with_a_proof_are_those_of_today() -> None:
    recorded = ChannelRows.from_json({"row_filter": "id = 1", "key": [["id", "whole number"]]})
    assert recorded.key == (("id", "whole number"),)
    rows("id = 1").check(recorded, "lake.a")
    ChannelRows("id = 1").check(recorded, "lake.a")
    for other, what in (
        (rows("id = 2"), "row_filter is id = 2, and this channel has id = 1 on record"),
        (rows("id = 1", "id, b"), "the key is b, id, and this channel has id on record"),
    ):
        with pytest.raises(SettingError, match=what):
            other.check(recorded, "lake.a")


def test_columns_of_the_key_may_not_change_by_a_rule() -> None:
    check_key_stays(table("id, b"), table("b, id"))
    with pytest.raises(SettingError, match=r"the key \(b, id\) would be \(id\)"):
        check_key_stays(table("id, b"), table("id"))
    check_key_stays(table("id, b", ""), table("id", ""))

"""Channels of one table are told apart by what their row filters say of a column of the key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.errors import SettingError
from spark_repl.rules.disjoint_filters import (
    ChannelRows,
    check_as_told,
    check_key_stays,
    check_told_apart,
)
from spark_repl.rules.metadata_columns import with_extra
from spark_repl.sql.classify import classify
from spark_repl.tables.table_definition import TableDefinition

COLUMNS = "region VARCHAR(9), b VARCHAR(9) COLLATE utf8mb4_bin, id BIGINT UNSIGNED, n INT"


def table(key: str = "region, b, id", columns: str = COLUMNS) -> TableDefinition:
    create = f"CREATE TABLE t.a ({columns}, PRIMARY KEY ({key}))"
    found = classify(f"{create} DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci", "t").definition
    assert found is not None
    return with_extra(found, ["shard"], shard="_channel")


def rows(text: str, key: str = "region, b, id") -> ChannelRows:
    return ChannelRows.of(ruled(table(key), text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("region = 'eu'", "region = 'us'"),
        ("region = 'eu'", "'us' = region"),
        ("REGION IN ('de', 'fr')", "region IN ('us', NULL)"),
        ("region IN ('de', 'fr') AND n > 3", "n < 9 AND (region = 'ny' OR region = 'ca')"),
        ("region = 'eu'", "region <> 'EU'"),
        ("region IN ('a', 'b')", "region NOT IN ('b', 'A', 'c')"),
        ("b = 'eu'", "b = 'EU'"),
        ("id < 1000", "id >= 1000"),
        ("id BETWEEN 1 AND 9", "NOT id BETWEEN 0 AND 10"),
        ("id >= 1000 AND id < 2000", "id >= 2000 OR id < 1000"),
        ("id % 2 = 0", "MOD(id, 2) = 1"),
        ("id % 2 = 0", "id MOD 2 <> 0"),
        ("id % 4 = 0", "id % 6 = 3"),
        ("id % 3 IN (0, 1)", "id % 3 = 2"),
        ("id % 10 = 3 AND id < 100", "id % 7 = 5 AND id < 30"),
        ("id > -5 AND NOT (id > 7 OR id = 3)", "id = 3"),
        ("region = 'eu' AND id < 5", "region = 'eu' AND id > 5"),
    ],
)  # fmt: skip
def test_what_is_apart(one: str, other: str) -> None:
    assert rows(one).overlap(rows(other)) == rows(other).overlap(rows(one)) == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("region = 'eu'", "region = 'EU'"),
        ("b = 'eu'", "b = 'eu '"),
        ("region = 'ue'", "region = 'ü'"),
        ("region <> 'eu'", "region <> 'us'"),
        ("region IN ('a', 'b')", "region <> 'a'"),
        ("n = 1", "n = 2"),
        ("region = 'eu' OR id = 3", "region = 'us'"),
        ("region = 'eu' OR n = 3", "region = 'us'"),
        ("region LIKE 'a%'", "region LIKE 'b%'"),
        ("CAST(region AS BINARY) = 'eu'", "CAST(region AS BINARY) = 'us'"),
        ("id <= 1000", "id >= 1000"),
        ("id < 10.5", "id > 10.5"),
        ("id BETWEEN 1e0 AND 9007199254740992", "id > 9007199254740992"),
        ("id BETWEEN 9007199254740993 AND n", "id < 9007199254740993"),
        ("id % 4 = 0", "id % 6 = 2"),
        ("id % 2 = 0", "id < 0"),
        ("id % 0 = 0", "id % 2 = 1"),
        ("id = 1", "region = 'eu'"),
        ("region = 1", "region = 2"),
        ("id = '1'", "id = '2'"),
        ("id % 1000 <> 1", "id % 1000 = 1"),
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_apart(one: str, other: str) -> None:
    assert rows(one).overlap(rows(other)) and rows(other).overlap(rows(one))


def test_before_the_columns_are_known() -> None:
    """What may be apart by some collation is not refused yet."""
    for one, other, apart in (
        ("region = 'eu'", "region = 'EU'", True),
        ("region = 'eu'", "region = 'eu'", False),
        ("region = 'eu'", "region <> 'us'", True),
        ("region <> 'eu'", "region <> 'us'", False),
        ("id < 3", "id > 2", True),
        ("id < 3", "id > 1", False),
        ("n > 1", "id > 1", False),
    ):
        assert (ChannelRows(one).overlap(ChannelRows(other)) == "") == apart, (one, other)
    assert ChannelRows("region = 'eu'").overlap(rows("region = 'EU'"))
    assert ChannelRows("region = 'eu'").overlap(rows("region = 'us'")) == ""
    assert ChannelRows("n = 1").overlap(rows("n = 2"))


def test_both_need_one_key_and_one_collation() -> None:
    assert "the key is b, id, and id, region" in rows("id < 3", "id, b").overlap(
        rows("id > 3", "id, region")
    )
    assert rows("id < 3", "id, b").overlap(rows("id > 3", "b, id")) == ""
    other = ChannelRows("region = 'us'", (("b", "utf8mb4_bin"), ("id", "whole number"),
                                          ("region", "latin1_swedish_ci")))  # fmt: skip
    assert rows("region = 'eu'").overlap(other)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("n = 1", "id"), ("region = 'eu'", "id"), ("id + 1 = 3", "id"), ("region = 1", "region"),
        ("id = 'a'", "id"), ("region LIKE 'eu'", "region"),
    ],
)  # fmt: skip
def test_a_filter_that_says_nothing_of_the_key(text: str, key: str) -> None:
    shaped = ruled(table(key), text)
    with pytest.raises(SettingError, match="says of no column of the key"):
        check_told_apart(shaped)


@pytest.mark.parametrize(
    "kind", ["ENUM('eu', 'us')", "YEAR", "DATE", "VARCHAR(9) COLLATE latin2_bin"]
)
def test_columns_of_whose_values_it_is_not_known(kind: str) -> None:
    shaped = ruled(table("c", f"c {kind}"), "c = 'eu'")
    with pytest.raises(SettingError, match=r"\(c: other\)"):
        check_told_apart(shaped)


def test_bytes() -> None:
    shaped = ruled(table("c", "c VARBINARY(9)"), "c = 'eu'")
    check_told_apart(shaped)
    assert ChannelRows.of(shaped).overlap(ChannelRows("c = 'EU'", (("c", "binary"),))) == ""


def test_what_was_not_known_may_be_told() -> None:
    """And what no filter asks may change; all else stops."""
    text = "b = 'eu' AND id = 3"

    def of(b: str, region: str = "") -> TableDefinition:
        return ruled(table("b, id, region", f"b {b}, id INT, region VARCHAR(9){region}"), text)

    known, other = of("VARCHAR(9)"), of("VARCHAR(9) COLLATE latin2_bin")
    check_as_told(other, known)
    check_as_told(known, of("VARCHAR(9)", " COLLATE utf8mb4_bin"))
    for told in (other, of("VARCHAR(9) COLLATE utf8mb4_bin"), of("INT")):
        with pytest.raises(SettingError, match=r"the key is b: .* has b: utf8mb4_0900_ai_ci, id"):
            check_as_told(known, told)


def test_the_key_stays() -> None:
    check_key_stays(ruled(table("id, b"), "id = 1"), ruled(table("b, id"), "id = 1"))
    with pytest.raises(SettingError, match=r"the key \(b, id\) would be \(id\)"):
        check_key_stays(ruled(table("id, b"), "id = 1"), ruled(table("id"), "id = 1"))
    check_key_stays(table("id, b"), table("id"))


def ruled(shaped: TableDefinition, text: str) -> TableDefinition:
    return replace(shaped, row_filter=text)

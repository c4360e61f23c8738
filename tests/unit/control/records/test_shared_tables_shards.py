"""Which tables a pattern has read as one, and with what columns."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl.control.cuts.cut_reader import CutReader
from spark_repl.control.records.shared_tables import Shards
from spark_repl.control.table.cut import Cut, InQuarantine, TableVersion, Waiting
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConfigError

NAMES = ["all.orders_2", "all.orders_10", "all.order", "all_.orders_1", "shop_1.orders"]
TWO = Shards.of("all.orders_%", ["all.orders_1", "all.orders_2"])


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("all.orders_%", {"all.orders_10": "10", "all.orders_2": "2"}),
        ("shop_%.orders", {"shop_1.orders": "1"}),
        (r"all\_.orders%", {"all_.orders_1": "_1"}),
        ("all.order%", {"all.order": "", "all.orders_10": "s_10", "all.orders_2": "s_2"}),
    ],
)
def test_the_wildcard_matches_names_of_shards(pattern: str, parts: dict[str, str]) -> None:
    assert Shards.of(pattern, NAMES).parts == parts


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("all.orders", "apart by one %"), ("%.orders_%", "apart by one %"), ("%", "apart by one %"),
        ("all.ord_rs_%", "no table like all.ord_rs_%"),
    ],
)  # fmt: skip
def test_patterns_without_one_wildcard_or_a_match_are_refused(pattern: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Shards.of(pattern, NAMES)


def test_the_union_has_the_columns_of_all_shards() -> None:
    """While ALTERs arrive one by one, in any order and case."""
    first, other = {"id": "int", "v": "string"}, {"w": "date", "Id": "int", "V": "string"}
    made = TWO.union({"all.orders_1": first, "all.orders_2": other}, "_shard")
    assert list(made.items()) == [("id", "int"), ("v", "string"), ("w", "date")]


def test_columns_of_different_types_are_refused() -> None:
    columns = {"all.orders_1": {"id": "int"}, "all.orders_2": {"ID": "bigint"}}
    with pytest.raises(ConfigError, match=r"id is int in all.orders_1 and bigint in all.orders_2"):
        TWO.union(columns, "_shard")
    with pytest.raises(ConfigError, match=r"all.orders_1 has a column ID itself"):
        TWO.union({name: {"id": "int"} for name in columns}, "ID")


@pytest.mark.parametrize(
    ("shown", "more", "says"),
    [
        (1, {"waiting": {"all.orders_2": Waiting("ALTER TABLE", "bin.1:4")}}, "waits for a copy"),
        (
            2,
            {"quarantined": {"all.orders_2": InQuarantine("no row", "x:1", 1, 1)}},
            "in quarantine",
        ),
    ],
)
def test_a_shard_that_the_cut_does_not_show_is_no_hole(
    shown: int, more: dict[str, Any], says: str
) -> None:
    tables = {f"all.orders_{n}": TableVersion("a", 1, "m", 1) for n in range(1, shown + 1)}
    cut = Cut(3, "", "log", {}, tables, **more)
    with pytest.raises(ConfigError, match=says):
        CutReader(MagicMock(), Layout("/lake"), cut).union("all.orders_%")

"""``channels`` of ``[[tables]]`` beside ``row_filter``: what it needs, what it does not go together
with, and what the configurations of two channels have against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.config.renaming import whole_of
from spark_repl.config.side_by_side import side_by_side
from spark_repl.errors import ConfigError
from spark_repl.rules.row_filters import check_row_filters
from spark_repl.rules.table_rules import TableRules

RULE: dict[str, Any] = {
    "match": r"shop.all\_orders", "to": "lake.orders", "row_filter": "region = 'eu'",
    "channels": ["eu", "us"], "extra_columns": ["gtid", "channel"],
}  # fmt: skip


def config(rule: dict[str, Any], **more: Any) -> Config:
    return Config.from_mapping({"channel": "eu", "tables": [rule], **more})


def faults(rule: dict[str, Any], **more: Any) -> list[str]:
    try:
        config(rule, **more)
    except ConfigError as error:
        return list(error.faults)
    return []


def test_each_channel_has_its_own_part_of_the_table() -> None:
    made = config(RULE)
    (rule,) = made.tables
    assert (rule.named, rule.shards_by) == ("lake.orders//eu", "_channel")
    assert rule.added_columns == ("shard", "gtid")
    assert whole_of(rule.named) == rule.to
    assert TableRules(made.tables).of_table("lake.orders//eu") is rule
    assert made.override({"apply.workers": 3}).tables == made.tables
    assert config({**RULE, "to": "shop.all_orders"}).tables[0].named == "shop.all_orders//eu"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"to": ""}, "needs to: the name of the table"),
        ({"to": "lake.%"}, "it is one name, without %"),
        ({"to": "Lake.orders"}, "it is in lower case"),
        ({"to": r"lake.all\_orders"}, r"to lake.all\_orders: beside channels it is a plain name"),
        ({"match": "shop.%"}, 'with extra_columns = ["channel"] it is one table\'s name'),
        ({"match": "shop.all_orders"}, "the wildcard _ has no place"),
        ({"row_filter": ""}, "needs row_filter, which tells the channels' rows apart"),
        ({"channels": []}, "needs channels: those that feed the table"),
        ({"channels": ["us", "cn"]}, "channels has no eu, which is this channel"),
        ({"channels": ["eu", "US"]}, "channels has US: beside row_filter they are in lower case"),
        ({"extra_columns": ["gtid"]}, 'or row_filter and extra_columns = ["channel"]'),
        ({"extra_columns": ["channel", "deleted"]}, 'together with extra_columns = ["deleted"]'),
        ({"key_prefix": "shop"}, 'key_prefix does not go together with extra_columns = ["ch'),
        ({"mode": "append"}, 'does not go together with mode = "append"'),
        ({"mask": {"v": "null"}}, "does not go together with mask"),
        ({"on_ddl": "ignore_drop"}, "does not go together with policy ignore_drop"),
        ({"on_error": "quarantine"}, 'on_error = "quarantine"'),
    ],
)  # fmt: skip
def test_conflicting_keys_of_a_rule_are_named(more: dict[str, Any], says: str) -> None:
    assert any(says in fault for fault in faults({**RULE, **more})), faults({**RULE, **more})


def test_all_missing_other_keys_are_named_together() -> None:
    given = {"apply": {"preserve_commit_order": False}, "target": {"column_mapping": False}}
    said = [one.partition(" needs ")[2][:12] for one in faults(RULE, **given)]
    assert said == ["apply.preser", "target.colum"]
    assert faults(RULE) == []


def test_disjoint_is_for_channels_that_have_row_filters() -> None:
    assert config({**RULE, "disjoint": True}).tables[0].disjoint
    for rule in (
        {"match": "a.b", "disjoint": True},
        {"match": "a.b", "row_filter": "id > 3", "disjoint": True},
    ):
        assert "tables[1].disjoint is never asked where channels or row_filter is not given" in (
            faults(rule)
        )


def test_a_filter_that_is_too_deep() -> None:
    text = " OR ".join(f"id = {number}" for number in range(5000))
    with pytest.raises(ConfigError, match="it is too deep"):
        check_row_filters(config({**RULE, "row_filter": text}).tables)


def test_two_channels_with_one_filter_are_a_fault(tmp_path: Path) -> None:
    def us(text: str, **more: Any) -> dict[str, Config]:
        given = {"channel": "us", "tables": [{**RULE, "row_filter": text}], **more}
        target = {"target": {"path": str(tmp_path)}}
        one = config(RULE, **target)
        return {"eu.toml": one, "us.toml": Config.from_mapping({**target, **given})}

    same = "eu.toml and us.toml: a table that both channels feed has the same row_filter in both"
    own = RULE["row_filter"]
    assert same not in side_by_side(us("region = 'us'"))
    assert same in side_by_side(us(own))
    assert same not in side_by_side(us(own, target={"path": "/a"}))

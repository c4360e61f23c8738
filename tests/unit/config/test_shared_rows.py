"""``channels`` of ``[[tables]]`` beside ``row_filter``: what it needs, what it does not go together
with, and what the configurations of two channels have against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.config.renaming import whole_of
from spark_repl.errors import ConfigError
from spark_repl.rules.overlapping import overlapping
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


def test_its_table_is_the_channels_own() -> None:
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
def test_what_a_rule_does_not_go_together_with(more: dict[str, Any], says: str) -> None:
    assert any(says in fault for fault in faults({**RULE, **more})), faults({**RULE, **more})


def test_what_other_keys_it_needs_all_at_once() -> None:
    given = {"apply": {"preserve_commit_order": False}, "target": {"column_mapping": False}}
    said = [one.partition(" needs ")[2][:12] for one in faults(RULE, **given)]
    assert said == ["apply.preser", "target.colum"]
    assert faults(RULE) == []


@pytest.mark.parametrize("text", ["total + 1 > 3", "region LIKE 'eu'", "region = name"])
def test_a_filter_that_tells_no_rows_apart(text: str) -> None:
    with pytest.raises(ConfigError, match="it says of no column which values this channel has"):
        check_row_filters(config({**RULE, "row_filter": text}).tables)
    alone = {"match": "a.b", "row_filter": text}
    check_row_filters(config(alone).tables)


@pytest.mark.parametrize("count", [900, 5000])
def test_a_filter_that_is_too_deep(count: int) -> None:
    text = " OR ".join(f"id = {number}" for number in range(count))
    with pytest.raises(ConfigError, match="it is too deep"):
        check_row_filters(config({**RULE, "row_filter": text}).tables)


def test_configurations_whose_rows_overlap(tmp_path: Path) -> None:
    def us(text: str, **more: Any) -> dict[str, Config]:
        given = {"channel": "us", "tables": [{**RULE, "row_filter": text}], **more}
        target = {"target": {"path": str(tmp_path)}}
        one = config(RULE, **target)
        return {"eu.toml": one, "us.toml": Config.from_mapping({**target, **given})}

    assert overlapping(us("region = 'us'")) == overlapping(us("region >")) == []
    (fault,) = overlapping(us("region IN ('us', 'eu')"))
    assert fault.startswith(
        "eu.toml and us.toml: row_filter region = 'eu' and region IN ('us', 'eu'), of lake.orders:"
    )
    assert overlapping(us("id > 3")) and overlapping(us("id > 3", target={"path": "/a"})) == []

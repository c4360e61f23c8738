"""``key_prefix`` of ``[[tables]]``: what it needs, and what it does not go together with."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.errors import ConfigError

RULE = {"match": r"shop\_%.orders", "to": "lake.orders", "key_prefix": "shop"}


def faults(*rules: dict[str, Any], **more: Any) -> list[str]:
    try:
        Config.from_mapping({"tables": list(rules), **more}).check_supported()
    except ConfigError as error:
        return list(error.faults)
    return []


@pytest.mark.parametrize("match", [r"shop\_%.orders", "%.orders", r"shop.orders\_%"])
def test_patterns_with_one_wildcard_are_accepted(match: str) -> None:
    assert faults({**RULE, "match": match, "extra_columns": ["gtid"], "on_ddl": "stop"}) == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"key_prefix": "a b"}, "must be the name of a column"),
        ({"key_prefix": "_GTID"}, "is the name of an extra column"),
        ({"to": ""}, "needs to"),
        ({"to": "lake.%"}, "it is one name, without %, // and / at its end"),
        ({"to": "lake.orders/"}, "to lake.orders/: with key_prefix it is one name"),
        ({"match": "shop.orders"}, "it has one %, which tells the shards apart"),
        ({"match": "%.%"}, "it has one %, which tells the shards apart"),
        ({"mode": "history"}, 'does not go together with mode = "history"'),
        ({"mode": "changelog"}, 'does not go together with mode = "changelog"'),
        ({"mode": "append"}, 'does not go together with mode = "append"'),
        ({"include": ["id"]}, "does not go together with include"),
        ({"exclude": ["v"]}, "does not go together with exclude"),
        ({"mask": {"v": "null"}}, "does not go together with mask"),
        ({"row_filter": "id > 1"}, "does not go together with row_filter"),
        ({"extra_columns": ["deleted"]}, 'does not go together with extra_columns = ["deleted"]'),
        ({"on_ddl": "ignore_drop"}, "does not go together with policy ignore_drop"),
        ({"on_ddl": "additive_only"}, "does not go together with policy additive_only"),
        ({"on_error": "quarantine"}, 'on_error = "quarantine"'),
    ],
)
def test_conflicting_keys_of_a_rule_are_named(more: dict[str, Any], says: str) -> None:
    assert any(says in fault for fault in faults({**RULE, **more}))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"apply": {"preserve_commit_order": False}}, "needs apply.preserve_commit_order = true"),
        ({"apply": {"on_error": "quarantine"}}, "tables[1].key_prefix: apply.on_error"),
        ({"target": {"column_mapping": False}}, "needs target.column_mapping = true"),
        ({"target": {"on_foreign_change": "accept"}}, 'needs target.on_foreign_change = "stop"'),
        ({"target": {"partition_by": ["lake.orders(v)"]}}, "target.partition_by can't name it"),
        ({"ddl": {"policy": "ignore_drop"}}, "does not go together with policy ignore_drop"),
    ],
)
def test_missing_other_keys_are_named(more: dict[str, Any], says: str) -> None:
    (fault,) = faults(RULE, **more)
    assert says in fault and fault.startswith("tables[1].")


def test_all_faults_of_shards_are_reported_together() -> None:
    given = {"apply": {"preserve_commit_order": False}, "target": {"column_mapping": False}}
    assert len(faults({**RULE, "mode": "append", "row_filter": "id > 1"}, **given)) == 4


def test_two_rules_of_one_table_are_a_fault() -> None:
    (fault,) = faults(RULE, {**RULE, "match": r"eu\_%.orders"})
    assert fault.startswith("tables[2].to lake.orders would give names that tables[1].to")
    (fault,) = faults(RULE, {"match": "crm.orders", "to": "lake.orders"})
    assert fault == "tables[2].to lake.orders is the table that the shards of tables[1] share"
    (fault,) = faults({"match": "crm.orders", "to": "lake.orders//1"})
    assert "// is what tells shards apart" in fault

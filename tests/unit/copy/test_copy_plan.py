"""What the rules have no meaning for is said of all tables at once."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.copy.copy_plan import target_shapes
from spark_repl.errors import ConfigError, SettingError
from spark_repl.rules.table_rules import TableRules
from spark_repl.sql.classify import classify
from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable

TABLES = (
    "CREATE TABLE t.a (id INT PRIMARY KEY, s VARCHAR(9))",
    "CREATE TABLE t.b (s VARCHAR(9) PRIMARY KEY, n INT)",
    "CREATE TABLE t.c (id INT PRIMARY KEY, s VARCHAR(9))",
)


def definition(statement: str) -> SourceTable:
    made = classify(statement, "t").definition
    assert made is not None
    return made


def shapes(*rules: dict[str, Any]) -> list[TargetTable]:
    config = Config.from_mapping({"tables": list(rules)})
    return target_shapes(config, map(definition, TABLES), TableRules(config.tables))


def test_faults_of_all_tables_are_reported_together() -> None:
    masked = {"match": "t.b", "mask": {"s": "null"}}
    misspelt = {"match": "t.c", "row_filter": "nn > 1"}
    with pytest.raises(ConfigError) as caught:
        shapes(masked, misspelt)
    assert [fault.partition(":")[0] for fault in caught.value.faults] == ["t.b", "t.c"]
    assert "column s is of the key" in caught.value.faults[0]
    assert "nn" in caught.value.faults[1]
    with pytest.raises(SettingError, match="column s is of the key") as alone:
        shapes(masked)
    assert alone.value.table == "t.b"


def test_a_plan_has_the_targets_columns() -> None:
    a, b, c = shapes({"match": "t.c", "exclude": ["s"]}, {"match": "t.%", "exclude": ["n"]})
    assert [[column.name for column in one.columns] for one in (a, b, c)] == [
        ["id", "s"], ["s"], ["id"],
    ]  # fmt: skip


BAG = "CREATE TABLE t.bag (id INT)"


def test_a_mirror_without_a_key_does_not_begin_empty() -> None:
    """Nothing tells a change of a row from before from one of a row that came since."""

    def made(**rule: str) -> list[TargetTable]:
        config = Config.from_mapping({"tables": [{"match": "t.%", **rule}]})
        return target_shapes(config, [definition(BAG)], TableRules(config.tables))

    with pytest.raises(SettingError, match="the table has no key") as caught:
        made(copy="none")
    assert caught.value.table == "t.bag"
    assert made(copy="none", mode="append") and made(copy="none", mode="changelog") and made()

"""MySQL's filter rules: what each of them says, and in which order they are asked."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.errors import ConfigError
from spark_repl.rules.replication_filters import ReplicationFilters


@pytest.mark.parametrize(
    ("rules", "kept", "left_out"),
    [
        ({}, ["a.t"], []),
        ({"do_db": ("a",)}, ["a.t"], ["b.t", "A.t"]),
        ({"ignore_db": ("a",)}, ["b.t", "A.t"], ["a.t"]),
        ({"do_table": ("a.t",)}, ["a.t"], ["a.u", "b.t"]),
        ({"ignore_table": ("a.t",)}, ["a.u", "b.t"], ["a.t"]),
        ({"wild_do_table": ("a%.t_",)}, ["a.t1", "ab.tt"], ["a.t", "b.t1", "a.t12"]),
        ({"wild_ignore_table": ("a.%",)}, ["b.t"], ["a.t", "a.x"]),
        ({"wild_do_table": (r"a.t\_x",)}, ["a.t_x"], ["a.tax", "a.t\\_x"]),
        ({"do_table": ("a.t",), "ignore_table": ("a.u",)}, ["a.t"], ["a.u", "a.v"]),
        ({"do_table": ("a.t",), "wild_ignore_table": ("a.%",)}, ["a.t"], ["a.u", "b.u"]),
        ({"ignore_table": ("a.t",), "wild_do_table": ("a.%",)}, ["a.u"], ["a.t", "b.t"]),
        ({"wild_do_table": ("a.t%",), "wild_ignore_table": ("a.%x",)}, ["a.tx"], ["a.x", "a.u"]),
        ({"do_db": ("a",), "do_table": ("b.t",)}, [], ["a.t", "b.t"]),
        ({"ignore_db": ("a",), "do_table": ("a.t", "b.t")}, ["b.t"], ["a.t", "b.u"]),
        ({"wild_do_table": ("a.(t|u)",)}, ["a.(t|u)"], ["a.t"]),
    ],
)
def test_which_tables_a_set_of_rules_keeps(
    rules: dict[str, Any], kept: list[str], left_out: list[str]
) -> None:
    filters = ReplicationFilters(**rules)
    assert [name for name in kept if not filters.keeps(name)] == []
    assert [name for name in left_out if filters.keeps(name)] == []
    assert filters.any == bool(rules)
    assert (
        pickle.loads(pickle.dumps(filters))
        == filters
        == ReplicationFilters.from_json(filters.to_json())
    )


def test_the_first_table_that_a_rule_names_decides_about_a_statement() -> None:
    filters = ReplicationFilters(do_table=("a.t",), ignore_table=("a.u",))
    assert filters.keeps_tables(["a.t", "a.u"]) and filters.keeps_tables(["a.v", "a.t"])
    assert not filters.keeps_tables(["a.u", "a.t"]) and not filters.keeps_tables(["a.v"])
    assert filters.keeps_tables([]), "a statement that changes no table"


def test_wild_rules_decide_about_databases_without_database_rules() -> None:
    """Wild rules count only if there are no database rules."""
    wild = ReplicationFilters(wild_do_table=("a%.%",), wild_ignore_table=("b.%", "ab.%"))
    assert [db for db in ("a", "ab", "b", "c") if wild.keeps_database(db)] == ["a", "ab"]
    assert ReplicationFilters(wild_do_table=("a.t",)).keeps_database("a") is False
    assert ReplicationFilters(wild_ignore_table=("a.%",)).keeps_database("b")
    assert not ReplicationFilters(wild_ignore_table=("a.%",)).keeps_database("a")
    assert ReplicationFilters(ignore_db=("b",), wild_do_table=("a.%",)).keeps_database("c")
    assert not ReplicationFilters(do_db=("b",), wild_do_table=("a.%",)).keeps_database("a")
    assert ReplicationFilters(do_table=("a.t",)).keeps_database("b")


def test_rules_are_folded_for_a_source_that_folds_names() -> None:
    filters = ReplicationFilters(do_db=("Shop",), wild_ignore_table=("Shop.Log%",)).folded()
    assert filters.keeps("shop.orders") and not filters.keeps("shop.log1")


@pytest.mark.parametrize(
    ("rules", "table", "said"),
    [
        ({}, "a.t", "no rule names it"),
        ({"do_db": ("b",)}, "a.t", "do_db lacks a"),
        ({"do_db": ("a",)}, "a.t", "do_db has a"),
        ({"ignore_db": ("a",)}, "a.t", "ignore_db has a"),
        ({"wild_do_table": ("a.%",)}, "a.t", "wild_do_table has a.%"),
        ({"wild_ignore_table": ("a.%",)}, "a.t", "wild_ignore_table has a.%"),
        ({"do_table": ("b.t",)}, "a.t", "no do_table and no wild_do_table names it"),
        ({"do_db": ("a",), "ignore_table": ("a.t",)}, "a.t", "ignore_table has a.t"),
    ],
)
def test_the_deciding_filter_rule_is_named(rules: dict[str, Any], table: str, said: str) -> None:
    assert ReplicationFilters(**rules).rule(table) == said


def test_rules_that_are_never_asked_are_faults() -> None:
    with pytest.raises(ConfigError) as raised:
        Config.from_mapping({"filters": {
            "do_db": ["a"], "ignore_db": ["b"], "do_table": ["a.t", "a.u"], "ignore_table": ["a.u"],
            "wild_do_table": ["a.%"], "wild_ignore_table": ["a.%"], "do_tables": ["a.t"],
        }})  # fmt: skip
    said = str(raised.value)
    assert "4 faults" in said and "the nearest is filters.do_table" in said
    assert "filters.ignore_db is never asked where filters.do_db is given" in said
    assert "filters.ignore_table is never asked about a.u: filters.do_table has it" in said
    assert "filters.wild_ignore_table is never asked about a.%" in said


@pytest.mark.parametrize("rules", [{"do_db": [""]}, {"do_table": ["t"]}, {"wild_do_table": "a.%"}])
def test_an_entry_that_is_no_rule_is_a_config_error(rules: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be a list of"):
        Config.from_mapping({"filters": rules})

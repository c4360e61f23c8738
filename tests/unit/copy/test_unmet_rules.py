"""Rules that fit nothing on the source are named."""

from __future__ import annotations

import pytest

from spark_repl.config import Config
from spark_repl.copy.source_tables import kept_names
from spark_repl.copy.unmet_rules import unmet, unmet_columns, unmet_on
from spark_repl.errors import SchemaError
from spark_repl.rules.replication_filters import ReplicationFilters
from spark_repl.rules.table_rules import TableRules

NAMES = ["shop.orders", "shop.log_1", "crm.people"]


def said(**given: object) -> list[str]:
    config = Config.from_mapping(given)
    return list(unmet(NAMES, ReplicationFilters.of(config), TableRules(config.tables)))


def test_names_in_the_target_are_asked_by_none() -> None:
    rules = [{"match": "shop.%", "to": "lake.%"}, {"match": "lake.%"}, {"match": "crm.people"}]
    assert said(filters={"do_db": ["shop", "crm"], "ignore_db": []}, tables=rules) == [
        "tables[2].match lake.% decides about no table of the source"
    ]
    assert said(filters={"do_db": ["shop", "lake"]}, tables=rules[:1]) == [
        "filters.do_db lake fits nothing on the source"
    ]


def test_all_that_would_share_a_name_are_said_at_once() -> None:
    rules = [{"match": "shop.orders", "to": "crm.people"}, {"match": r"shop.log\_1", "to": "u.x"}]
    config = Config.from_mapping({"tables": rules, "filters": {"rewrite_db": ["other->shop"]}})
    names = [*NAMES, "u.x", "other.log_1"]
    with pytest.raises(SchemaError) as caught:
        kept_names(names, ReplicationFilters.of(config))
    assert caught.value.table == "crm.people, u.x, u.x"
    for pair in ("shop.orders and crm.people", "shop.log_1 and u.x", "shop.log_1 and other.log_1"):
        assert f"tables {pair} would share" in str(caught.value)
    left = Config.from_mapping({"tables": rules, "filters": {"do_db": ["shop"]}})
    assert kept_names(names, ReplicationFilters.of(left)) == ["crm.people", "u.x", "", "", ""]


def test_rules_that_fit_are_not_reported() -> None:
    filters = {
        "do_db": ["shop", "people"], "ignore_table": ["shop.log_1"], "rewrite_db": ["crm->people"],
        "wild_do_table": [r"shop.log\_%", "people.%"],
    }  # fmt: skip
    rules = [{"match": "people.people"}, {"match": "%.orders"}]
    assert said(filters={**filters, "wild_do_table": ["%.%"]}, tables=rules) == []


def test_each_rule_that_fits_nothing_is_reported() -> None:
    filters = {
        "do_db": ["shp", "shop"], "ignore_table": ["shop.lgo"],
        "wild_ignore_table": ["crm.%", "x.%"], "rewrite_db": ["crm->people", "carm->p"],
    }  # fmt: skip
    rules = [{"match": "shop.orderz"}, {"match": "people.%"}, {"match": "shop.%"}]
    assert said(filters=filters, tables=rules) == [
        "filters.rewrite_db carm->p: the source has no table in carm; the nearest is crm",
        "filters.do_db shp fits nothing on the source; the nearest is shop",
        "filters.ignore_table shop.lgo fits nothing on the source; the nearest is shop.log_1",
        "filters.wild_ignore_table crm.% fits nothing on the source",
        "filters.wild_ignore_table x.% fits nothing on the source",
        "tables[1].match shop.orderz decides about no table of the source; the nearest is"
        " shop.orders",
        "tables[2].match people.% decides about no table of the source: rules before it, or the"
        " filters, have all that it fits",
    ]


@pytest.mark.parametrize(
    ("match", "like"),
    [
        ("shpo.%", "; the nearest is shop"),
        (r"shop.log\_2", "; the nearest is shop.log_1"),
        ("sohp.ordres", "; the nearest is shop.orders"),
        ("warehouse.%", ""),
        ("%.orderz", ""),
        ("shop.lgo%", ""),
        ("crm.people_", "; the nearest is crm.people"),
        ("shop_.%", "; the nearest is shop"),
        ("sh_p.orderz%", ""),
    ],
)
def test_what_a_pattern_that_fits_nothing_is_like(match: str, like: str) -> None:
    (one,) = said(tables=[{"match": match}])
    assert one == f"tables[1].match {match} decides about no table of the source{like}"


def test_columns_that_no_table_of_a_pattern_has() -> None:
    """A mask that is never asked would show the plain values."""
    rules = [
        {"match": "crm.people", "exclude": ["nmae"]},  # each table says it by itself
        {"match": "hr.%", "mask": {"pay": "null"}},  # of no table at all
        {"match": "shop.%", "mask": {"EMAIL": "null", "emial": "null"}, "exclude": ["note"]},
        {"match": "%.%", "include": ["id", "x"]},
    ]
    config = Config.from_mapping({
        "tables": [rules[0], rules[1], {**rules[2], "to": "lake.%"}, rules[3]],
        "filters": {"wild_ignore_table": ["shop.log%"]},
    })  # fmt: skip
    columns = {
        "shop.orders": ["id", "email"], "shop.log_1": ["note"], "crm.people": ["id"], "a.b": ["Id"],
    }  # fmt: skip
    filters, table_rules = ReplicationFilters.of(config), TableRules(config.tables)
    assert list(unmet_columns(columns, filters, table_rules)) == [
        "tables[3].exclude names note, which no table of shop.% has",
        "tables[3].mask names emial, which no table of shop.% has; the nearest is email",
        "tables[4].include names x, which no table of %.% has",
    ]


def test_columns_are_asked_where_rules_name_some() -> None:
    asked = list[str]()

    def query(statement: str) -> list[tuple[object, ...]]:
        asked.append(statement)
        if "@@lower" in statement:
            return [(1,)]
        column = ("Email",) if "information_schema.columns" in statement else ()
        return [("Shop", "Orders", *column)]

    rule = {"match": "shop.%", "exclude": ["email", "mail"]}
    assert unmet_on(query, Config.from_mapping({"tables": [{"match": "shop.%"}]})) == []
    assert not any("information_schema.columns" in statement for statement in asked)
    assert unmet_on(query, Config.from_mapping({"tables": [rule]})) == [
        "tables[1].exclude names mail, which no table of shop.% has; the nearest is Email"
    ]


def test_a_source_is_asked_and_its_names_are_folded() -> None:
    def query(statement: str) -> list[tuple[object, ...]]:
        return [(1,)] if "@@lower" in statement else [("Shop", "Orders")]

    config = Config.from_mapping({"filters": {"do_table": ["SHOP.orders", "shop.x"]}})
    assert unmet_on(query, config) == ["filters.do_table shop.x fits nothing on the source"]

"""``to`` of ``[[tables]]``: its form, and which rules can't stand beside each other."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.config.renaming import OF_THE_SERVER, Renaming, unusable
from spark_repl.errors import ConfigError
from spark_repl.tables.table_definition import SYSTEM_SCHEMAS


@pytest.mark.parametrize(
    ("match", "to", "name", "there"),
    [
        ("shop.orders", "lake.o", ("shop", "orders"), ("lake", "o")),
        ("shop.orders", "lake.o", ("shop", "order"), None),
        ("shop.%", "lake.%", ("shop", "a.b"), ("lake", "a.b")),
        ("shop.%", "lake.shop_%", ("shop", ""), ("lake", "shop_")),
        ("%.orders", "lake.%_o", ("shop", "orders"), ("lake", "shop_o")),
        ("a%z.t%", "b%y.%u", ("aMz", "tN"), ("bMy", "Nu")),
        (r"shop\_%.\%", r"l\%.a\\b%", ("shop_1", "%"), ("l%", "a\\b1")),
        (r"shop\_%.x", "l.%", ("shopp1", "x"), None),
        ("shop.%", "lake.%", ("shop.eu", "x"), None),  # no % stands for a dot of a database
    ],
)
def test_a_route_leads_to_the_targets_name_and_back(
    match: str, to: str, name: tuple[str, str], there: tuple[str, str] | None
) -> None:
    renaming = Renaming(match, to)
    assert renaming.there(name) == there
    assert there is None or renaming.back(there) == name


def faults(*rules: dict[str, Any], **given: Any) -> list[str]:
    try:
        Config.from_mapping({"tables": list(rules), **given})
    except ConfigError as error:
        return list(error.faults)
    return []


def rule(match: str, to: str, **more: Any) -> dict[str, Any]:
    return {"match": match, "to": to, **more}


@pytest.mark.parametrize(
    ("match", "to", "says"),
    [
        ("shop.a", "shop.a", "changes nothing"),
        (r"shop.a\_b", "shop.a_b", "changes nothing"),
        ("shop_x.a", "lake.a", r"the wildcard _ has no place in lake.a to be carried over"),
        ("a%b%.t", "l%.%", "match a%b%.t: with to, more than one % in a part"),
        ("%.%", "lake.%_%", "to lake.%_%: with to, more than one % in a part"),
        ("shop.a", "lake.%", "has a % that stands for nothing in match shop.a"),
        ("%.orders", "lake.orders", "tables that share one need a key_prefix"),
        ("shop.a", "mysql.a", "the database mysql is not for tables"),
        ("shop.%", "_repl.%", "the database _repl is not for tables"),
        ("shop.a", "lake." + "x" * 65, "more than 64 characters"),
        ("shop.a", "Lake.a", "an upper-case letter needs source.lower_case_table_names"),
    ],
)
def test_forms_that_are_refused(match: str, to: str, says: str) -> None:
    (fault,) = faults(rule(match, to))
    assert fault.startswith("tables[1].") and says in fault


def test_two_rules_that_give_one_name() -> None:
    found = faults(
        rule("shop.a", "lake.a"), rule("crm.a", "lake.a"), rule("crm.%", "crm2.%"),
        rule("hr.%", "crm%.x"), rule("x.%", "crm2.x%"), rule("y.%", "crm2.y_%"),
    )  # fmt: skip
    assert [fault.partition(" ")[0] for fault in found] == [
        "tables[2].to", "tables[5].to", "tables[6].to",
    ]  # fmt: skip
    assert "tables[1].to has given" in found[0]


@pytest.mark.parametrize(
    "rules",
    [
        [rule("shop.orders", "lake.all_orders"), rule("shop.%", "lake.%")],
        [rule("a.%", "x.a_%"), rule("b.%", "x.b_%")],
        [rule("a.t1", "x.t_"), rule("b.t2", "x.t1")],  # _ of to is a letter
        [rule("shop.a", "shop.b"), rule("shop.b", "shop.a")],
        [rule("shop.a", "mysql2.a")],
    ],
)
def test_rules_that_go_together(rules: list[dict[str, Any]]) -> None:
    assert faults(*rules) == []
    Config.from_mapping({"tables": rules}).check_supported()


def test_upper_case_is_allowed_if_the_case_setting_is_known() -> None:
    for value in (0, 1, 2):
        assert not faults(rule("shop.a", "Lake.a"), source={"lower_case_table_names": value})


def test_all_faults_of_routes_are_reported_together() -> None:
    found = faults(rule("a_.x", "b.%"), rule("c.d", "c.d"))
    assert len(found) == 3


@pytest.mark.parametrize("name", [("", "x"), ("x", ""), ("sys", "x"), ("x", "y" * 65)])
def test_names_that_no_table_can_have(name: tuple[str, str]) -> None:
    assert unusable(name)
    assert not unusable(("x", "y" * 64))
    assert {*OF_THE_SERVER} == SYSTEM_SCHEMAS

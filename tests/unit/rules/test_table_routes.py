"""Names of the target by ``to`` of ``[[tables]]``: one to one, told by the rules alone; statements,
filters and rules of tables with them."""

from __future__ import annotations

import random

import pytest

from spark_repl.config import Config
from spark_repl.config.tables import TableRule
from spark_repl.errors import ConfigError, SchemaError
from spark_repl.rules.replication_filters import ReplicationFilters
from spark_repl.rules.rewrites import Rewrites
from spark_repl.rules.table_routes import TableRoutes
from spark_repl.rules.table_rules import TableRules
from spark_repl.sql.classify import classify

BOTH = (("shop.orders", "lake.o"), ("shop.log", ""), ("shop.%", "lake.%"))


def test_the_first_that_fits_counts() -> None:
    routes = TableRoutes(BOTH)
    names = {"shop.orders": "lake.o", "shop.log": "shop.log", "shop.x": "lake.x", "crm.x": "crm.x"}
    assert {name: routes.after(name) for name in names} == names
    assert [routes.before(there) for there in names.values()] == list(names)
    assert not TableRoutes((("shop.log", ""),)).any and not TableRoutes().any


@pytest.mark.parametrize(
    ("name", "owner", "there"),
    [("shop.o", "shop.orders", "lake.o"), ("lake.x", "shop.x", "lake.x")],
)
def test_a_name_in_the_target_that_another_table_has_is_refused(
    name: str, owner: str, there: str
) -> None:
    routes = TableRoutes(BOTH)
    assert routes.after(name) == f"{there}@source" or routes.after(name) == f"{name}@source"
    assert routes.before(routes.after(name)) == name and routes.before(there) == owner
    with pytest.raises(SchemaError, match=f"tables {owner} and t.log would share {there}"):
        routes.check(name, "t.log")
    routes.check(owner, owner)


def test_a_name_that_is_free_again() -> None:
    """lake.log is of no table of shop, whose log keeps its name."""
    routes = TableRoutes(BOTH)
    assert routes.after("lake.log") == "lake.log" == routes.before("lake.log")
    routes.check("lake.log", "lake.log")


def test_routes_may_swap_names_and_form_chains() -> None:
    swap = TableRoutes((("t.a", "t.b"), ("t.b", "t.a")))
    assert (swap.after("t.a"), swap.after("t.b")) == ("t.b", "t.a")
    chain = TableRoutes((("t.a", "t.b"), ("t.b", "t.c")))
    assert [chain.after(f"t.{x}") for x in "abc"] == ["t.b", "t.c", "t.c@source"]
    with pytest.raises(SchemaError):
        chain.check("t.c", "t.c")


def test_names_that_no_table_can_have() -> None:
    routes = TableRoutes((("shop%.x", "%.x"), ("%.log", "%.a_long_name_%")))
    for name in ("shop.x", "shopmysql.x", "shop_repl.x"):
        with pytest.raises(SchemaError, match=f"{name} can't be"):
            routes.check(name, name)
    routes.check("shop_eu.x", "shop_eu.x")
    # The server's own stay what they are.
    assert TableRoutes((("%.orders", "lake.%"),)).after("mysql.orders") == "mysql.orders"


@pytest.mark.parametrize("value", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_a_shard_that_nothing_tells_apart(value: str) -> None:
    """Spark reads both values of a partition's column as NULL; no other name is another one's."""
    routes = TableRoutes((("%.orders", "lake.orders//%"),))
    with pytest.raises(SchemaError, match="nothing tells it apart") as caught:
        routes.check(f"{value}.orders", f"{value}.orders")
    hint = caught.value.hint or ""
    assert "[filters]" in hint and "a rule of its own" in hint and "of the two" not in hint


def test_a_table_that_was_set_aside_goes_with_its_name() -> None:
    routes = TableRoutes(BOTH)
    assert routes.before("lake.o@dropped2") == "shop.orders@dropped2"
    assert routes.before("crm.x@dropped1") == "crm.x@dropped1"


def test_a_table_that_is_called_as_a_displaced_one() -> None:
    routes = TableRoutes((("t.a", "lake.o"),))
    assert routes.after("lake.o") == "lake.o@source"
    with pytest.raises(SchemaError, match=r"tables lake\.o and lake\.o@source would share"):
        routes.check("lake.o@source", "lake.o@source")


def test_routes_match_names_with_dots() -> None:
    routes = TableRoutes((("shop.%", "lake.%"), ("%.x", "lake2.%")))
    assert routes.after("shop.a.b") == "lake.a.b" and routes.before("lake.a.b") == "shop.a.b"
    assert routes.after("a@002eb.x") == "lake2.a.b" and routes.before("lake2.a.b") == "a@002eb.x"


@pytest.mark.parametrize("seed", range(60))
def test_routes_are_one_to_one_whatever_the_rules(seed: int) -> None:
    """All that is kept has a name of its own, which leads back to it."""
    rng = random.Random(seed)
    parts = ["a", "b", "ab", "%", "a%", "%b", r"a\_b"]
    given = [
        TableRule(
            f"{rng.choice(parts)}.{rng.choice(parts)}",
            to=rng.choice(["", f"{rng.choice(parts)}.{rng.choice(parts)}".replace("\\", "")]),
        )
        for _ in range(rng.randrange(1, 5))
    ]
    try:
        config = Config.from_mapping(
            {"tables": [{"match": rule.match, "to": rule.to} for rule in given]}
        )
    except ConfigError:
        return
    routes = TableRoutes.of(config.tables)
    words = ["a", "b", "ab", "aab", "bb", "a_b", "abb", "ba"]
    names = [f"{database}.{table}" for database in words for table in words]
    assert len({routes.after(name) for name in names}) == len(names)
    for name in names:
        assert routes.before(routes.after(name)) == name
        rule = TableRules(config.tables).of_table(routes.after(name))
        number = routes.deciding(name)
        assert rule == (config.tables[number] if number >= 0 else TableRule())
        try:
            routes.check(name, name)
        except SchemaError as error:
            assert routes.after(name).endswith("@source") or "can't be" in str(error)
        else:
            assert not routes.after(name).endswith("@source")


def test_statements_and_what_the_server_names_after_tables() -> None:
    rewrites = Rewrites.of(["t->shop"], BOTH)
    made = rewrites.statement(
        classify(
            "CREATE TABLE t.orders (id INT PRIMARY KEY, c INT, CONSTRAINT orders_ibfk_7 FOREIGN KEY"
            " (c) REFERENCES shop.x (id), CONSTRAINT o_ibfk_1 FOREIGN KEY (id) REFERENCES crm.y"
            " (id), CONSTRAINT mine FOREIGN KEY (c) REFERENCES orders (id))",
            "t",
        )
    )
    assert made.tables == ("lake.o",) and made.definition is not None
    assert (made.definition.name, made.definition.source_name) == ("lake.o", "t.orders")
    keys = made.definition.foreign_keys
    assert keys is not None and keys == made.foreign_keys
    assert [(key.name, key.parent) for key in keys] == [
        ("o_ibfk_7", "lake.x"), ("orders_ibfk_1", "crm.y"), ("mine", "lake.o"),
    ]  # fmt: skip
    altered = rewrites.statement(
        classify("ALTER TABLE t.orders DROP FOREIGN KEY Orders_ibfk_7, RENAME TO t.x", "t")
    )
    assert altered.dropped_constraints == ("o_ibfk_7",) and altered.alteration is not None
    assert (altered.tables[0], altered.alteration.renamed) == ("lake.o", "lake.x")
    assert altered.renames == (("lake.o", "lake.x"),)
    like = rewrites.statement(classify("CREATE TABLE crm.o LIKE t.orders", "t"))
    assert (like.tables[0], like.like) == ("crm.o", "lake.o")


def test_a_statement_as_it_was_written_where_names_are_folded() -> None:
    filters = ReplicationFilters(rewrite_db=("T->Shop",), to=BOTH).folded()
    statement = filters.rewrites.statement(classify("DROP TABLE T.Orders, Shop.X", "T"))
    assert statement.tables == ("lake.o", "lake.x")
    assert filters.rewrites.database("T") == "shop"


def test_filters_see_the_names_before_to() -> None:
    filters = ReplicationFilters(do_db=("lake", "shop"), ignore_table=("shop.orders",), to=BOTH)
    assert [filters.keeps(name) for name in ("lake.o", "lake.x", "lake.log")] == [False, True, True]
    assert filters.rule("lake.o") == "ignore_table has shop.orders"
    assert filters.kinds("lake.x") == ("do_db",)
    # A table whose name is another's is asked about by its own.
    other = filters.rewrites.table("lake.x")
    assert ReplicationFilters(ignore_table=("lake.x",), to=BOTH).keeps(other) is False
    assert ReplicationFilters(ignore_table=("shop.x",), to=BOTH).keeps(other) is True
    assert not ReplicationFilters(to=BOTH).any
    assert ReplicationFilters.from_json(filters.to_json()) == filters


def test_statements_about_databases_are_the_source_s() -> None:
    rewrites = Rewrites.of([], BOTH)
    there = ["lake.o", "lake.x", "lake.log", "shop.log", "lake.x@source"]
    assert rewrites.in_database("shop", there) == ["lake.o", "lake.x", "shop.log"]
    assert rewrites.in_database("lake", there) == ["lake.log", "lake.x@source"]
    dropped = classify("DROP DATABASE shop", "")
    assert rewrites.names_in_statement(dropped, ["lake.o"]) == ["shop.orders"]
    assert rewrites.names_in_statement(classify("DROP TABLE a.b", ""), ["lake.o"]) == ["lake.o"]

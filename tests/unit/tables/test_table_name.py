"""Names of tables: no two tables share one."""

from __future__ import annotations

from itertools import product

import pytest

from spark_repl.rules.replication_filters import ReplicationFilters
from spark_repl.sql.classify import classify
from spark_repl.tables.table_name import database_of, parts_of, plain_name, table_name

_NAMES = [
    "a", "a.b", "b", "b.c", "c", "a@b", "a@002eb", "@0040", "@", "a@0040002eb", "a.@", "a.b.c",
    "..", ".", "@00", "试.x", "a@002Eb", "a@0040b", "a@00", "002e",
]  # fmt: skip


def test_names_are_apart_and_give_their_parts_back() -> None:
    pairs = list(product(_NAMES, _NAMES))
    names = [table_name(*pair) for pair in pairs]
    assert len(set(names)) == len(pairs)
    assert [parts_of(name) for name in names] == pairs
    assert [plain_name(name) for name in names] == [".".join(pair) for pair in pairs]


def test_only_databases_with_a_dot_are_written_otherwise() -> None:
    assert table_name("shop", "orders.old") == "shop.orders.old"
    assert table_name("me@home", "x") == "me@home.x"
    assert table_name("a.b", "c") == "a@002eb.c"
    assert database_of("a@002eb.c") == "a.b"


@pytest.mark.parametrize(("database", "table"), [("a.b", "c"), ("a", "b.c")])
def test_a_statement_says_which_table_it_means(database: str, table: str) -> None:
    for session, written in ((database, f"`{table}`"), ("x", f"`{database}`.`{table}`")):
        made = classify(f"CREATE TABLE {written} (i INT, KEY (i))", session)
        assert made.definition is not None and made.tables == (made.definition.name,)
        assert (made.definition.database, made.definition.table) == (database, table)
        model = classify(f"CREATE TABLE t LIKE {written}", session)
        assert model.like == table_name(database, table)
        renamed = classify(f"RENAME TABLE {written} TO `p.q`.r", session)
        assert renamed.renames == ((table_name(database, table), "p@002eq.r"),)


def test_rules_name_tables_as_the_source_does() -> None:
    filters = ReplicationFilters(do_table=("a.b.c",))
    assert filters.keeps("a.b.c") and filters.keeps("a@002eb.c") and not filters.keeps("a.b")
    assert ReplicationFilters(ignore_db=("a.b",)).keeps("a.b.c")
    assert not ReplicationFilters(ignore_db=("a.b",)).keeps("a@002eb.c")


def test_like_names_a_table_of_the_sessions_database() -> None:
    """As seen on 9.7, and not of the new table's own."""
    assert classify("CREATE TABLE x.t LIKE m", "s").like == "s.m"
    assert classify("CREATE TABLE x.t (LIKE y.m)", "s").like == "y.m"

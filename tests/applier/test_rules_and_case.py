"""Rules with upper-case names beside a source whose log has not said yet whether it folds names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SettingError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import cuts, last_shown, run, stopped
from tests.support.planted import holding

USERS = Table("users", (("id", "int"), ("mail", "varchar(40)")))
SECRET = "planted-secret-hunter2"
RULES = [
    {"mask": {"mail": "null"}}, {"exclude": ["mail"]}, {"row_filter": "id > 5"},
    {"mode": "changelog"},
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "log")


@pytest.mark.parametrize("rule", RULES)
def test_what_the_log_shows_in_the_middle_of_a_batch(
    log: LogWriter, tmp_path: Path, rule: dict[str, Any]
) -> None:
    """Rows that were read before are not applied by no rule; the next start knows."""
    log.ddl("CREATE TABLE T.Users (id INT PRIMARY KEY, mail VARCHAR(40))", "T")
    log.transaction(insert(USERS, (1, SECRET)), insert(USERS, (7, SECRET)))
    rules, target = [{"match": "T.Users", **rule}], tmp_path / "lake"
    error = stopped(log.folder, target, tables=rules)
    assert isinstance(error, SettingError) and error.table == "t.users"
    assert error.hint == "start again: it is on record now"
    assert holding(target, SECRET) == []
    assert run(log.folder, target, tables=rules)
    (rows,) = last_shown(target).values()
    assert len(rows) == (1 if "row_filter" in rule else 2)
    if "mode" not in rule and "row_filter" not in rule:
        assert holding(target, SECRET) == [] and rows[0][0] == 1


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_whose_case_the_log_never_has_stops(
    log: LogWriter, tmp_path: Path, rule: dict[str, Any]
) -> None:
    log.transaction(insert(USERS, (1, SECRET), (7, SECRET)))
    rules, target = [{"match": "T.Users", **rule}], tmp_path / "lake"
    error = stopped(log.folder, target, tables=rules)
    assert isinstance(error, SettingError) and "does not say whether" in str(error)
    assert "lower_case_table_names" in (error.hint or "")
    assert holding(target, SECRET) == []
    assert run(log.folder, target, tables=rules, source={"lower_case_table_names": 0})
    assert last_shown(target) == {"t.users": [(1, SECRET), (7, SECRET)]}, "it is another table"


def test_a_rule_that_says_the_same_of_both(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(USERS, (1, "x")))
    rules = [{"match": "t.users", "mask": {"mail": "null"}}, {"match": "T.%", "exclude": ["mail"]}]
    assert run(log.folder, tmp_path / "lake", tables=rules)
    assert last_shown(tmp_path / "lake") == {"t.users": [(1, None)]}


@pytest.mark.parametrize(
    "filters",
    [{"do_table": ["T.Users"]}, {"ignore_table": ["T.Users"]}, {"wild_do_table": ["T.%"]},
     {"do_db": ["T"]}],
)  # fmt: skip
def test_filters_that_would_decide_otherwise(
    log: LogWriter, tmp_path: Path, filters: dict[str, Any]
) -> None:
    log.ddl("CREATE TABLE T.Users (id INT PRIMARY KEY, mail VARCHAR(40))", "T")
    log.transaction(insert(USERS, (1, "x")))
    target = tmp_path / "lake"
    error = stopped(log.folder, target, filters=filters)
    assert isinstance(error, SettingError) and "with other letters" in str(error)
    assert error.table == "t.users" and "lower_case_table_names" in (error.hint or "")
    given: dict[str, Any] = {"filters": filters, "source": {"lower_case_table_names": 1}}
    assert run(log.folder, target, **given)
    shown = last_shown(target)
    assert shown == ({} if "ignore_table" in filters else {"t.users": [(1, "x")]})


def test_filters_that_decide_the_same_either_way(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(USERS, (1, "x")))
    assert run(log.folder, tmp_path / "lake", filters={"do_table": ["t.users", "T.Others"]})
    assert last_shown(tmp_path / "lake") == {"t.users": [(1, "x")]}


ORDERS = Table("orders", database="shop")
UPPER = "CREATE TABLE Shop.Orders (id INT PRIMARY KEY, v VARCHAR(40))"
FOLDS = {"lower_case_table_names": 1}
ROUTES: list[tuple[dict[str, Any], Any]] = [
    ({"tables": [{"match": "shop.%", "to": "lake.%"}]}, (1, "x")),
    ({"tables": [{"match": "shop.orders", "to": "lake.orders"}]}, (1, "x")),
    ({"tables": [{"match": "Shop.%", "to": "lake.%"}]}, (1, "x")),
    ({"tables": [{"match": "sho%.orders", "to": "lake.orders", "key_prefix": "s"}]}, (1, "x", "p")),
    ({"tables": [{"match": "%.Orders", "to": "lake.orders", "key_prefix": "s"}]}, (1, "x", "shop")),
    ({"filters": {"rewrite_db": ["shop->lake"]}}, (1, "x")),
]  # fmt: skip


@pytest.mark.parametrize(("given", "row"), ROUTES)
def test_a_statement_and_rows_that_would_be_of_two_tables(
    log: LogWriter, tmp_path: Path, given: dict[str, Any], row: tuple[Any, ...]
) -> None:
    """No second, empty table is made where a rule gives another name to one of the two alone."""
    target, given = tmp_path / "lake", {"keys": {"column_mapping": True}, **given}
    log.ddl(UPPER, "Shop")
    log.transaction(insert(ORDERS, (1, "x")))
    error = stopped(log.folder, target, **given)
    assert isinstance(error, SettingError) and "with other letters" in str(error)
    assert "lower_case_table_names" in (error.hint or "")
    there = {name for cut in cuts(target) for name in cut.tables}
    assert there == ({"lake.Orders"} if "'Shop.%'" in str(given) else set()), "the rows stop"
    assert run(log.folder, target, **given, source=FOLDS)
    assert last_shown(target) == {"lake.orders": [row]}


def test_a_rule_that_gives_both_one_name(log: LogWriter, tmp_path: Path) -> None:
    """The rows show then that the source folds names; a start behind it knows whose they are."""
    target, given = tmp_path / "lake", {"tables": [{"match": "shop.%", "to": "lake.%"}]}
    log.ddl("CREATE TABLE shop.Orders (id INT PRIMARY KEY, v VARCHAR(40))", "shop")
    for number in range(2):
        log.transaction(insert(ORDERS, (number, "x")))
        assert run(log.folder, target, **given)
    assert last_shown(target) == {"lake.orders": [(0, "x"), (1, "x")]}


def test_rows_in_upper_case_are_of_a_source_that_does_not_fold(
    log: LogWriter, tmp_path: Path
) -> None:
    target, given = tmp_path / "lake", {"tables": [{"match": "shop.%", "to": "lake.%"}]}
    log.transaction(insert(Table("Orders", database="Shop"), (1, "x")))
    log.ddl("ALTER TABLE Shop.Orders ADD w INT", "Shop")
    assert run(log.folder, target, **given)
    assert last_shown(target) == {"Shop.Orders": [(1, "x", None)]}


@pytest.mark.parametrize("rule", RULES)
def test_a_statement_that_a_rule_would_shape(
    log: LogWriter, tmp_path: Path, rule: dict[str, Any]
) -> None:
    log.ddl("CREATE TABLE T.Users (id INT PRIMARY KEY, mail VARCHAR(40))", "T")
    error = stopped(log.folder, tmp_path / "lake", tables=[{"match": "t.users", **rule}])
    assert isinstance(error, SettingError) and error.table == "T.Users"


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE a (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES Shop.Orders (id))",
     "ALTER TABLE a ADD FOREIGN KEY (id) REFERENCES Shop.Orders (id) ON DELETE CASCADE",
     "ALTER TABLE a ADD w INT REFERENCES Shop.Orders (id) ON DELETE CASCADE",
     "CREATE TABLE a LIKE Shop.Orders", "RENAME TABLE a TO Shop.Orders",
     "ALTER TABLE a RENAME TO Shop.Orders", "DROP TABLE Shop.Orders"],
)  # fmt: skip
def test_each_name_of_a_statement_is_compared_with_the_rules_case(
    log: LogWriter, tmp_path: Path, statement: str
) -> None:
    log.ddl(statement, "t")
    error = stopped(log.folder, tmp_path / "lake", tables=[{"match": "shop.%", "to": "lake.%"}])
    assert isinstance(error, SettingError) and error.table == "Shop.Orders"


@pytest.mark.parametrize(
    "filters",
    [{"ignore_table": ["shop.orders"]}, {"do_table": ["shop.orders"]},
     {"wild_ignore_table": ["Shop.%"]}, {"ignore_db": ["shop"]}],
)  # fmt: skip
def test_a_statement_that_filters_would_treat_otherwise(
    log: LogWriter, tmp_path: Path, filters: dict[str, Any]
) -> None:
    """Nothing empty is made of what they leave out, nor left out what has rows."""
    log.ddl("CREATE TABLE SHOP.Orders (id INT PRIMARY KEY, v VARCHAR(40))", "t")
    error = stopped(log.folder, tmp_path / "lake", filters=filters)
    assert isinstance(error, SettingError) and error.table == "SHOP.Orders"
    assert run(log.folder, tmp_path / "lake", filters=filters, source=FOLDS)
    shown = last_shown(tmp_path / "lake")
    assert shown == ({"shop.orders": []} if "do_table" in filters else {})


@pytest.mark.parametrize("bound", [100, 1])
def test_a_table_behind_the_one_that_shows_it(log: LogWriter, tmp_path: Path, bound: int) -> None:
    """What was read before the log showed that the source folds names was read without its rule."""
    first = Table("first", (("id", "int"),))
    log.ddl("CREATE TABLE T.First (id INT PRIMARY KEY)", "T")
    log.ddl("CREATE TABLE T.Users (id INT PRIMARY KEY, mail VARCHAR(40))", "T")
    log.transaction(insert(first, (1,)))
    log.transaction(insert(USERS, (1, SECRET)))
    given: dict[str, Any] = {
        "tables": [{"match": "T.Users", "mask": {"mail": "null"}}], "group_max_transactions": bound,
    }  # fmt: skip
    error = stopped(log.folder, tmp_path / "lake", **given)
    assert isinstance(error, SettingError) and error.table == "t.users"
    assert holding(tmp_path / "lake", SECRET) == []
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"t.first": [(1,)], "t.users": [(1, None)]}

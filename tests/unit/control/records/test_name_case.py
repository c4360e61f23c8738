"""Names of databases and tables are compared as the source does (lower_case_table_names)."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.alter.schema_history import SchemaHistory
from spark_repl.binlog.events.event import Query
from spark_repl.errors import SchemaError, SparkReplError, StatementError
from spark_repl.tables.case_folding import fold
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import cuts, rows, run, stopped

LOWER, UPPER = Table("orders", database="shop"), Table("Orders", database="Shop")
FOLDS, TELLS = {"lower_case_table_names": 1}, {"lower_case_table_names": 0}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "log")


@pytest.mark.parametrize("source", [FOLDS, {"lower_case_table_names": 2}, {}])
@pytest.mark.parametrize("bound", [100, 1])
def test_rows_are_of_the_table_that_was_written_otherwise(
    log: LogWriter, tmp_path: Path, source: dict, bound: int
) -> None:
    lake = tmp_path / "lake"
    log.ddl("CREATE DATABASE Shop")
    log.ddl(UPPER.create)
    log.transaction(insert(LOWER, (1, "a")))
    log.transaction(insert(LOWER, (2, "a")))
    run(log.folder, lake, source=source, group_max_transactions=bound)
    assert list(cuts(lake)[-1].tables) == ["shop.orders"]
    log.ddl("ALTER TABLE Shop.ORDERS ALTER COLUMN v SET DEFAULT 'd'")
    log.transaction(insert(LOWER, {0: 3}))
    run(log.folder, lake, source=source)
    path = cuts(lake)[-1].tables["shop.orders"].path
    database, _, name = path.partition("/")
    assert rows(lake, Table(name, database=database)) == [(1, "a"), (2, "a"), (3, "d")]
    assert path == ("shop/orders" if source else "Shop/Orders")
    log.ddl("DROP DATABASE sHOP")
    run(log.folder, lake, source=source)
    assert not cuts(lake)[-1].tables


@pytest.mark.parametrize("source", [TELLS, {}])
def test_two_tables_whose_names_differ_in_case_stay_two(
    log: LogWriter, tmp_path: Path, source: dict
) -> None:
    lake = tmp_path / "lake"
    one, other = Table("Orders"), Table("orders")
    log.ddl(one.create)
    log.ddl(other.create)
    log.transaction(insert(one, (1, "one")), insert(other, (1, "other")))
    run(log.folder, lake, source=source)
    log.ddl("DROP TABLE ORDERS")
    log.ddl("DROP DATABASE T")
    log.transaction(insert(other, (2, "other")))
    run(log.folder, lake, source=source)
    assert rows(lake, one) == [(1, "one")]
    assert rows(lake, other) == [(1, "other"), (2, "other")]


def test_a_logged_name_in_upper_case_shows_that_they_are_two(
    log: LogWriter, tmp_path: Path
) -> None:
    log.transaction(insert(Table("Orders"), (1, "a")))
    log.transaction(insert(Table("orders"), (1, "b")))
    run(log.folder, tmp_path / "lake")
    log.ddl("DROP TABLE ORDERS")
    assert run(log.folder, tmp_path / "lake")
    assert rows(tmp_path / "lake", Table("Orders")) == [(1, "a")]
    assert rows(tmp_path / "lake", Table("orders")) == [(1, "b")]


AMBIGUOUS = [
    "DROP DATABASE Shop",
    "DROP TABLE shop.nothing, shop.ORDERS",
    "ALTER TABLE Shop.orders ALTER COLUMN v SET DEFAULT 'd'",
    "ALTER TABLE shop.ORDERS ADD FOREIGN KEY (id) REFERENCES x (id) ON DELETE CASCADE",
    "CREATE TABLE IF NOT EXISTS SHOP.orders (id int PRIMARY KEY)",
]


@pytest.mark.parametrize("statement", AMBIGUOUS)
def test_a_name_whose_case_is_unknown_stops(log: LogWriter, tmp_path: Path, statement: str) -> None:
    lake = tmp_path / "lake"
    log.ddl("CREATE DATABASE shop")
    log.ddl(LOWER.create)
    log.transaction(insert(LOWER, (1, "old")))
    log.ddl("ALTER TABLE SHOP.orders COMMENT 'changes nothing'")
    log.ddl(statement)
    error = stopped(log.folder, lake)
    assert isinstance(error, StatementError) and error.gtid == log.gtid(4)
    assert error.hint and "source.lower_case_table_names" in error.hint
    if not statement.startswith("CREATE"):
        run(log.folder, lake, source=TELLS)
    if statement.startswith(("CREATE", "ALTER")):
        run(log.folder, lake, source=FOLDS)
        assert list(cuts(lake)[-1].tables) == ["shop.orders"]


def test_a_log_with_upper_case_contradicts_the_setting(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(UPPER, (1, "a")))
    error: SparkReplError = stopped(log.folder, tmp_path / "lake", source=FOLDS)
    assert isinstance(error, SchemaError) and error.table == "Shop.Orders" and error.hint


def test_folding_keeps_the_number_of_characters() -> None:
    assert fold("ÄBC.ΣΑΣ.İ") == "äbc.σασ.i"


def test_a_history_of_definitions_forgets_what_other_letters_change() -> None:
    """Else a renamed column of a log without names would keep its old one."""

    def see(text: str) -> None:
        history.see(Query(1, 0, 0, "shop", text.encode(), b""))

    history = SchemaHistory()
    see("CREATE TABLE orders (id int, a int)")
    see("ALTER TABLE Orders RENAME COLUMN a TO b")
    assert not history.definitions
    see("CREATE TABLE orders (id int, a int)")
    see("CREATE TABLE Orders (id int, a int)")
    see("ALTER TABLE Orders RENAME COLUMN a TO b")
    names = {table: made.columns[1].name for table, made in history.definitions.items()}
    assert names == {"shop.orders": "a", "shop.Orders": "b"}
    see("DROP DATABASE SHOP")
    assert not history.definitions

"""Generated invisible primary keys under ALTER TABLE, as MySQL 9.7.4 was seen to keep them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable
from tests.support.altered_table import altered, table

ROW_ID = "my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE"
REST = "a INT, b VARCHAR(5)"
GENERATED = f"{ROW_ID}, {REST}, PRIMARY KEY (my_row_id)"


def order(actions: str, before: SourceTable, **session: object) -> str:
    return " ".join(c.name for c in altered(actions, before, **session).definition.columns)


@pytest.mark.parametrize(
    ("actions", "want"),
    [
        ("ADD c INT FIRST", "my_row_id c a b"),
        ("MODIFY a INT FIRST", "my_row_id a b"),
        ("CHANGE b bb VARCHAR(5) FIRST", "my_row_id bb a"),
        ("ADD c INT FIRST, ADD d INT FIRST", "my_row_id d c a b"),
        ("ADD c INT AFTER my_row_id, MODIFY b VARCHAR(5) FIRST", "my_row_id b c a"),
        ("MODIFY a BIGINT FIRST, ADD x INT AFTER a", "my_row_id a x b"),
        ("ADD c INT FIRST, ALTER my_row_id SET VISIBLE", "my_row_id c a b"),
        (f"MODIFY {ROW_ID.replace('INV', 'V')}, ADD c INT FIRST", "my_row_id c a b"),
        (f"ADD c INT FIRST, MODIFY {ROW_ID} FIRST", "my_row_id c a b"),
        (f"CHANGE my_row_id {ROW_ID.upper()}, ADD c INT FIRST", "MY_ROW_ID c a b"),
        ("ADD c INT FIRST, ENGINE=InnoDB", "my_row_id c a b"),
        ("ADD c INT FIRST, ENGINE=MyISAM", "c my_row_id a b"),
        ("CONVERT TO CHARACTER SET latin1, ADD c INT FIRST", "my_row_id c a b"),
        ("ADD c INT FIRST, RENAME TO u", "my_row_id c a b"),
        ("DROP COLUMN my_row_id, ADD c INT FIRST", "c a b"),
        ("DROP my_row_id, ADD c INT FIRST, CHANGE a my_row_id INT", "my_row_id c b"),
        ("DROP my_row_id, ADD c INT FIRST, RENAME COLUMN b TO my_row_id", "my_row_id c a"),
        ("DROP my_row_id, CHANGE a my_row_id INT AFTER b, ADD c INT FIRST", "c b my_row_id"),
    ],
)
def test_first_is_behind_the_invisible_key(actions: str, want: str) -> None:
    assert order(actions, table(GENERATED)) == want


@pytest.mark.parametrize(
    "elements",
    [
        f"{ROW_ID} PRIMARY KEY, {REST}",
        f"MY_ROW_ID SERIAL INVISIBLE, {REST}, PRIMARY KEY (my_row_id)",
        f"my_row_id BIGINT ZEROFILL AUTO_INCREMENT INVISIBLE PRIMARY KEY, {REST}",
    ],
)
def test_a_key_that_is_written_alike_stays_first(elements: str) -> None:
    after = altered("ADD c INT FIRST", table(elements)).definition
    assert [c.name.lower() for c in after.columns] == ["my_row_id", "c", "a", "b"]
    assert after.primary_key == (0,)


@pytest.mark.parametrize(
    ("elements", "options"),
    [
        (f"my_row_id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, {REST}", ""),
        (f"my_row_id BIGINT AUTO_INCREMENT INVISIBLE PRIMARY KEY, {REST}", ""),
        (f"my_row_id INT UNSIGNED AUTO_INCREMENT INVISIBLE PRIMARY KEY, {REST}", ""),
        (f"my_row_id BIGINT UNSIGNED INVISIBLE PRIMARY KEY, {REST}", ""),
        (f"{ROW_ID} UNIQUE, {REST}", ""),
        (f"{ROW_ID}, a INT, PRIMARY KEY (my_row_id, a)", ""),
        (f"row_id {ROW_ID.removeprefix('my_row_id')} PRIMARY KEY, {REST}", ""),
        (GENERATED, "ENGINE=MyISAM"),
        (GENERATED, "PARTITION BY KEY (my_row_id) PARTITIONS 2"),
    ],
)
def test_a_visible_key_moves_behind_a_first_column(elements: str, options: str) -> None:
    before = table(elements, options)
    first = before.columns[0].name
    assert order("ADD c INT FIRST", before).split()[:2] == ["c", first]


def test_nothing_moves_if_the_invisible_key_is_not_first() -> None:
    assert order("ADD c INT FIRST", table(f"z INT, {ROW_ID} PRIMARY KEY")) == "c z my_row_id"
    partitioned = table(GENERATED, "PARTITION BY KEY (my_row_id) PARTITIONS 2")
    assert order("ADD c INT FIRST REMOVE PARTITIONING", partitioned) == "c my_row_id a b"


def test_the_engine_is_that_of_the_last_statement() -> None:
    other = altered("ENGINE=MyISAM", table(GENERATED)).definition
    assert TargetTable.from_json(other.to_json()).engine == other.engine == "MYISAM"
    assert order("ADD c INT FIRST", other) == "c my_row_id a b"
    again = altered("ENGINE=InnoDB, ADD d INT", other).definition
    assert order("ADD c INT FIRST", again) == "my_row_id c a b d"


def test_a_server_before_8_0_30_moves_the_invisible_key() -> None:
    assert order("ADD c INT FIRST", table(GENERATED), keeps_row_id=False) == "c my_row_id a b"


def test_a_table_created_by_its_rows_keeps_the_invisible_key() -> None:
    """A TABLE_MAP shows everything but AUTO_INCREMENT."""
    made = table(GENERATED)
    columns = tuple(replace(column, auto_increment=False) for column in made.columns)
    seen = replace(made, columns=columns, has_primary=None, unique=None, indexes=None)
    assert order("ADD c INT FIRST", seen) == "my_row_id c a b"

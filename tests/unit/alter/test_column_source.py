"""The source of each column's values for existing rows after ALTER TABLE."""

from __future__ import annotations

import pytest

from spark_repl.alter.alteration import (
    CarriedColumn,
    ColumnSource,
    ComputedValue,
    ConstantValue,
    CurrentTimestamp,
    UnknownValue,
)
from spark_repl.expressions.value_type import NULL_TYPE, Node
from spark_repl.sql.classify import classify
from tests.support.altered_table import BASE, altered, table

ORIGINS: list[tuple[str, ColumnSource]] = [
    ("INT", ConstantValue("NULL")),
    ("INT NOT NULL", ConstantValue("0")),
    ("INT DEFAULT 7", ConstantValue("7")),
    ("CHAR(3) NOT NULL", ConstantValue("'")),
    ("ENUM('q','r') NOT NULL", ConstantValue("'q")),
    ("DATE NOT NULL", ConstantValue("'0000-00-00")),
    ("JSON NOT NULL", ConstantValue("'null")),
    ("JSON DEFAULT (JSON_OBJECT())", ConstantValue("'{}")),
    ("TEXT DEFAULT ('x')", ConstantValue("'x")),
    ("DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", CurrentTimestamp()),
    ("INT DEFAULT (RAND())",
     UnknownValue("the default of column x is an expression: RAND() is not computed here")),
    ("INT AUTO_INCREMENT UNIQUE",
     UnknownValue("the numbers that column x gives to the rows that are there")),
    ("INT AS (c)", ComputedValue(Node("column", NULL_TYPE, detail=3), virtual=True)),
    ("INT AS (7) STORED", ConstantValue("7")),
    ("INT AS (ASCII(b))",
     UnknownValue("the values of the generated column x: ASCII() is not computed here")),
    ("POINT NOT NULL", UnknownValue("a NOT NULL column of type GEOMETRY has no default: x")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "want"), ORIGINS)
def test_where_a_new_column_comes_from(kind: str, want: ColumnSource) -> None:
    assert altered(f"ADD x {kind}").origins == (
        CarriedColumn(0),
        CarriedColumn(1),
        CarriedColumn(2),
        CarriedColumn(3),
        want,
    )


def test_a_generated_column_whose_input_changes_type_is_computed_again() -> None:
    before = table("id INT PRIMARY KEY, c INT, g INT AS (c + 1) STORED")
    found = altered("MODIFY c DECIMAL(5,1)", before)
    assert isinstance(found.origins[2], ComputedValue) and not found.origins[2].virtual
    assert altered("MODIFY c INT DEFAULT 3", before).origins == (
        CarriedColumn(0),
        CarriedColumn(1, written=True),
        CarriedColumn(2),
    )


def test_a_name_is_no_text_that_reads_the_same() -> None:
    before = table(f"{BASE}, d INT, g INT AS (a = 'd') STORED")
    kept, anew = (altered(f"MODIFY g INT AS (a = {one}) STORED", before) for one in ("'d'", "d"))
    assert type(kept.origins[-1]) is not type(anew.origins[-1])


def test_a_generated_column_of_other_columns_or_operators_is_computed_again() -> None:
    before = table("a INT, b INT, g INT AS ((a) + (b)) STORED, h INT AS (a) STORED")
    swapped = "RENAME COLUMN a TO b, RENAME COLUMN b TO a, "
    same, other = "MODIFY g INT AS (((a) + (b))) STORED", "MODIFY g INT AS ((a) - (b)) STORED"
    assert altered(same, before).origins[2] == CarriedColumn(2, written=True)
    assert isinstance(altered(other, before).origins[2], ComputedValue)
    assert isinstance(altered(swapped + same, before).origins[2], ComputedValue)


def test_a_constant_is_clipped_where_it_is_not_stored() -> None:
    strict = 1 << 21
    shown = altered("ADD x TINYINT AS (300) VIRTUAL", sql_mode=strict).origins[-1]
    stored = altered("ADD x TINYINT AS (300) STORED", sql_mode=strict).origins[-1]
    assert shown == ConstantValue("127") and isinstance(stored, UnknownValue)
    assert altered("ADD x TINYINT AS (300) STORED").origins[-1] == ConstantValue("127")


def test_timestamps_have_implicit_defaults_without_the_option() -> None:
    first = altered("ADD x TIMESTAMP, ADD y TIMESTAMP", explicit_timestamps=False)
    assert [c.nullable for c in first.definition.columns[-2:]] == [False, False]
    assert first.origins[-2:] == (CurrentTimestamp(), ConstantValue("'0000-00-00 00:00:00"))
    assert altered("ADD x TIMESTAMP").origins[-1] == ConstantValue("NULL")


def test_timestamps_of_servers_that_do_not_say_what_they_mean() -> None:
    """Servers before 8.0: by default a TIMESTAMP column is NOT NULL."""
    for clause in ("ADD x TIMESTAMP", "ADD x TIMESTAMP NOT NULL", "MODIFY a TIMESTAMP"):
        made = altered(clause, explicit_timestamps=None)
        (unknown,) = [one for one in made.origins if isinstance(one, UnknownValue)]
        assert "explicit_defaults_for_timestamp" in unknown.reason
    for clause in ("TIMESTAMP NULL", "TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00'"):
        assert isinstance(
            altered(f"ADD x {clause}", explicit_timestamps=None).origins[-1], ConstantValue
        )
    strict = altered("MODIFY id TIMESTAMP NOT NULL", explicit_timestamps=None)
    assert isinstance(strict.origins[0], CarriedColumn), "no NULL is there"
    created = classify("CREATE TABLE t (x TIMESTAMP)", "d").definition
    assert created and created.columns[0].default is None, "what an image without it means"

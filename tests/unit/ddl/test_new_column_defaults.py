"""What rows that are there get of a new column's default, and what an INSERT means that leaves it
out: the same, whatever the form in which the column is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.binlog.definition import TableDefinition
from spark_repl.binlog.types.forms import Forms
from spark_repl.ddl.alteration import Altered
from spark_repl.ddl.altered import alter
from spark_repl.ddl.defaults import literal
from spark_repl.ddl.effect import classify_in
from spark_repl.ddl.session import Session
from spark_repl.write.altered_rows import AlteredRows

SESSION = Session("g", sql_mode=1 << 22)


def altered(clause: str, forms: Forms) -> tuple[TableDefinition, Altered]:
    before = classify_in("CREATE TABLE x (i INT PRIMARY KEY)", SESSION).definition
    assert before is not None
    statement = classify_in(f"ALTER TABLE x ADD z {clause}", SESSION)
    assert statement.alteration is not None
    made = alter(before, statement, SESSION)
    return before, replace(made, definition=forms.apply(made.definition))


def values(clause: str, forms: Forms | None = None) -> Any:
    before, made = altered(clause, forms or Forms())
    rows = AlteredRows(before, made, SESSION).columns([pa.array([1], pa.int32())])
    return rows[-1][0].as_py()


@pytest.mark.parametrize(
    ("clause", "value"),
    [
        ('JSON DEFAULT (\'{"b": 1, "a":[1,2]}\')', '{"a": [1, 2], "b": 1}'),
        ("JSON AS ('{}') STORED", "{}"),
        ("JSON NOT NULL", "null"),
        ("DECIMAL(65,30) DEFAULT '1.5'", "1." + "5".ljust(30, "0")),
        ("DECIMAL(40,2) DEFAULT -0.001", "0.00"),
        ("DOUBLE DEFAULT -0.0", 0.0),
        ("VARCHAR(9) DEFAULT -0", "0"),
    ],
)
def test_rows_that_are_there(clause: str, value: Any) -> None:
    got = values(clause)
    assert str(got) == str(value)


@pytest.mark.parametrize(
    ("clause", "value"),
    [
        ("DECIMAL(65,30) DEFAULT '1.5'", "1." + "5".ljust(30, "0")),
        ("DECIMAL(40,2) DEFAULT -0.001", "0.00"),
        ("DOUBLE DEFAULT -0.0", "0.0"),
        ("VARCHAR(9) DEFAULT -0", "0"),
    ],
)
def test_an_insert_that_leaves_it_out(clause: str, value: str) -> None:
    _, made = altered(clause, Forms())
    assert str(literal(made.definition.columns[-1])[0].as_py()) == value


@pytest.mark.parametrize("clause", ["JSON NOT NULL", "JSON DEFAULT ('[1]')"])
def test_documents_as_variants(clause: str) -> None:
    got = values(clause, Forms(json_as="variant"))
    assert set(got) == {"value", "metadata"} and got["value"]

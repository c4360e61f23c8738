"""What rows that are there get of a new column's default, and what an INSERT means that leaves it
out: the same, whatever the form in which the column is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.alter.alteration import Altered, UnknownValue
from spark_repl.alter.apply_alter import alter
from spark_repl.alter.column_defaults import literal
from spark_repl.binlog.types.forms import Forms
from spark_repl.sql.classify import classify_in
from spark_repl.sql.session import Session
from spark_repl.tables.source_table import SourceTable
from tests.support.altered_table import altered_rows

_AT = 1_700_000_000_123_456  # 2023-11-14 22:13:20.123456 UTC
SESSION = Session("g", sql_mode=1 << 22, at=_AT, time_zone="+05:00")


def altered(clause: str, forms: Forms) -> tuple[SourceTable, Altered[SourceTable]]:
    before = classify_in("CREATE TABLE x (i INT PRIMARY KEY)", SESSION).definition
    assert before is not None
    statement = classify_in(f"ALTER TABLE x ADD z {clause}", SESSION)
    assert statement.alteration is not None
    made = alter(before, statement, SESSION)
    return before, replace(made, definition=forms.apply(made.definition))


def values(clause: str, forms: Forms | None = None, session: Session = SESSION) -> Any:
    before, made = altered(clause, forms or Forms())
    rows = altered_rows(before, made, session).columns([pa.array([1], pa.int32())])
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
def test_existing_rows_get_the_default(clause: str, value: Any) -> None:
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
def test_an_insert_without_the_column_gets_the_default(clause: str, value: str) -> None:
    _, made = altered(clause, Forms())
    assert str(literal(made.definition.columns[-1])[0].as_py()) == value


@pytest.mark.parametrize("clause", ["JSON NOT NULL", "JSON DEFAULT ('[1]')"])
def test_a_json_default_is_a_variant_if_json_is_kept_as_variant(clause: str) -> None:
    got = values(clause, Forms(json_as="variant"))
    assert set(got) == {"value", "metadata"} and got["value"]


@pytest.mark.parametrize(
    ("clause", "value"),
    [
        ("DATE DEFAULT (CURRENT_DATE)", "2023-11-15"),
        ("DATE DEFAULT ((current_date()))", "2023-11-15"),
        ("DATE NOT NULL DEFAULT (CURDATE())", "2023-11-15"),
        ("DATETIME DEFAULT (NOW())", "2023-11-15 03:13:20"),
        ("DATETIME(3) DEFAULT (LOCALTIMESTAMP(3))", "2023-11-15 03:13:20.123000"),
        ("DATETIME(6) DEFAULT (CURRENT_TIMESTAMP(6))", "2023-11-15 03:13:20.123456"),
        ("TIMESTAMP NULL DEFAULT (now(0))", "2023-11-14 22:13:20+00:00"),
    ],
)
@pytest.mark.parametrize("zero_dates", ["error", "string"])
def test_a_default_of_now_is_the_statements_time(clause: str, value: str, zero_dates: str) -> None:
    got = str(values(clause, Forms(zero_dates=zero_dates)))
    same = got == value if zero_dates == "error" else got[:16] == value[:16]
    assert same, got


@pytest.mark.parametrize("zone", ["SYSTEM", "", "+05:00"])
def test_a_timestamp_needs_no_time_zone(zone: str) -> None:
    """It is of UTC: also as a text, and where the session's zone is not known."""
    session = replace(SESSION, time_zone=zone)
    clause, forms = "TIMESTAMP(2) NOT NULL DEFAULT NOW(2)", Forms(zero_dates="string")
    assert values(clause, forms, session) == "2023-11-14 22:13:20.12"
    assert str(values(clause, session=session)) == "2023-11-14 22:13:20.120000+00:00"


@pytest.mark.parametrize(
    "clause",
    [
        "DATETIME DEFAULT (CURRENT_DATE)", "DATE DEFAULT (NOW())", "DATETIME DEFAULT (NOW(3))",
        "DATETIME(3) DEFAULT (NOW())", "VARCHAR(30) DEFAULT (CURDATE())",
        "DATETIME DEFAULT (UTC_TIMESTAMP())", "DATE DEFAULT (CURRENT_DATE + INTERVAL 1 DAY)",
    ],
)  # fmt: skip
def test_moments_that_are_not_computed(clause: str) -> None:
    _, made = altered(clause, Forms())
    assert isinstance(made.origins[-1], UnknownValue)

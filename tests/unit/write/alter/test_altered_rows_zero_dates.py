"""ALTER TABLE over NULL dates that may be zero dates of the source (zero_dates = "null")."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.alter.apply_alter import alter
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import Unconvertible
from spark_repl.sql.classify import classify_in
from spark_repl.sql.session import Session
from spark_repl.write.alter.altered_rows import without_zero_dates
from tests.support.altered_table import altered_rows

SESSION = Session("d", time_zone="+00:00", charsets={"d": "utf8mb4_0900_ai_ci"})


def rows_after(day: date | None, actions: str) -> list[Any]:
    """Return the columns [3 or 2] of a row (1, day) after the statement."""
    made = classify_in("CREATE TABLE t (i INT PRIMARY KEY, d DATE)", SESSION).definition
    assert made is not None
    before = Forms(zero_dates="null").apply(made)
    statement = classify_in(f"ALTER TABLE t {actions}", SESSION)
    altered = without_zero_dates(alter(before, statement, SESSION))
    arrays = [pa.array([1], pa.int32()), pa.array([day], pa.date32())]
    return [one[0].as_py() for one in altered_rows(before, altered, SESSION).columns(arrays)]


READING = {
    "ADD g INT AS (YEAR(d)) STORED": [1, date(2024, 2, 29), 2024],
    "ADD g INT AS (IF(d IS NULL, 1, 2)) VIRTUAL": [1, date(2024, 2, 29), 2],
    "MODIFY d INT": [1, 20240229],
    "MODIFY d VARCHAR(20)": [1, "2024-02-29"],
}


@pytest.mark.parametrize("actions", READING)
def test_a_null_date_that_may_be_a_zero_date_stops_the_statement(actions: str) -> None:
    with pytest.raises(Unconvertible, match="a NULL of d may stand for a zero date") as caught:
        rows_after(None, actions)
    assert "copy the table" in str(caught.value.hint)


@pytest.mark.parametrize("actions", READING)
def test_dates_that_are_not_null_are_converted(actions: str) -> None:
    assert rows_after(date(2024, 2, 29), actions) == READING[actions]


@pytest.mark.parametrize("actions", ["MODIFY d DATETIME(2)", "ADD g INT AS (i + 1) STORED"])
def test_a_null_date_that_no_expression_needs_stays(actions: str) -> None:
    assert rows_after(None, actions)[1] is None

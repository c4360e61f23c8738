"""Which rows a partition has: row by row, and by what is known of a whole file."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_repl.alter.partition_rows import PartitionRows
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import StatementError
from spark_repl.write.alter.altered_rows import without_zero_dates
from tests.support.partitioned import LADDER, altered, made


def rows(clause: str, wanted: str, form: str = "error") -> PartitionRows:
    before = Forms(zero_dates=form).apply(made(clause))
    found = altered(before, f"DROP PARTITION {wanted}")
    assert found.gone is not None, found.rows_go
    return found.gone


DAY = datetime.date(2026, 1, 1)
DAYS = "(PARTITION a VALUES LESS THAN ('2026-01-01'), PARTITION b VALUES LESS THAN (MAXVALUE))"


@pytest.mark.parametrize(
    ("clause", "values", "kind", "wanted"),
    [
        (LADDER, [None, -1, 9, 10, 19, 20], "int32", "TTTFFF"),
        ("RANGE (big) (PARTITION a VALUES LESS THAN (18446744073709551600), PARTITION b VALUES"
         " LESS THAN MAXVALUE)", [None, 0, 18446744073709551599, 18446744073709551600], "big",
         "TTTF"),
        ("RANGE (u) (PARTITION a VALUES LESS THAN (18446744073709551615))", [None, 4294967295],
         "big", "TT"),
        (f"RANGE COLUMNS (d) {DAYS}", [None, DAY - datetime.timedelta(1), DAY], "date", "TTF"),
        ("RANGE (YEAR(d)) (PARTITION a VALUES LESS THAN (2026), PARTITION b VALUES LESS THAN"
         " MAXVALUE)", [None, DAY - datetime.timedelta(1), DAY], "date", "TTF"),
        ("LIST (id) (PARTITION b VALUES IN (7, -1), PARTITION a VALUES IN (3, NULL))",
         [None, 3, 7, -1], "int32", "TTFF"),
        ("LIST COLUMNS (c) (PARTITION a VALUES IN ('Ab', 'c', NULL), PARTITION b VALUES IN ('d'))",
         [None, "Ab", "aB", "C ", "D"], "text", "TTTTF"),
    ],
)  # fmt: skip
def test_each_row_is_in_the_partition_of_its_values(
    clause: str, values: list[object], kind: str, wanted: str
) -> None:
    types = {
        "int32": pa.int32(), "big": pa.decimal128(20, 0), "date": pa.date32(), "text": pa.string(),
    }  # fmt: skip
    found = rows(clause, "a").of_rows([pa.array(values, types[kind])], len(values))
    assert "".join("FT"[int(one)] for one in found) == wanted


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        ("RANGE COLUMNS (id, d) (PARTITION b VALUES LESS THAN (1, '2026-01-01'), PARTITION a VALUES"
         " LESS THAN (1, MAXVALUE), PARTITION c VALUES LESS THAN (MAXVALUE, MAXVALUE))", "FFTTFF"),
        ("LIST COLUMNS (id, d) (PARTITION a VALUES IN ((1, '2026-01-01'), (NULL, '2026-01-01'),"
         " (9, '2026-01-01')), PARTITION b VALUES IN ((1, '2025-12-31'), (1, '2026-01-02'),"
         " (2, NULL)))", "TFTFTF"),
        ("RANGE COLUMNS (id, d) (PARTITION a VALUES LESS THAN (-5, MAXVALUE), PARTITION b VALUES"
         " LESS THAN (MAXVALUE, '2026-01-01'))", "TFFFFF"),
        ("LIST COLUMNS (id, d) (PARTITION b VALUES IN ((NULL, '2026-01-01'), (1, '2025-12-31'),"
         " (1, '2026-01-01'), (1, '2026-01-02'), (2, NULL)), PARTITION a VALUES IN"
         " ((0, '2026-01-01'), (9, '2026-01-01'), (2, '1970-01-01')))", "FFFFTF"),
    ],
)  # fmt: skip
def test_rows_are_in_partitions_of_several_columns(clause: str, wanted: str) -> None:
    days = [DAY, *(DAY + datetime.timedelta(n) for n in (-1, 0, 1, 0)), None]
    arrays = [pa.array([None, 1, 1, 1, 9, 2], pa.int32()), pa.array(days, pa.date32())]
    found = rows(clause, "a").of_rows(arrays, len(days))
    assert "".join("FT"[int(one)] for one in found) == wanted


def test_a_row_of_no_partition_is_an_error() -> None:
    """What is known of the partitions is not what they are."""
    listed = "LIST (id) (PARTITION a VALUES IN (1), PARTITION b VALUES IN (2))"
    below = "RANGE (id) (PARTITION a VALUES LESS THAN (1), PARTITION b VALUES LESS THAN (9))"
    texts = "LIST COLUMNS (c) (PARTITION a VALUES IN ('e'), PARTITION b VALUES IN ('ü'))"
    for clause, value in ((listed, 3), (listed, None), (below, 9), (texts, "é"), (texts, "E")):
        with pytest.raises(StatementError, match="none of the partitions"):
            rows(clause, "a").of_rows([pa.array([value])], 1)


def test_dates_that_no_calendar_has() -> None:
    columns = rows(f"RANGE COLUMNS (m) {DAYS}", "a", "string")
    said = (
        "0000-00-00 00:00:00",
        "2025-12-31 23:59:59",
        "2026-01-00 00:00:00",
        "2026-01-01 00:00:00",
    )
    texts = pa.array([f"{text}.000" for text in said])
    assert columns.of_rows([texts], 4).tolist() == [True, True, True, False]
    clause = "(PARTITION a VALUES LESS THAN (9), PARTITION b VALUES LESS THAN (MAXVALUE))"
    of_function = rows(f"RANGE (TO_DAYS(m)) {clause}", "a", "string")
    with pytest.raises(StatementError, match="no calendar"):
        of_function.of_rows([texts], 4)
    with pytest.raises(StatementError, match="no calendar"):
        of_function.of_rows([pa.array(["0000-01-01 00:00:00.000"])], 1)
    by_day = rows(
        "RANGE (TO_DAYS(m)) (PARTITION a VALUES LESS THAN (TO_DAYS('2026-01-01')), PARTITION b"
        " VALUES LESS THAN (MAXVALUE))", "a", "string",
    )  # fmt: skip
    days = pa.array(["2025-12-31 23:59:59.999", "2026-01-01 00:00:00.000", None])
    assert by_day.of_rows([days], 3).tolist() == [True, False, True]
    nulls = without_zero_dates(altered(made(f"RANGE COLUMNS (d) {DAYS}"), "DROP PARTITION a")).gone
    assert nulls is not None
    with pytest.raises(StatementError, match="zero_dates"):
        nulls.of_rows([pa.array([None], pa.date32())], 1)
    assert nulls.of_rows([pa.array([DAY])], 1).tolist() == [False]
    assert nulls.of_range(pa.array([DAY, DAY]), nulls=True) is None


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("RANGE COLUMNS (c) (PARTITION a VALUES LESS THAN ('x'))", "VARCHAR"),
        ("RANGE (n) (PARTITION a VALUES LESS THAN (1))", "DECIMAL"),
        ("LIST COLUMNS (e) (PARTITION a VALUES IN ('a'))", "ENUM"),
        ("RANGE (TO_DAYS(ts)) (PARTITION a VALUES LESS THAN (1))", r"TO_DAYS\(ts\)"),
        ("RANGE COLUMNS (d) (PARTITION a VALUES LESS THAN ('2026-01-01 10:00:00'))", "more digits"),
        ("RANGE COLUMNS (m) (PARTITION a VALUES LESS THAN ('2026-01-01 10:00:00.1234'))", "digits"),
        ("RANGE COLUMNS (d) (PARTITION a VALUES LESS THAN (20260101))", "20260101"),
        ("RANGE (id) (PARTITION a VALUES LESS THAN ('7'))", "'7'"),
    ],
)
def test_columns_and_bounds_that_are_not_known(clause: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        rows(clause, "a")


@pytest.mark.parametrize(
    ("low", "high", "nulls", "wanted"),
    [(0, 9, False, True), (0, 9, True, True), (9, 10, False, None), (10, 19, False, False),
     (10, 19, True, None), (5, 25, False, None), (20, 99, False, False)],
)  # fmt: skip
def test_a_files_bounds_tell_whether_its_rows_are_in_the_partition(
    low: int, high: int, nulls: bool, wanted: bool | None
) -> None:
    assert rows(LADDER, "a").of_range(pa.array([low, high]), nulls=nulls) is wanted
    listed = "LIST (id) (PARTITION a VALUES IN (0, 5, 9, NULL), PARTITION b VALUES IN (10, 19))"
    if high < 20:
        assert rows(listed, "a").of_range(pa.array([low, high]), nulls=nulls) is wanted


@pytest.mark.parametrize(
    ("low", "high", "nulls"), [(20, 30, False), (15, 20, False), (1, 4, False), (0, 9, True)]
)
def test_a_file_with_rows_of_no_known_partition_is_looked_into(
    low: int, high: int, nulls: bool
) -> None:
    below = "RANGE (id) (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))"
    listed = "LIST (id) (PARTITION a VALUES IN (0, 5, 9), PARTITION b VALUES IN (10))"
    clause = below if high > 10 else listed
    assert rows(clause, "a").of_range(pa.array([low, high]), nulls=nulls) is None


def test_bounds_say_nothing_of_what_is_in_another_order() -> None:
    week, later = DAY - datetime.timedelta(7), DAY + datetime.timedelta(31)
    by_day = rows("LIST (DAY(d)) (PARTITION a VALUES IN (1), PARTITION b VALUES IN (2))", "a")
    assert by_day.of_range(pa.array([DAY, later]), nulls=False) is None
    texts = rows("LIST COLUMNS (c) (PARTITION a VALUES IN ('1', '3'))", "a")
    assert texts.of_range(pa.array(["1", "3"]), nulls=False) is None
    columns = f"RANGE (YEAR(d)) {DAYS}".replace("'2026-01-01'", "2026")
    by_year = rows(columns, "a")
    assert by_year.of_range(pa.array([week, week]), nulls=True) is True
    assert by_year.of_range(pa.array([DAY, later]), nulls=False) is False
    assert replace(by_year, no_nulls=True).of_range(pa.array([week, week]), nulls=True) is None
    assert replace(by_year, no_nulls=True).of_range(pa.array([week, week]), nulls=False) is True
    days = pa.array(["2025-01-01", "2025-12-31"])
    assert rows(columns, "a", "string").of_range(days, nulls=False) is None, "2025-02-00 between?"

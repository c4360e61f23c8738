"""Expressions of generated columns and defaults: how they are read, what they come to, and what is
not computed, by name; ``live`` asks a server."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.alter.alteration import Altered, CarriedColumn, ComputedValue, UnknownValue
from spark_repl.alter.apply_alter import alter
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import NotComputed, Unconvertible
from spark_repl.expressions.expression_reader import (
    HIGH_NOT_PRECEDENCE,
    PIPES_AS_CONCAT,
    read_expression,
)
from spark_repl.expressions.syntax import Syntax
from spark_repl.sql.classify import Effect, classify_in
from spark_repl.sql.session import Session
from spark_repl.tables.source_table import SourceTable
from tests.support.altered_table import altered_rows

STRICT, UNSIGNED_SUBTRACTION, PAD_CHAR = 1 << 21, 1 << 6, 1 << 31
TRUNCATING = 1 << 32
SESSION = Session(
    "d", 0, 1_700_000_000_000_000, "+00:00", True, charsets={"d": "utf8mb4_0900_ai_ci"}
)
COLUMNS = (
    "n INT, u BIGINT UNSIGNED, d DECIMAL(10,2), s VARCHAR(20), k VARCHAR(20) COLLATE"
    " utf8mb4_turkish_ci, c CHAR(3), da DATE, ts TIMESTAMP NULL, j JSON, z INT ZEROFILL, y YEAR,"
    " g INT AS (n + 1) STORED, e ENUM('a','b'), dt DATETIME(4), f FLOAT, b BIT(8), l VARCHAR(20)"
    " CHARACTER SET latin1, us VARCHAR(20) CHARACTER SET utf16, mx ENUM('a ') CHARACTER SET binary,"
    " bn VARBINARY(9)"
)
ROW = {
    "n": 7, "u": Decimal(2**64 - 1), "d": Decimal("2.50"), "s": "aXb", "k": "i", "c": "x",
    "da": 19_782, "ts": 1_700_000_000_000_000, "j": '{"a": [1, "x"]}', "z": 5, "y": 2024, "g": 8,
    "e": "b",
}  # fmt: skip


def table(columns: str = COLUMNS, forms: Forms = Forms()) -> SourceTable:  # noqa: B008
    found = classify_in(f"CREATE TABLE t (i INT PRIMARY KEY, {columns})", SESSION).definition
    assert found is not None
    return forms.apply(found)


def altered(
    actions: str, sql_mode: int = 0, before: SourceTable | None = None, **said: Any
) -> Altered[SourceTable]:
    session = replace(SESSION, sql_mode=sql_mode, **said)
    statement = classify_in(f"ALTER TABLE t {actions}", session)
    assert statement.effect is not Effect.UNSUPPORTED, statement.reason
    return alter(before or table(), statement, session)


def row(before: SourceTable, values: dict[str, Any]) -> list[pa.Array]:
    """One row of the table; what is not said is NULL."""
    given = {"i": 1, **values}
    arrays = []
    for column in before.columns:
        value = given.get(column.name)
        kind = column.arrow_type
        of_days = isinstance(value, int) and kind == pa.date32()
        array = pa.array([value], pa.int32() if of_days else None)
        arrays.append(array.cast(kind))
    return arrays


def value(clause: str, sql_mode: int = 0, **values: Any) -> Any:
    """What the row has in a new column."""
    before = table()
    found = altered(f"ADD x {clause}", sql_mode, before)
    assert isinstance(found.origins[-1], ComputedValue), found.origins[-1]
    found = pickle.loads(pickle.dumps(found))  # as workers get it
    session = replace(SESSION, sql_mode=sql_mode)
    return altered_rows(before, found, session).columns(row(before, ROW | values))[-1][0].as_py()


def reason(clause: str, sql_mode: int = 0, **said: Any) -> str:
    origin = altered(f"ADD x {clause}", sql_mode, **said).origins[-1]
    assert isinstance(origin, UnknownValue), origin
    return origin.reason


VALUES = [
    ("INT AS (n + 1)", 8),
    ("INT AS (n + 1) STORED", 8),
    ("INT DEFAULT (n * 2)", 14),
    ("BIGINT AS (-n DIV 2)", -3),
    ("DECIMAL(20,10) AS (n / 3)", Decimal("2.3333000000")),
    ("DECIMAL(20,12) AS (CAST(2 AS DECIMAL(10,5)) / 3)", Decimal("0.666666666000")),
    ("DECIMAL(8,4) AS (d % 0.7)", Decimal("0.4000")),
    ("BIGINT UNSIGNED AS (u)", Decimal(2**64 - 1)),
    ("BIGINT UNSIGNED AS (~n)", Decimal(2**64 - 8)),
    ("BIGINT UNSIGNED AS (u - 0.5)", Decimal(2**64 - 1)),
    ("SMALLINT AS (n * 10000)", 32767),
    ("VARCHAR(2) AS (CONCAT(s, n))", "aX"),
    ("VARCHAR(40) AS (LOWER(CONCAT_WS('-', s, NULL, da)))", "axb-2024-02-29"),
    ("VARCHAR(40) AS (CONCAT(d / 3, '|'))", "0.833333|"),
    ("VARCHAR(40) AS (IF(n > 5 AND NOT n IS NULL, 'big', 'small'))", "big"),
    ("VARCHAR(40) AS (CASE n WHEN 1 THEN 'a' WHEN 7 THEN 'b' END)", "b"),
    ("VARCHAR(40) AS (j->>'$.a[1]')", "x"),
    ("JSON AS (j->'$.a')", '[1, "x"]'),
    ("VARCHAR(40) AS (MD5('abc'))", "900150983cd24fb0d6963f7d28e17f72"),
    ("VARCHAR(40) AS (SHA1('abc'))", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    ("CHAR(7) AS (da + INTERVAL 1 YEAR)", "2025-02"),
    ("CHAR(10) AS (da + INTERVAL 2 WEEK)", "2024-03-14"),
    ("INT AS (g + x2) STORED, ADD x2 INT DEFAULT (n), ADD w INT AS (x) STORED", 15),
    ("INT AS (NULL + 1)", None),
    ("VARCHAR(9) AS (s <=> NULL)", "0"),
    ("INT AS (HOUR(ts)) STORED", 22),
    ("INT, ADD w TIMESTAMP AS (ts) VIRTUAL", datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
    ("INT AS (IF(n < 0, u * 2, 1))", 1),
    ("DECIMAL(22,2) AS (GREATEST(-2.50, u DIV 1))", Decimal(2**64 - 1)),
    ("INT AS (s = 'other')", 0),
    ("INT AS (s = 'aXb')", 1),
    ("INT AS (IF(n < 0, s = 'q', 3))", 3),
    ("INT AS ('a[Xb]-^' <> s)", 1),
    ("INT AS ('' = s)", 0),
    ("INT AS (j->>'$.a[1]' = 'X')", 0),
    ("INT AS (j->>'$.a[1]' = 'x  ')", 1),
    ("INT AS (NULLIF(s, 'q') IS NULL)", 0),
    ("VARCHAR(9) AS (e)", "b"),
    ("INT AS (WEEK(da, 1) * 10 + WEEKOFYEAR(da))", 99),
    ("INT AS (YEARWEEK(da))", 202408),
    ("BIGINT UNSIGNED AS ((n % 5) | 8)", Decimal(10)),
    ("INT AS (n % u - 9)", -2),
    ("INT AS ((n = '7') + 2 * (-n = '-7') + 4 * (n = '-7'))", 3),
    ("BIGINT AS (FLOOR(CAST(n / 2 AS DECIMAL(19,2))))", 3),
    ("BIGINT AS (CAST(NULLIF(s, 'aXb') AS SIGNED))", None),
    ("INT AS (n * 1000000000.5)", 2**31 - 1),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "want"), VALUES)
def test_each_expression_has_the_servers_value(clause: str, want: Any) -> None:
    assert value(clause) == want


UNCOMPUTED = [
    ("INT AS (ASCII(s))", "ASCII() is not computed here"),
    ("INT AS (n > ALL (1))", "ALL() is not computed here"),
    ("INT AS (s LIKE 'a%')", "LIKE of text whose collation is not known is not computed here"),
    ("INT AS (s < 'b')", "an order of TEXT of text whose collation is not known is not computed"),
    ("INT DEFAULT (UUID())", "UUID() is not computed here"),
    # The server takes dates for doubles there, and its operators take them for exact numbers.
    ("BIGINT AS (-da)", "NEGATE of a date or time is not computed here"),
    ("BIGINT AS (ABS(dt))", "ABS of a date or time is not computed here"),
    ("DECIMAL(30,10) AS (ABS(da) / 7)", "ABS of a date or time is not computed here"),
    ("BIGINT AS (ROUND(da, 1))", "ROUND of a date or time is not computed here"),
    ("BIGINT AS (TRUNCATE(dt, 1))", "TRUNCATE of a date or time is not computed here"),
    ("VARCHAR(9) AS (CEIL(da))", "CEIL of a date or time is not computed here"),
    ("BIGINT AS (FLOOR(dt + 0))", "FLOOR of a date or time is not computed here"),
    ("BIGINT AS (ABS(DATE'2024-02-01'))", "ABS of a date or time is not computed here"),
    ("VARCHAR(9) AS (UPPER(e))", "UPPER of text in a character set that is not known"),
    ("VARCHAR(9) AS (LOWER(CONCAT(mx, 'A')))", "LOWER of text in a character set"),
    ("VARCHAR(9) AS (COALESCE(bn, 0))", "branches of bytes and numbers or dates"),
    ("TEXT DEFAULT (IFNULL(bn, da))", "branches of bytes and numbers or dates"),
    ("VARCHAR(9) AS (UPPER(k))", "UPPER by a Turkish collation is not computed here"),
    ("INT AS (HOUR(ts))", "what ts is depends on the time zone of who reads it"),
    ("TIMESTAMP AS (da)", "it is depends on the time zone of who reads it"),
    ("VARCHAR(9) AS (CONCAT(z))", "ZEROFILL as text is not computed here"),
    ("INT AS (y = 24)", "a comparison of YEAR with two digits is not computed here"),
    ("INT AS (e + 1)", "ENUM and SET as numbers are not computed here"),
    ("VARCHAR(9) AS (n / 1e0)", "REAL in a column of TEXT is not computed here"),
    ("ENUM('a') AS (n + 1)", "INTEGER in a column of ENUM is not computed here"),
    ("DECIMAL(65,30) AS (0.0000000000000001 * 0.0000000000000001)", "so many digits"),
    ("INT AS (j->'$.*')", "a JSON path with such parts is not computed here"),
    ("INT AS (n COLLATE utf8mb4_bin)", "COLLATE is not computed here"),
    ("INT AS (WEEK(da))", "WEEK() without a mode depends on default_week_format"),
    ("INT AS (WEEK(da, n))", "WEEK with such a mode is not computed here"),
    ("VARCHAR(9) AS (DEFAULT(n + 1))", "DEFAULT() is not understood"),
    (
        "INT AS (DEFAULT(da)), ALTER da SET DEFAULT '2024-01-01'",
        "DEFAULT() of what is no integer or double",
    ),
    ("INT AS (DEFAULT(x2)), ADD x2 DOUBLE DEFAULT 1e300 FIRST", "DEFAULT() of what is no number"),
    ("INT AS (q + 1)", "there is no column q"),
    (f"INT AS ({'~' * 3000}n)", "it is too deep"),
    ("INT AS (IFNULL(e, 'a'))", "ENUM and SET as numbers are not computed here"),
    ("INT AS (n / CAST(n AS DECIMAL(65)))", "a quotient of so many digits"),
    ("INT AS (CAST(n AS DECIMAL(65,30)) = CAST(n AS DECIMAL(65,0)))",
     "a comparison of numbers of so many digits"),
    ("DOUBLE AS (n + -18446744073709551615)", "a number of so many digits is not computed"),
    ("BIGINT AS (FLOOR(CAST(n AS DECIMAL(20,2))))", "FLOOR of a number of so many digits"),
    ("INT AS (ROUND(d, n))", "ROUND to digits that are no plain number"),
    ("INT AS (ROUND(n, -1))", "ROUND in front of the point"),
    ("INT AS (ROUND(d, -1))", "ROUND in front of the point"),
    ("INT AS (SQRT(n, n))", "SQRT of 2 values"),
    ("INT AS (LEFT(s))", "LEFT of 1 values is not understood"),
    ("INT AS (LEFT(s, d))", "a number of characters that is no integer"),
    ("DECIMAL(9,2) AS (CAST(s AS DECIMAL(9,2)))", "CAST of text AS DECIMAL"),
    ("TIME AS (CAST(s AS TIME))", "CAST AS TIME is not computed here"),
    ("BIGINT AS (CAST(CAST(da AS DATETIME(2)) AS SIGNED))", "CAST of a fraction of seconds"),
    ("INT AS (n = 'x')", "a comparison with such a text"),
    ("INT AS (n IN ())", "IN () is not understood"),
    ("INT AS (n IS 7)", "IS is not understood before ?"),
    ("INT AS (s REGEXP 'a')", "REGEXP is not computed here"),
    ("INT AS (n n)", "it is not understood from n"),
    ("INT AS (LEFT(s s, 1))", "it is not understood from s"),
    ("INT AS (n + , 1)", "it is not understood from ,"),
    ("INT AS (n IN 7)", "( expected before ?"),
    # What the server assigns otherwise than MODIFY converts it (9.7.4).
    ("VARCHAR(9) AS (d * n)", "DECIMAL in a column of TEXT is not computed here"),
    ("VARBINARY(9) AS (d - d)", "DECIMAL in a column of BYTES is not computed here"),
    ("VARCHAR(9) AS (n / 3)", "DECIMAL in a column of TEXT"),
    ("TEXT AS (ABS(d * n))", "DECIMAL in a column of TEXT"),
    ("CHAR(9) AS (IF(n > 1, d * n, d))", "DECIMAL in a column of TEXT"),
    ("CHAR(9) DEFAULT (CASE WHEN n > 0 THEN d * n ELSE d - d END)", "DECIMAL in a column of TEXT"),
    ("VARCHAR(30) AS (dt + 0)", "DECIMAL in a column of TEXT"),
    ("VARCHAR(30) AS (CONCAT(dt + 0))", "DECIMAL as text is not computed here"),
    ("ENUM('0','1') AS (n)", "INTEGER in a column of ENUM is not computed here"),
    ("SET('0','1') AS (n) VIRTUAL", "INTEGER in a column of SET"),
    ("ENUM('0','1') DEFAULT (d)", "DECIMAL in a column of ENUM"),
    ("SET('0','1') AS (f)", "REAL in a column of SET"),
    ("ENUM('x','2020') AS (y)", "INTEGER in a column of ENUM"),
    ("YEAR AS (da)", "DATE in a column of YEAR"),
    ("YEAR AS (f)", "REAL in a column of YEAR"),
    ("YEAR AS (s)", "TEXT in a column of YEAR"),
    ("BIT(64) AS (da)", "DATE in a column of BIT"),
    ("BIT(8) AS (d)", "DECIMAL in a column of BIT"),
    ("BIT(8) AS (s)", "TEXT in a column of BIT"),
    ("VARCHAR(30) AS (f)", "REAL in a column of TEXT"),
    ("VARCHAR(4) AS (y)", "how such a number is printed is not known"),
    ("VARBINARY(4) AS (b)", "how such a number is printed is not known"),
    ("INT AS (e)", "ENUM and SET as numbers are not computed here"),
    ("VARCHAR(9) CHARACTER SET utf16 AS (mx)", "an unknown character set in wide letters"),
    ("VARBINARY(99) AS (CONCAT(us, s))", "text of wide letters beside other text"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "want"), UNCOMPUTED)
def test_an_expression_that_is_not_computed_has_a_reason(clause: str, want: str) -> None:
    said = reason(clause)
    assert want in said
    assert said.startswith(("the values of the generated column x: ", "the default of column x"))


WEEKS = {  # WEEK() and YEARWEEK() by modes from 0 to 7, as 9.7.4 has them
    "2023-01-01": (1, 0, 1, 52, 1, 0, 1, 52, 202301, 202252, 202301, 202252),
    "2024-12-30": (52, 53, 52, 1, 53, 53, 1, 53,
                   202452, 202501, 202452, 202501, 202501, 202453, 202501, 202453),
    "2021-01-03": (1, 0, 1, 53, 1, 0, 1, 52, 202101, 202053, 202101, 202053, 202101, 202052),
    "2008-12-29": (52, 53, 52, 1, 53, 52, 53, 52, 200852, 200901, 200852, 200901, 200853, 200852),
}  # fmt: skip


@pytest.mark.parametrize(("day", "want"), WEEKS.items())
def test_weeks_have_the_servers_numbers_in_each_mode(day: str, want: tuple[int, ...]) -> None:
    days = datetime.fromisoformat(f"{day}T00:00:00+00:00").toordinal() - 719_163
    calls = [f"{name}(da, {mode})" for name in ("WEEK", "YEARWEEK") for mode in range(8)]
    found = [value(f"INT AS ({call})", da=days) for call in calls[: len(want)]]
    assert tuple(found) == want


def test_the_default_of_another_column_is_followed() -> None:
    """It changes with that, in rows that are there too."""
    assert value("INT AS (DEFAULT(n)) STORED") is None
    added = altered("ALTER n SET DEFAULT 7, ADD x INT AS (1 + DEFAULT(n)) STORED")
    (last,) = altered_rows(table(), added, SESSION).columns(row(table(), ROW))[-1:]
    assert last.to_pylist() == [8]
    again = altered("ALTER n SET DEFAULT 20", 0, added.definition)
    assert isinstance(again.origins[-1], ComputedValue)
    values = row(added.definition, ROW | {"x": 8})
    assert altered_rows(added.definition, again, SESSION).columns(values)[-1].to_pylist() == [21]
    assert isinstance(altered("ADD w INT", 0, added.definition).origins[-2], CarriedColumn)
    real = altered("MODIFY n DOUBLE DEFAULT 5", 0, added.definition)
    assert altered_rows(added.definition, real, SESSION).columns(values)[-1].to_pylist() == [6]


REFUSED = [
    ("INT AS (u + 1)", {}, "BIGINT UNSIGNED value is out of range"),
    ("INT AS (u % n - 9)", {}, "BIGINT UNSIGNED value is out of range"),
    ("INT AS (s = 'axB')", {}, "depends on the collation"),
    ("INT AS (s = 'axb ')", {"s": "axb"}, "depends on the collation"),
    ("INT AS (s = 'cscs')", {"s": "ccs"}, "depends on the collation"),
    ("VARCHAR(9) AS (UPPER(s))", {"s": "ſ"}, "depends on the collation"),
    ("VARCHAR(80) AS (HEX(CONCAT(e, '')))", {"e": "ä"}, "which is not known"),
    ("INT AS (CHAR_LENGTH(e))", {"e": "ä"}, "that is not known"),
    ("VARCHAR(9) AS (LEFT(CONCAT(e, 'a'), 1))", {"e": "ä"}, "that is not known"),
    ("VARCHAR(9) AS (REVERSE(e))", {"e": "ä"}, "that is not known"),
    ("VARCHAR(80) AS (HEX(CONCAT(l, s)))", {"s": "ä", "l": "x"}, "depend on the connection"),
    ("VARCHAR(9) AS (SUBSTRING_INDEX(s, '--', -1))", {"s": "a---b"}, "that overlap themselves"),
    ("VARCHAR(9) AS (SUBSTRING_INDEX(s, 'aba', n))", {"n": -2}, "that overlap themselves"),
    ("DOUBLE AS (1e308 * n)", {}, "DOUBLE value is out of range"),
    ("DATE AS (da - INTERVAL 5000 YEAR)", {}, "before the year 1"),
    ("DOUBLE AS (POW(n, 0.5))", {}, "machine"),
    ("INT AS (j->'$.a')", {}, "as a number"),
    ("INT AS (j->'$.a')", {"j": '{"a": 1.5}'}, "no whole number of 18 digits"),
    ("BIGINT AS (CAST(n * 1e18 AS SIGNED))", {"n": 10}, "no room in 64 bits"),
    ("BIGINT AS (CAST(n * 1e0 AS UNSIGNED))", {"n": -1}, "no room in 64 bits"),
    ("BIGINT AS (CAST(n * 9999999999999999999.5 AS SIGNED))", {}, "no room in 64 bits"),
    ("BIGINT AS (n * 1e19)", {}, "a double beyond 64 bits"),
    ("DATETIME AS (CAST('9999-12-31 23:59:59.9' AS DATETIME) + INTERVAL n DAY)", {}, "year 10000"),
    ("VARCHAR(9) AS (LPAD(s, 9, ''))", {}, "pads"),
    ("FLOAT AS (GREATEST(f, d))", {"f": -0.0, "d": Decimal(0)}, "which sign a zero has"),
    ("DOUBLE AS (LEAST(f, 1))", {"f": -0.0}, "which sign a zero has"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "values", "want"), REFUSED)
def test_values_whose_outcome_is_not_known_are_refused(
    clause: str, values: dict[str, Any], want: str
) -> None:
    with pytest.raises(Unconvertible, match=want) as caught:
        value(clause, **values)
    assert "the values of column x" in caught.value.message


def test_a_virtual_column_is_clipped_where_a_stored_one_is_an_error() -> None:
    assert value("TINYINT AS (n * 100)", STRICT) == 127
    assert value("INT AS (NULLIF(n, 7)) VIRTUAL NOT NULL", STRICT) == 0
    for kind in ("AS (n * 100) STORED", "DEFAULT (n * 100)", "AS (n * 100.5) STORED"):
        with pytest.raises(Unconvertible, match="which a strict server refuses"):
            value(f"TINYINT {kind}", STRICT)


def test_branches_that_a_row_does_not_take_are_not_evaluated() -> None:
    assert value("INT AS (IFNULL(n, u + 1))") == 7
    assert value("INT AS (CASE WHEN n = 7 THEN 1 WHEN u + 1 > 0 THEN 2 END)") == 1


def test_the_sql_mode_decides() -> None:
    assert value("VARCHAR(9) AS (s || 'c')", PIPES_AS_CONCAT) == "aXbc"
    assert value("INT AS (n || 0)") == 1
    assert value("INT AS (NOT n BETWEEN -5 AND -1)") == 1
    assert value("INT AS (NOT n BETWEEN -5 AND -1)", HIGH_NOT_PRECEDENCE) == 0
    assert value(r"VARCHAR(9) AS (CONCAT('\n', s))") == "\naXb"
    assert "NO_UNSIGNED_SUBTRACTION" in reason("INT AS (u - 1)", UNSIGNED_SUBTRACTION)
    assert "PAD_CHAR" in reason("INT AS (LENGTH(c))", PAD_CHAR)
    assert "TIME_TRUNCATE" in reason("DATETIME AS (CAST(da AS DATETIME(2)))", TRUNCATING)


@pytest.mark.parametrize(
    "text", ["a || b", "NOT a = b", "NOT a IS NULL", r"CONCAT('\n', a)", 'CONCAT("x", a)']
)
def test_an_expression_of_an_unknown_sql_mode_must_mean_the_same_in_all(text: str) -> None:
    assert isinstance(read_expression(text, 0), Syntax)
    with pytest.raises(NotComputed):
        read_expression(text, None)
    assert read_expression("NOT (a = b) AND a + 1 > 2", None) == read_expression(
        "NOT (a = b) AND a + 1 > 2", 0
    )


def test_quotients_of_older_servers_have_other_digits() -> None:
    assert "version" in reason("INT AS (n / 2)", quotients=False)
    assert isinstance(altered("ADD x INT AS (n DIV 2)", quotients=False).origins[-1], ComputedValue)


PRECEDENCE = [
    ("a + b * c", "a + (b * c)"),
    ("a - b - c", "(a - b) - c"),
    ("a | b & c << d + 1", "a | (b & (c << (d + 1)))"),
    ("a = b IS NULL", "(a = b) IS NULL"),
    ("NOT a OR b AND c XOR d", "(NOT a) OR ((b AND c) XOR d)"),
    ("-a ^ b", "(-a) ^ b"),
    ("a IN (1, 2) + 0 = 1", None),
    ("a BETWEEN b AND c AND d", "(a BETWEEN b AND c) AND d"),
    ("a DIV b % c", "(a DIV b) MOD c"),
    ("a->>'$.x' = 1", "JSON_UNQUOTE(JSON_EXTRACT(a, '$.x')) = 1"),
    ("a + INTERVAL 1 DAY - INTERVAL b MONTH",
     "DATE_SUB(DATE_ADD(a, INTERVAL 1 DAY), INTERVAL b MONTH)"),
    ("a > > 1", "a >> 1"),
    ("a! = b", "a <> b"),
    ("SUBSTRING(a FROM 2 FOR b)", "MID(a, 2, b)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "same"), PRECEDENCE)
def test_operators_bind_as_in_mysql(text: str, same: str | None) -> None:
    if same is None:
        with pytest.raises(NotComputed):
            read_expression(text, 0)
    else:
        assert read_expression(text, 0) == read_expression(same, 0)


def test_columns_that_come_from_a_changed_one_are_computed_again() -> None:
    before = table("n INT, g INT AS (n + 1) STORED, h INT AS (g * 2) STORED, o INT AS (7 + i)")
    for action in (
        "MODIFY n DECIMAL(5,1)",
        "MODIFY g INT AS (n + 2) STORED",
        "MODIFY n INT NOT NULL",
    ):
        origins = altered(action, before=before).origins
        assert [isinstance(one, ComputedValue) for one in origins[2:]] == [True, True, False], (
            action
        )
    found = altered("MODIFY g INT AS (n + 2) STORED", before=before)
    made = altered_rows(before, found, SESSION).columns(
        row(before, {"n": 1, "g": 2, "h": 4, "o": 8})
    )
    assert [one[0].as_py() for one in made] == [1, 1, 3, 6, 8]


def test_what_is_not_known_of_an_input_is_not_known_of_what_comes_from_it() -> None:
    said = altered("ADD x INT AS (ASCII(s)), ADD x2 INT AS (x + 1)").origins[-1]
    assert isinstance(said, UnknownValue) and "ASCII() is not computed here" in said.reason


def test_a_name_of_a_function_is_no_column() -> None:
    before = table("`left` INT AS (RIGHT(i, 1)), `right` INT AS (LEFT(i, 1))")
    assert altered("ADD x INT", before=before).origins[:3] == (
        CarriedColumn(0),
        CarriedColumn(1),
        CarriedColumn(2),
    )


def test_dates_as_text_and_times_as_numbers_are_computed_alike() -> None:
    forms = Forms(zero_dates="string", time_as="microseconds")
    before = table("da DATE, tm TIME(3)", forms)
    found = altered(
        "ADD a INT AS (YEAR(da)), ADD b DATE AS (da + INTERVAL 1 DAY), ADD c TIME(1) AS (tm),"
        " ADD f INT AS (MINUTE(tm))",
        before=before,
    )
    found = replace(found, definition=forms.apply(found.definition))
    values = row(before, {"da": "2024-02-29", "tm": -62_500_000})
    made = altered_rows(before, found, SESSION).columns(values)
    assert [one[0].as_py() for one in made[3:]] == [2024, "2024-03-01", -62_500_000, 1]
    with pytest.raises(Unconvertible, match="no calendar"):
        altered_rows(before, found, SESSION).columns(row(before, {"da": "2024-00-00"}))


def test_a_timestamp_is_read_by_the_clock_of_the_session() -> None:
    before, found = table(), altered("ADD x DATETIME AS (ts + INTERVAL 0 SECOND) STORED")
    values = row(before, ROW)
    for zone, hour in (("+05:30", 3), ("America/New_York", 17)):
        session = replace(SESSION, time_zone=zone)
        assert altered_rows(before, found, session).columns(values)[-1][0].as_py().hour == hour
    with pytest.raises(Unconvertible, match="time zone is SYSTEM"):
        altered_rows(before, found, replace(SESSION, time_zone="SYSTEM")).columns(values)

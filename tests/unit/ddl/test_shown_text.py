"""Statements' texts in messages, where literals may be what nobody may see."""

from __future__ import annotations

import pytest

from spark_repl.ddl.alteration import Unknown
from spark_repl.ddl.altered import alter
from spark_repl.ddl.effect import classify_in
from spark_repl.ddl.session import Session
from spark_repl.ddl.shown_text import without_literals

ANSI = 1 << 2


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("ALTER TABLE t.`a b`\n ADD c INT DEFAULT 5 -- 6",
         "ALTER TABLE t.`a b` ADD c INT DEFAULT ?"),
        ("INSERT INTO a (b, c) VALUES (-1.5e3, 'x''y')", "INSERT INTO a (b, c) VALUES (- ?, ?)"),
        ("SET a = 0xAB, b = X'CD', c = 0b11 /* 'd' */", "SET a = ?, b = X ?, c = ?"),
        ("UPDATE a /*!80000 SET b = 'c' */", "UPDATE a SET b = ?"),
        ("UPDATE a SET b = 'c", "UPDATE ..."),
        ('DROP TABLE "a"', "DROP TABLE ?"),
        ("", ""),
    ],
)  # fmt: skip
def test_literals(statement: str, shown: str) -> None:
    assert without_literals(statement, 0) == shown


def test_names_in_double_quotes() -> None:
    assert without_literals("DROP TABLE \"a\", 'b'", ANSI) == 'DROP TABLE "a", ?'


@pytest.mark.parametrize(
    ("clause", "reason"),
    [
        ("TIMESTAMP DEFAULT '1985-03-07 10:00:00'", "time zone is SYSTEM"),
        ("INT DEFAULT ' 1985x'", "what column z stores of a literal is not known"),
        ("BIT(64) DEFAULT -1985.5", "what column z stores of a literal is not known"),
        ("INT AS (da > DATE'1985-3-7') STORED", "a literal as a date is not understood"),
        ("INT AS (da > DATE'1985-03-07 10:00:00') STORED", "a DATE literal is not understood"),
        ("INT AS (da > '1985-3-7') STORED", "a literal as a date is not understood"),
        ("INT AS (tm > TIME'1985:3') STORED", "a literal as TIME is not understood"),
        ("INT AS (i > 1985e400) STORED", "a number is too large or too small"),
        (f"INT AS (i > 1985.{'1' * 99}) STORED", "a number has too many digits"),
        ("INT AS (i = '1985x') STORED", "a comparison with such a text is not computed here"),
        ("INT AS (b LIKE 'é1985') STORED", "LIKE of such a pattern beside bytes"),
        ("INT AS (b LIKE '1985%' ESCAPE '%') STORED", "ESCAPE of anything but one ASCII character"),
        (
            "INT AS (b LIKE '1985\\\\') STORED",
            "a pattern that ends with its escape is not computed",
        ),
        ("VARCHAR(9) AS (j->'$**.a1985') STORED", "a JSON path with such parts is not computed"),
        ("VARCHAR(9) AS (j->'a1985') STORED", "a JSON path without $ is not understood"),
        ("VARCHAR(9) AS (CONCAT(x'1985z')) STORED", "a literal is no number"),
    ],
)
def test_reasons(clause: str, reason: str) -> None:
    """Why it is not known what a new column holds."""
    made = "CREATE TABLE x (i INT PRIMARY KEY, da DATE, tm TIME, b BLOB, j JSON)"
    session = Session("g", sql_mode=1 << 22, time_zone="SYSTEM")
    table = classify_in(made, session).definition
    assert table is not None
    found = alter(table, classify_in(f"ALTER TABLE x ADD z {clause}", session), session)
    origin = found.origins[-1]
    assert isinstance(origin, Unknown) and reason in origin.reason
    assert not any(secret in origin.reason for secret in ("1985", "é"))

"""Statements' texts in messages, where literals may be what nobody may see."""

from __future__ import annotations

import pytest

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

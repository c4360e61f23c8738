"""BINARY after a text type: the _bin collation of the column's character set (9.7.4)."""

from __future__ import annotations

import pytest

from spark_repl.alter.apply_alter import alter
from spark_repl.binlog.charsets.charset import charset_of
from spark_repl.sql.classify import classify
from spark_repl.sql.session import Session
from spark_repl.tables.column import BINARY

_TURKISH = 233


def column(written: str, options: str) -> tuple[int, str, bool]:
    """(number of the very collation, character set, whether that is assumed)."""
    made = classify(f"CREATE TABLE d.t (c {written}) {options}", "d").definition
    assert made is not None
    found = made.columns[0]
    assert found.collation != _TURKISH
    return found.compares, charset_of(found.collation), found.assumed


@pytest.mark.parametrize(
    ("written", "options", "want"),
    [
        ("CHAR(10) BINARY", "CHARSET latin1", (47, "latin1", False)),
        ("CHAR(10) BINARY", "COLLATE utf8mb4_general_ci", (46, "utf8mb4", False)),
        ("CHAR(10) BINARY", "COLLATE utf8mb4_turkish_ci", (46, "utf8mb4", False)),
        ("TEXT BINARY", "CHARSET utf8", (83, "utf8mb3", False)),
        ("CHAR(10) BINARY", "CHARSET binary", (BINARY, "binary", False)),
        ("CHAR(10) BINARY", "CHARSET gbk", (0, "gbk", False)),
        ("CHAR(10) BINARY CHARACTER SET latin1", "CHARSET utf8mb4", (47, "latin1", False)),
        ("VARCHAR(10) ASCII BINARY", "CHARSET utf8mb4", (47, "latin1", False)),
        ("NCHAR(10) BINARY", "CHARSET utf8mb4", (83, "utf8mb3", False)),
        ("CHAR(10) BINARY", "", (0, "utf8mb4", True)),
    ],
)
def test_a_column_with_binary_has_the_bin_collation(
    written: str, options: str, want: tuple[int, str, bool]
) -> None:
    assert column(written, options) == want


def test_binary_beside_convert_to_is_of_the_new_character_set() -> None:
    before = classify("CREATE TABLE d.t (c CHAR(9)) CHARSET latin1", "d").definition
    assert before is not None
    statement = classify(
        "ALTER TABLE d.t MODIFY c VARCHAR(10) BINARY, CONVERT TO CHARACTER SET utf8mb4", "d"
    )
    after = alter(before, statement, Session("d")).definition.columns[0]
    assert (after.compares, charset_of(after.collation)) == (46, "utf8mb4")

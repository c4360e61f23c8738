"""Definitions of versions that did not say which character sets they had assumed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_repl.control.records.recorded_definition import recorded_definition
from spark_repl.sql.charsets import ASSUMED
from spark_repl.tables.column import Column, ColumnType
from spark_repl.tables.target_table import TargetTable

_VARCHAR, _UTF8MB4, _LATIN1, _UTF8MB3, _BINARY = ColumnType.VARCHAR, 255, 8, 33, 63


def earlier(
    collation: int, *, kind: ColumnType = _VARCHAR, charset: str | None, compares: int = 0
) -> TargetTable:
    column = Column("v", kind, 40, nullable=True, collation=collation, compares=compares)
    logged = Column("w", kind, 40, nullable=True, collation=collation, compares=compares)
    written: dict[str, Any] = json.loads(
        TargetTable("t", "a", (column,), (), withheld=((1, logged),)).to_json()
    )
    del written["charset"]
    if charset is not None:
        written["charset"] = charset
    for one in (written["columns"][0], written["withheld"][0][1]):
        del one["assumed"]
    return recorded_definition(json.dumps(written))


@pytest.mark.parametrize(
    ("collation", "charset"),
    [
        (_UTF8MB4, None),
        (_UTF8MB4, ""),
        (_UTF8MB4, ASSUMED),
        (_UTF8MB4, "utf8mb4_0900_ai_ci"),
        (_LATIN1, "latin1_swedish_ci"),
        (_UTF8MB3, "utf8_general_ci"),
        (_UTF8MB3, "utf8mb3_bin"),
    ],
)
def test_what_no_statement_may_have_said_is_assumed(collation: int, charset: str | None) -> None:
    """A session's collation_database, which is the table's by chance alone, has a collation's
    name."""
    read = earlier(collation, charset=charset)
    assert [column.assumed for column in read.source.columns] == [True, True]
    assert read.charset in ("", ASSUMED)
    assert recorded_definition(read.to_json()) == read


@pytest.mark.parametrize(
    ("collation", "charset", "compares"),
    [
        (_UTF8MB4, "utf8mb4", 0),
        (_LATIN1, "latin1", 0),
        (_LATIN1, None, 0),
        (_LATIN1, "utf8mb4_0900_ai_ci", 0),
        (_UTF8MB4, "latin1", 0),
        (_BINARY, "binary", 0),
        (_UTF8MB4, None, 255),
        (_UTF8MB4, ASSUMED, 255),
    ],
)
def test_what_a_statement_or_a_table_map_has_said_stays(
    collation: int, charset: str | None, compares: int
) -> None:
    read = earlier(collation, charset=charset, compares=compares)
    assert [column.assumed for column in read.source.columns] == [False, False]


@pytest.mark.parametrize(("collation", "charset"), [(_LATIN1, "latin1"), (_UTF8MB4, "utf8mb4")])
def test_the_first_wrote_a_session_s_as_a_character_set(collation: int, charset: str) -> None:
    """They did not say by which collations columns are compared."""
    written = json.loads(
        TargetTable("t", "a", (Column("v", _VARCHAR, 40, True, collation=collation),), ()).to_json()
    )
    del written["columns"][0]["assumed"], written["columns"][0]["compares"]
    written["charset"] = charset
    read = recorded_definition(json.dumps(written))
    assert read.columns[0].assumed and read.charset == ASSUMED


def test_other_types_have_no_character_set() -> None:
    read = earlier(_UTF8MB4, kind=ColumnType.ENUM, charset=ASSUMED)
    assert [column.assumed for column in read.source.columns] == [False, False]


def test_what_says_it_is_not_asked_again() -> None:
    column = Column("v", _VARCHAR, 40, nullable=True, collation=_UTF8MB4)
    written = TargetTable("t", "a", (column,), (), charset="utf8mb4_0900_ai_ci")
    read = recorded_definition(written.to_json())
    assert not read.columns[0].assumed and read.charset == "utf8mb4_0900_ai_ci"

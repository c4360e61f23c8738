"""Literals as columns store them.

``test_default_literals_recorded`` compares many with a server's.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.sql.default_literals import normalize, normalize_or_keep
from spark_repl.sql.session import STRICT, Session
from spark_repl.tables.column import Column, ColumnType

LENIENT = Session("d")
STRICT_MODE = replace(LENIENT, sql_mode=STRICT)
TINY = Column("c", ColumnType.TINY, 0, nullable=True, detail="")
UNSIGNED = replace(TINY, unsigned=True)
DECIMAL = Column("c", ColumnType.DECIMAL, 5 << 8 | 2, nullable=True, detail="")
BIT = Column("c", ColumnType.BIT, 8, nullable=True, detail="")
YEAR = Column("c", ColumnType.YEAR, 0, nullable=True, detail="")
ENUM = Column("c", ColumnType.ENUM, 1, nullable=True, detail="", literals=("b", "a", "2"))
SET = replace(ENUM, type=int(ColumnType.SET))
TEXT = Column("c", ColumnType.VARCHAR, 12, nullable=True, collation=255, detail="")
TIME = Column("c", ColumnType.TIME, 0, nullable=True, detail="")


@pytest.mark.parametrize(
    ("column", "literal", "stored"),
    [
        (TINY, "300", "127"),
        (TINY, "'abc", "0"),
        (UNSIGNED, "-7", "0"),
        (DECIMAL, "1234.5", "999.99"),
        (BIT, "256", "255"),
        (YEAR, "100", "0"),
        (TEXT, "'abcd", "'abc"),
    ],
)
def test_a_constant_out_of_range_is_the_nearest_value_unless_the_server_is_strict(
    column: Column, literal: str, stored: str
) -> None:
    assert normalize(literal, column, LENIENT, assigned=True) == stored
    with pytest.raises(ValueError, match=r".*"):
        normalize(literal, column, STRICT_MODE, assigned=True)


@pytest.mark.parametrize(
    ("column", "literal", "default", "constant"),
    [(ENUM, "2", "'2", "'a"), (SET, "2", "'2", "'a"), (ENUM, "'a", "'a", "'a")],
)
def test_a_number_names_a_member_in_default_and_counts_members_in_an_expression(
    column: Column, literal: str, default: str, constant: str
) -> None:
    assert normalize(literal, column, STRICT_MODE) == default
    assert normalize(literal, column, STRICT_MODE, assigned=True) == constant


def test_letters_of_another_case_may_be_no_member_of_an_enum() -> None:
    assert normalize("'A", ENUM, LENIENT) == "'a"  # the server accepted it as a member
    with pytest.raises(ValueError, match="'A"):
        normalize("'A", ENUM, LENIENT, assigned=True)


@pytest.mark.parametrize("kind", [ColumnType.ENUM, ColumnType.SET])
def test_spaces_at_the_end_of_a_name_may_count_unless_the_server_is_strict(
    kind: ColumnType,
) -> None:
    column = replace(ENUM, type=int(kind), literals=("x", "1 "))
    assert normalize("'x ", column, LENIENT) == "'x"
    assert normalize("'x ", column, STRICT_MODE, assigned=True) == "'x"
    assert normalize("'1 ", column, LENIENT, assigned=True) == "'1 "
    with pytest.raises(ValueError, match="'x "):  # '' in CHARACTER SET binary
        normalize("'x ", column, LENIENT, assigned=True)


@pytest.mark.parametrize(
    ("column", "literal"), [(TIME, "'900:00:00"), (YEAR, "'-0"), (TINY, "'7abc")]
)
def test_a_literal_that_is_not_known_is_kept(column: Column, literal: str) -> None:
    assert normalize_or_keep(literal, column, LENIENT) == literal

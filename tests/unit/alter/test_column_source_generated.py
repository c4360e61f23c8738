"""What becomes of generated columns where the same values of their inputs are read otherwise."""

from __future__ import annotations

import pytest

from spark_repl.alter.alteration import CarriedColumn, ComputedValue, UnknownValue
from tests.support.altered_table import altered, table

_TEXT = "id INT PRIMARY KEY, v VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, g {} AS ({}) {}"
_BIN = "MODIFY v VARCHAR(20) COLLATE utf8mb4_bin"
_CONVERT = "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
@pytest.mark.parametrize("action", [_BIN, _CONVERT])
@pytest.mark.parametrize(
    "expression", ["v = 'eu'", "IF(1 > 0, NULLIF(v, 'a') IS NULL, 0)", "CONCAT(v, 'x') IN ('eux')"]
)
def test_a_comparison_by_another_collation_is_computed_again(
    expression: str, action: str, kind: str
) -> None:
    """Without a collation: what one would decide about is refused value by value."""
    found = altered(action, table(_TEXT.format("INT", expression, kind)))
    assert isinstance(found.origins[2], ComputedValue), found.origins[2]


def test_the_other_case_of_a_letter_goes_by_the_collation() -> None:
    before = table(_TEXT.format("VARCHAR(20)", "LOWER(v)", "STORED"))
    assert isinstance(altered(_BIN, before).origins[2], ComputedValue)
    turkish = altered("MODIFY v VARCHAR(20) COLLATE utf8mb4_turkish_ci", before).origins[2]
    assert isinstance(turkish, UnknownValue) and "ALGORITHM" in turkish.reason


@pytest.mark.parametrize("action", [_BIN, _CONVERT])
@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("VARCHAR(30)", "v"),
        ("VARCHAR(30)", "CONCAT(v, 'x')"),
        ("INT", "CHAR_LENGTH(v) > 3"),
        ("INT", "v IS NULL"),
        ("INT", "id = 7"),
        ("VARCHAR(30)", "REPLACE(v, 'a', 'b')"),
        ("BINARY(16)", "UNHEX(MD5(v))"),
    ],
)
def test_what_compares_no_text_stays_as_it_is(kind: str, expression: str, action: str) -> None:
    found = altered(action, table(_TEXT.format(kind, expression, "STORED")))
    assert isinstance(found.origins[2], CarriedColumn), found.origins[2]


def test_what_is_not_computed_here_and_may_compare_is_not_known() -> None:
    before = table(_TEXT.format("INT", "LOCATE('a', v)", "STORED"))
    assert isinstance(altered(_BIN, before).origins[2], UnknownValue)
    assert isinstance(altered("ADD x INT", before).origins[2], CarriedColumn)
    assert isinstance(altered("MODIFY id BIGINT", before).origins[2], CarriedColumn)


def test_a_column_that_is_written_as_it_was_has_its_collation() -> None:
    before = table(_TEXT.format("INT", "v = 'eu'", "STORED"))
    same = "MODIFY v VARCHAR(20) COLLATE utf8mb4_0900_ai_ci DEFAULT 'x'"
    assert isinstance(altered(same, before).origins[2], CarriedColumn)
    assert isinstance(altered("ALTER v SET DEFAULT 'x'", before).origins[2], CarriedColumn)


def test_the_collation_of_an_enum_is_not_known() -> None:
    before = table("e ENUM('a', 'b'), f ENUM('a', 'b'), g INT AS (e = 'a'), h INT AS (f IS NULL)")
    for action in ("MODIFY e ENUM('a', 'b') COLLATE utf8mb4_bin", _CONVERT):
        origins = altered(action, before).origins
        assert not isinstance(origins[2], CarriedColumn), action
        assert isinstance(origins[3], CarriedColumn), action
    assert isinstance(altered("ALTER e SET DEFAULT 'a'", before).origins[2], CarriedColumn)


def test_numbers_that_are_printed_otherwise_are_not_known_where_they_are_stored() -> None:
    """In place the server keeps a STORED column, with ALGORITHM=COPY it computes it."""
    before = table(
        "n INT UNSIGNED, m INT(5) UNSIGNED ZEROFILL, g VARCHAR(20) AS (CONCAT(n)) STORED,"
        " h VARCHAR(20) AS (CONCAT(m)), i VARCHAR(20) AS (CONCAT(h)) STORED"
    )
    filled = altered("MODIFY n INT(5) UNSIGNED ZEROFILL", before).origins
    assert isinstance(filled[2], UnknownValue) and "ALGORITHM" in filled[2].reason
    assert isinstance(filled[3], CarriedColumn) and isinstance(filled[4], CarriedColumn)
    plain = altered("MODIFY m INT UNSIGNED", before).origins
    assert isinstance(plain[2], CarriedColumn)
    assert isinstance(plain[3], ComputedValue) and plain[3].virtual
    assert isinstance(plain[4], UnknownValue)


def test_a_number_that_becomes_zerofill_is_not_computed_as_text() -> None:
    before = table("n INT UNSIGNED, g VARCHAR(20) AS (CONCAT(n))")
    assert isinstance(altered("MODIFY n INT(5) UNSIGNED ZEROFILL", before).origins[1], UnknownValue)

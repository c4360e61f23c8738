"""row_filter: what it is for a table's columns, and of which rows it is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import NotComputed, Unconvertible
from spark_repl.rules.row_filters import fault, row_filter
from spark_repl.sql.classify import classify
from spark_repl.tables.source_table import SourceTable

CREATE = (
    "CREATE TABLE t.a (id INT, d DECIMAL(6, 2), ts TIMESTAMP NULL, s VARCHAR(9),"
    " b VARCHAR(9) COLLATE utf8mb4_bin, j JSON, g POINT, h VARBINARY(9),"
    " z VARCHAR(9) COLLATE latin2_bin, a VARCHAR(9) COLLATE ascii_bin)"
    " DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
)


@pytest.fixture
def table() -> SourceTable:
    found = classify(CREATE, "t").definition
    assert found is not None
    return found


def passing(table: SourceTable, text: str, **columns: list[Any]) -> list[bool]:
    found = row_filter(text, table)
    types = table.arrow_schema()
    assert sorted(columns) == sorted(found.names)
    arrays = [pa.array(columns[name], types.field(name).type) for name in found.names]
    return [bool(one) for one in found.passes(arrays)]


def test_rows_pass_only_if_the_filter_is_true(table: SourceTable) -> None:
    values = [None, -1, 0, 1]
    assert passing(table, "id > 0", id=values) == [False, False, False, True]
    assert passing(table, "NOT id > 0", id=values) == [False, True, True, False]
    assert passing(table, "id", id=values) == [False, True, False, True]
    assert passing(table, "id OR NULL", id=values) == [False, True, False, True]
    assert passing(table, "id IS NULL", id=values) == [True, False, False, False]
    assert passing(table, "ID <> 1 AND id <> -1", id=[]) == []


def test_filters_compare_texts_by_the_columns_collation(table: SourceTable) -> None:
    values = ["ab", "AB", "ab ", None]
    assert passing(table, "s = 'Ab'", s=values) == [True, True, False, False]
    assert passing(table, "b = 'ab'", b=values) == [True, False, True, False]
    assert passing(table, "b <=> 'é'", b=["é", "e"]) == [True, False]
    unknown = replace(table, columns=tuple(replace(c, compares=0) for c in table.columns))
    with pytest.raises(Unconvertible, match="depends on the collation"):
        passing(unknown, "s = 'Ab'", s=values)


def test_like_matches_as_the_columns_collation_does(table: SourceTable) -> None:
    values = ["ab", "Ab ", "a%", "b", None]
    assert passing(table, "s LIKE 'A_'", s=values) == [True, False, True, False, False]
    assert passing(table, "b LIKE 'A%'", b=values) == [False, True, False, False, False]
    assert passing(table, r"s LIKE 'a\%'", s=values) == [False, False, True, False, False]
    assert passing(table, "NOT s LIKE '%b'", s=values) == [False, True, True, False, False]
    assert passing(table, "s NOT LIKE '%b%'", s=values) == [False, False, True, False, False]
    assert passing(table, "b LIKE 'é_'", b=["é\n", "éé", "é"]) == [True, True, False]
    assert passing(table, "h LIKE 'a_'", h=[b"a\xff", "é".encode(), None]) == [True, False, False]
    with pytest.raises(Unconvertible, match="how utf8mb4_0900_ai_ci compares 'é'"):
        passing(table, "s LIKE 'a%'", s=["é"])


def test_filters_order_texts_by_the_columns_collation(table: SourceTable) -> None:
    values = ["a", "a \t", "a\t", "ab", "A", "é", "", None]
    less = [False, True, True, False, True, False, True, False]
    assert passing(table, "b < 'a '", b=values) == less
    assert passing(table, "'a' > b", b=values) == less
    within = [True, False, False, True, False, False, False, False]
    assert passing(table, "b BETWEEN 'a' AND 'ab'", b=values) == within
    assert passing(table, "b < NULL OR b > ''", b=["", "  ", "\t", "a"]) == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("row", [0, 1, 4, 6])
def test_the_first_row_whose_result_is_not_known_is_found(table: SourceTable, row: int) -> None:
    values = ["ab"] * 7
    values[row] = values[6] = "é"
    found = row_filter("s = 'ab'", table)
    with pytest.raises(Unconvertible):
        found.passes([pa.array(values)])
    assert found.first_unknown([pa.array(values)]) == row


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ts > '2026-01-01'", "depends on the time zone"),
        ("d / 3 > 1", "rounds a quotient"),
        ("g IS NULL", "expressions of GEOMETRY are not computed here"),
        ("j", "JSON as a number is not computed here"),
        ("s < 'b'", "an order of TEXT by utf8mb4_0900_ai_ci is not computed here"),
        ("s BETWEEN 'a' AND 'b'", "an order of TEXT by utf8mb4_0900_ai_ci"),
        ("b < s", "not between a column and a literal"),
        ("z < 'a'", "an order of TEXT of text whose collation is not known"),
        ("a < 'é'", "an order of TEXT of ascii beside 'é' is not computed here"),
        ("z LIKE 'a'", "LIKE of text whose collation is not known is not computed here"),
        ("s LIKE 'é'", "LIKE: how utf8mb4_0900_ai_ci compares 'é' is not known here"),
        ("s LIKE b", "LIKE with a pattern that is no literal"),
        ("s LIKE 'a' ESCAPE b", "LIKE with a pattern that is no literal"),
        ("s LIKE NULL", "LIKE beside NULL is never true"),
        ("s LIKE 'a' ESCAPE ''", "ESCAPE of anything but one ASCII character"),
        ("s LIKE 'a' ESCAPE '%'", "ESCAPE of anything but one ASCII character"),
        ("s LIKE 'a|' ESCAPE '|'", "a pattern that ends with its escape is not computed here"),
        ("id LIKE '1'", "LIKE of INTEGER is not computed here"),
        ("h LIKE 'é'", "LIKE of such a pattern beside bytes is not computed here"),
        ("idd > 1", "there is no column idd; the nearest is id"),
        ("CONCAT(id", "ends too early"),
    ],
)
def test_filters_that_are_refused(table: SourceTable, text: str, says: str) -> None:
    with pytest.raises(NotComputed, match=says):
        row_filter(text, table)


def test_documents_that_do_not_keep_how_they_are_printed(table: SourceTable) -> None:
    kept = Forms(json_as="variant").apply(table)
    with pytest.raises(NotComputed, match="j is kept as VARIANT"):
        row_filter("JSON_VALID(j)", kept)
    assert row_filter("JSON_VALID(j)", table).names == ["j"]


def test_words_that_are_no_functions() -> None:
    assert fault("count > 1 AND `now` = 'RAND()' AND `select` IS NULL") == ""
    assert "RAND() is not deterministic" in fault("id = rand ()")
    assert "is too deep" in fault("(" * 4000 + "id" + ")" * 4000)

"""What a server stores of a value in a column of another type, by ADD ... AS and DEFAULT (...),
beside what is computed of it: which results go into which columns is measured here, and all else is
refused. ``SPARK_REPL_SEED`` chooses which part the short forms have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.live import assignment_cases as cases_of
from tests.support.live.assignment_cases import MARKED, SOURCES
from tests.support.live.expression_cases import COLUMNS, Case
from tests.support.live.expression_grid import ExpressionGrid
from tests.support.live.server import Server
from tests.support.own_expressions import Columns, Tally

pytestmark = pytest.mark.live

_SEED = int(os.environ.get("SPARK_REPL_SEED", "1"))
MODES = ("", "STRICT_TRANS_TABLES")
ONE_COLUMN = {"ti": SOURCES["ti"]}


@pytest.fixture(scope="module")
def connection(shared_server: Server) -> Iterator[Any]:
    opened = shared_server.connect(charset="utf8mb4", use_unicode=False, conv={})
    yield opened
    opened.close()


def assert_equal(tally: Tally, cases: Sequence[Case], percent: int) -> None:
    """So many of a hundred cases are computed at least; the others are refused by name."""
    assert not tally.wrong, "\n".join(tally.wrong[:40])
    assert tally.computed * 100 >= len(cases) * percent, tally.unknown
    assert tally.computed + sum(tally.unknown.values()) == len(cases)


def compare(
    connection: Any, cases: Sequence[Case], percent: int, mode: str, columns: Columns = COLUMNS
) -> None:
    assert_equal(ExpressionGrid(connection, mode, columns).compare(cases), cases, percent)


def of_column(name: str, step: int = 1) -> list[Case]:
    own = [case for case in cases_of.columns() if case.expression == name]
    return own[_SEED % step :: step]


@pytest.mark.parametrize("name", SOURCES)
def test_a_column_in_columns_of_each_type(connection: Any, name: str) -> None:
    compare(connection, of_column(name, 3), 0, MODES[len(name) % 2], {name: SOURCES[name]})


def test_some_constants_in_each_type_have_the_servers_values(connection: Any) -> None:
    compare(connection, cases_of.constants()[_SEED % 12 :: 12], 60, "", ONE_COLUMN)


def test_exact_zeros_and_moments_as_numbers_in_functions_of_text(connection: Any) -> None:
    compare(connection, cases_of.printed()[_SEED % 4 :: 4], 60, "")


def test_marks_in_text_of_each_character_set(connection: Any) -> None:
    compare(connection, cases_of.pieces()[_SEED % 2 :: 2], 70, "", MARKED)


def test_expressions_in_any_type_have_the_servers_values(connection: Any) -> None:
    compare(connection, cases_of.expressions(_SEED, 1)[_SEED % 8 :: 8], 25, "")


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SOURCES)
def test_every_column_assigned_to_every_type_has_the_servers_values(
    connection: Any, name: str, mode: str
) -> None:
    compare(connection, of_column(name), 0, mode, {name: SOURCES[name]})


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_every_constant_in_every_type_has_the_servers_values(connection: Any, mode: str) -> None:
    compare(connection, cases_of.constants(), 60, mode, ONE_COLUMN)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_every_expression_in_types_that_are_drawn(connection: Any, mode: str) -> None:
    compare(connection, cases_of.expressions(_SEED, 4), 25, mode)
    compare(connection, cases_of.composed(_SEED, 2000), 25, mode)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_every_function_of_text_has_the_servers_values(connection: Any, mode: str) -> None:
    compare(connection, cases_of.printed(), 60, mode)
    compare(connection, cases_of.pieces(), 70, mode, MARKED)

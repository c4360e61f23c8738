"""history_condition: which versions were current, asked of SQL that every reader has."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from spark_repl.control.cuts.history_views import ANONYMOUS, history_condition
from spark_repl.errors import ConfigError

A, B = "11111111-2222-3333-4444-555555555555", "11111111-2222-3333-4444-666666666666"
ROWS = [  # name, begins (GTID, position), ends
    ("copied", f"{A}:1-4", None, f"{A}:7", 70),
    ("first", f"{A}:5", 50, f"{A}:6", 60),
    ("second", f"{A}:6", 60, f"{A}:16", 160),
    ("never", f"{A}:6", 60, f"{A}:6", 60),
    ("third", f"{A}:16", 160, None, None),
    ("tagged", f"{A}:nightly:6", 65, None, None),
    ("other", f"{B}:6", 66, f"{B}:7", 170),
]


def current(condition: str, rows: Sequence[tuple[Any, ...]] = ROWS) -> list[str]:
    base = sqlite3.connect(":memory:")
    base.execute(
        "CREATE TABLE h (name, _valid_from_gtid, _valid_from_position, _valid_to_gtid,"
        " _valid_to_position)"
    )
    base.executemany("INSERT INTO h VALUES (?, ?, ?, ?, ?)", rows)
    return [name for (name,) in base.execute(f"SELECT name FROM h WHERE {condition}")]


@pytest.mark.parametrize(
    ("executed", "names"),
    [
        (f"{A}:1-4", ["copied"]), (f"{A}:1-5", ["copied", "first"]),
        (f"{A}:1-6", ["copied", "second"]), (f"{A}:1-7", ["second"]),
        (f"{A}:1-6:nightly:1-6", ["copied", "second", "tagged"]),
        (f"{A}:1-5:nightly:6", ["copied", "first", "tagged"]),
        (f"{A}:1-7,{B}:1-6", ["second", "other"]), (f"{A}:1-15:17", ["second"]),
        (f"{A}:1-16,{B}:1-9", ["third"]),
    ],
)  # fmt: skip
def test_a_history_condition_takes_a_gtid_set(executed: str, names: list[str]) -> None:
    assert current(history_condition(gtid_executed=executed)) == names


def test_rows_of_anonymous_transactions_are_asked_for_apart() -> None:
    """Rows of anonymous transactions are in none, so they are asked for by themselves."""
    begun, ended = ("anonymous", None, 50, None, None), ("ended", f"{A}:5", 50, None, 60)
    assert current(ANONYMOUS) == []
    for row in (begun, ended):
        assert current(ANONYMOUS, [*ROWS, row]) == [row[0]]


@pytest.mark.parametrize(
    ("position", "names"),
    [
        (0, ["copied"]), (59, ["copied", "first"]), (60, ["copied", "second"]),
        (70, ["second", "tagged", "other"]), (170, ["third", "tagged"]),
    ],
)  # fmt: skip
def test_a_history_condition_takes_a_position(position: int, names: list[str]) -> None:
    assert current(history_condition(position=position)) == names


def test_a_history_condition_names_one_moment() -> None:
    said = history_condition(time=datetime(2026, 5, 1, 12))
    assert "_valid_from_time <= TIMESTAMP '2026-05-01 12:00:00.000000+00:00'" in said
    with pytest.raises(ConfigError, match="one of"):
        history_condition(gtid_executed=A + ":1", position=1)
    with pytest.raises(ConfigError):
        history_condition(gtid_executed="yesterday")

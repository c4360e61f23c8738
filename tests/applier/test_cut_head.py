"""``spark-repl cut head``: rows of a table at a cut, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import run

A = Table("a")


@pytest.fixture
def filled(log: LogWriter, target: Path) -> Path:
    """A table with three rows, then two, one of them updated."""
    log.transaction(insert(A, (1, "one"), (2, "two"), (3, None)))
    run(log.folder, target)
    log.transaction(delete(A, (1, "one")), update(A, ((2, "two"), (2, "x" * 40))))
    run(log.folder, target)
    return target


def shown(target: Path, capsys: Any, *arguments: str) -> list[dict[str, Any]]:
    command = ["cut", "head", *arguments, "--target", str(target), "--json"]
    assert main(command) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return sorted(rows, key=lambda row: int(row["id"]))


def test_it_shows_the_rows_of_the_newest_cut(filled, capsys):
    assert shown(filled, capsys, "t.a") == [{"id": 2, "v": "x" * 40}, {"id": 3, "v": None}]


def test_it_shows_the_rows_of_an_earlier_cut(filled, capsys):
    rows = shown(filled, capsys, "t.a", "--at", "11111111-2222-3333-4444-555555555555:1-4")
    assert [row["v"] for row in rows] == ["one", "two", None]


def test_it_shows_the_rows_that_a_condition_finds(filled, capsys):
    assert shown(filled, capsys, "t.a", "--where", "v IS NULL OR id = 7") == [{"id": 3, "v": None}]


def test_it_shows_at_most_so_many_rows(filled, capsys):
    assert len(shown(filled, capsys, "t.a", "-n", "1")) == 1


def test_on_a_screen_null_is_a_word(filled, capsys):
    assert main(["cut", "head", "t.a", "--where", "id = 3", "--target", str(filled)]) == 0
    assert capsys.readouterr().out.split() == ["id", "v", "3", "NULL"]


def test_a_condition_that_is_refused_names_the_columns(filled, capsys):
    command = ["cut", "head", "t.a", "--where", "nope = 1", "--target", str(filled)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "No field named nope" in error and "the columns are id, v" in error


def test_a_table_that_the_cut_lacks_is_named_with_those_it_has(filled, capsys):
    assert main(["cut", "head", "t.c", "--target", str(filled)]) == 2
    error = capsys.readouterr().err
    assert "the cut has no table 't.c'" in error and "it has: t.a, t.b" in error

"""``spark-repl cut head``: rows of a table at a cut, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_repl.cli.main import main
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.observe.web.table_rows import TableRows
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import run

A, UUID = Table("a"), "11111111-2222-3333-4444-555555555555"


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


@pytest.mark.soak
def test_blobs_of_100_mb_are_cut_off_for_the_screen_and_the_page(tmp_path):
    layout = Layout(str(tmp_path / "lake"))
    control = Control(layout.control)
    control.claim()
    blobs = pa.table({"id": [1, 2, 3], "v": pa.array([bytes(100 << 20)] * 3, pa.large_binary())})
    write_deltalake(layout.table("t/a"), blobs)
    control.publish(Cut(1, f"{UUID}:1", "log", {}, {"t.a": TableVersion("t/a", 0, "", 1)}))
    code = (
        "import resource, sys; from spark_repl.cli.main import main; main(sys.argv[1:]);"
        " print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)"
    )
    command = [sys.executable, "-c", code, "cut", "head", "t.a", "--target", layout.target]
    *rows, peak_mib = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.split("\n")[:-1]
    assert len(rows) == 4 and all(len(row) < 80 for row in rows)
    assert int(peak_mib) < 2500
    answer = json.loads(TableRows(layout.target, "", "").read("t.a", "latest"))
    assert [row[1]["bytes"] for row in answer["rows"]] == [100 << 20] * 3


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

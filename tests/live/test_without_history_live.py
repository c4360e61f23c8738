"""``copy = "none"`` on a server: a first copy and one beside ``run`` leave tables empty."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.config import Config
from spark_repl.observe.status.status import status
from tests.live.test_run import Run, rows_in_cut, rows_of
from tests.live.test_waiting_live import _until
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.wait_until import wait_until

RULES = [
    {"match": "t.log", "copy": "none", "mode": "append"},
    {"match": "t.none", "copy": "none"},
    {"match": "t.late", "copy": "none"},
]


def sorted_rows(config: Config, table: str) -> list[tuple[Any, ...]]:
    return sorted(rows_in_cut(config, table))


@pytest.mark.slow
def test_tables_without_history_follow_from_now_on(
    make_server: Callable[..., Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, tables = make_server(), ("whole", "none", "late", "log")
    server.query(
        "DROP DATABASE IF EXISTS t", "CREATE DATABASE t",
        *(f"CREATE TABLE t.{name} (id INT PRIMARY KEY, v VARCHAR(20))" for name in tables),
        *(f"INSERT INTO t.{name} VALUES (1, 'old'), (2, 'old'), (3, 'old')" for name in tables),
    )  # fmt: skip
    plain = config_for(server, tmp_path).to_mapping()
    filters = {"ignore_table": ["t.late"]}
    config = Config.from_mapping({**plain, "tables": RULES, "filters": filters})
    run = Run(config, tmp_path)
    run.wait_for(server.executed)
    assert sorted_rows(config, "t.none") == [] == sorted_rows(config, "t.log")
    changes = [
        sql
        for name in tables
        for sql in (
            f"INSERT INTO t.{name} VALUES (7, 'new'), (8, 'new'), (9, 'new')",
            f"UPDATE t.{name} SET v = 'changed' WHERE id IN (1, 7)",
            f"UPDATE t.{name} SET id = id * 10 WHERE id IN (2, 8)",
            f"DELETE FROM t.{name} WHERE id IN (3, 9)",
        )
    ]
    server.query(*changes)
    run.wait_for(server.executed)
    assert sorted(rows_in_cut(config, "t.whole")) == rows_of(server, "t.whole")
    assert sorted_rows(config, "t.none") == [(7, "changed"), (80, "new")]
    assert sorted_rows(config, "t.log") == [(7, "new"), (8, "new"), (9, "new")]
    # The report follows the cut.
    wait_until(lambda: status(config.target.path)["passed_over"].get("t.none") == 3)
    run.stop()
    config = Config.from_mapping({**plain, "tables": RULES})
    run = Run(config, tmp_path)
    server.query("INSERT INTO t.late VALUES (90, 'before')")  # has the table wait for its copy
    _until(run, lambda: "t.late" in status(config.target.path)["tables"], "t.late is shown")
    server.query(
        "INSERT INTO t.late VALUES (100, 'late')", "UPDATE t.late SET v = 'x' WHERE id IN (1, 100)",
        "DELETE FROM t.none WHERE id IN (1, 80)", "DELETE FROM t.late WHERE id IN (1, 20)",
        "INSERT INTO t.late VALUES (1, 'again')",
    )  # fmt: skip
    run.wait_for(server.executed)
    assert sorted_rows(config, "t.none") == [(7, "changed")]
    assert [row for row in sorted_rows(config, "t.late") if row[0] != 90] == [
        (1, "again"), (100, "x"),
    ]  # fmt: skip
    run.stop()
    check_verify(run, capsys)


def check_verify(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """It compares none of the tables, and repairs none, also where it is asked to."""
    capsys.readouterr()
    assert main(["verify", "--config", str(run.file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tables"] == 1 and found["not_compared"].keys() == {"t.none", "t.late", "t.log"}
    assert 'copy = "none"' in found["not_compared"]["t.none"]
    asked = ["--repair", "--table", "t.none", "--json"]
    assert main(["verify", "--config", str(run.file), *asked]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "neither compared nor repaired" in found["not_compared"]["t.none"]
    assert found["repaired"] == [] and found["copied"] == {}

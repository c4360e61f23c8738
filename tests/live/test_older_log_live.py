"""A target that begins again while its relay log stays: ``run`` copies all tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from tests.live.test_run import Run, check_tables
from tests.support.live.receiving import config_for
from tests.support.live.server import Server

TABLES = ["t.a", "t.b"]


def purge(server: Server) -> None:
    """Removes all binary logs of the source but the one that is written."""
    server.query("FLUSH BINARY LOGS")
    newest = server.query("SHOW BINARY LOG STATUS")[0][0]
    server.query(f"PURGE BINARY LOGS TO '{newest}'")


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "removed, and the log is purged past",
        "removed, purged past, and copied by snapshot",
        pytest.param("removed", marks=pytest.mark.slow),
        pytest.param("reset", marks=pytest.mark.slow),
    ],
)
def test_an_older_relay_log_has_all_tables_copied_again(
    make_server: Callable[..., Server], tmp_path: Path, how: str
) -> None:
    """Rows of before the first start are in no log."""
    server = make_server()
    server.query(
        "DROP DATABASE IF EXISTS t", "CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY)",
        "CREATE TABLE t.b (id INT PRIMARY KEY)", "INSERT INTO t.a VALUES (1), (2)",
        "INSERT INTO t.b VALUES (1)",
    )  # fmt: skip
    purge(server)
    config = config_for(server, tmp_path)
    run = Run(config, tmp_path)
    run.wait_for(server.executed)
    run.stop()
    server.query("INSERT INTO t.a VALUES (3)")
    if how == "reset":
        assert main(["reset", "--all", "--config", str(run.file)]) == 0
    else:
        shutil.rmtree(config.target.path)
    if "purged" in how:
        purge(server)
    if "snapshot" in how:
        assert main(["snapshot", "--config", str(run.file)]) == 0
    run = Run(config, tmp_path)
    run.wait_for(server.executed)
    server.query("INSERT INTO t.a VALUES (4)", "UPDATE t.b SET id = 2")
    run.wait_for(server.executed)
    run.stop()
    check_tables(config, server, TABLES)

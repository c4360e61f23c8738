"""``run`` with a target on S3: first copy, applier and status, from a live server into a bucket. A
target that is moved there continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import read
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.s3_server import BUCKET, requested, s3_server

from .test_run import Run

_SETTLE_S, _IDLE_S = 45, 120


@pytest.mark.soak
def test_run_copies_and_applies_into_a_bucket(
    make_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server()
    server.query(
        "CREATE DATABASE t",
        "CREATE TABLE t.words (w VARCHAR(40), n INT PRIMARY KEY)",
        "CREATE TABLE t.bag (n INT)",
        "INSERT INTO t.words WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r"
        " WHERE i < 900) SELECT CONCAT('é', i * 7919 % 1000), i FROM r",
        "INSERT INTO t.bag VALUES (1), (1), (2)",
    )
    place = {"target.path": f"s3://{BUCKET}/lake", "target.state_path": str(tmp_path / "state")}
    config = config_for(server, tmp_path).override(place)
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        run = Run(config, tmp_path)
        run.wait_for(server.executed)
        server.query("UPDATE t.words SET w = 'x' WHERE n < 50", "DELETE FROM t.bag WHERE n = 1")
        run.wait_for(server.executed)
        assert run.stop()["transactions"] == 2
        layout = Layout.of(config.target)
        last = Control(layout.control).cuts()[-1]
        for name in ("t.words", "t.bag"):
            at = last.tables[name]
            found = read(layout.table(at.path), at.version, "select * from t order by n")
            assert [tuple(row.values()) for row in found.to_pylist()] == [
                tuple(row) for row in server.query(f"SELECT * FROM {name} ORDER BY n")
            ]


@pytest.mark.slow
def test_moved_target_continues_without_a_copy(
    make_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a disk into a bucket, with a kill in between; then verify finds no differing row."""
    server = make_server()
    server.query(
        "CREATE DATABASE t",
        "CREATE TABLE t.words (w VARCHAR(40), n INT PRIMARY KEY)",
        "INSERT INTO t.words VALUES ('a', 1), ('b', 2)",
    )
    config = config_for(server, tmp_path)
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SPARK_REPL_CACHE", str(tmp_path / "cache"))
        run = Run(config, tmp_path)
        run.wait_for(server.executed)
        server.query("UPDATE t.words SET w = 'x' WHERE n = 1")
        run.wait_for(server.executed)
        run.stop()
        server.query("INSERT INTO t.words VALUES ('c', 3)")  # while no applier runs
        place = f"s3://{BUCKET}/moved"
        move = [sys.executable, "-m", "spark_repl", "target", "move", config.target.path, place]
        killed = {**os.environ, "SPARK_REPL_CRASH": "moving_file:5"}
        assert subprocess.run(move, env=killed, check=False).returncode == -signal.SIGKILL
        subprocess.run(move, check=True)
        moved = config.override({"target.path": place})
        run = Run(moved, tmp_path)
        run.wait_for(server.executed)
        assert run.stop()["transactions"] == 1
        cut = Control(Layout.of(moved.target).control).cuts()[-1]
        assert cut.tables["t.words"].path == "t/words"  # and no copy of it
        file = tmp_path / "run.toml"
        assert main(["verify", "--config", str(file)]) == 0


@pytest.mark.soak
def test_an_idle_run_makes_no_request_but_those_of_its_lease(
    make_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server()
    server.query("CREATE DATABASE t", "CREATE TABLE t.a (n INT PRIMARY KEY)")
    place = {"target.path": f"s3://{BUCKET}/lake", "target.state_path": str(tmp_path / "state")}
    config = config_for(server, tmp_path).override(place)
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        run = Run(config, tmp_path)
        server.query("INSERT INTO t.a VALUES (1)")
        run.wait_for(server.executed)
        threading.Event().wait(_SETTLE_S)  # upkeep and a purge follow the group
        with requested() as requests:
            threading.Event().wait(_IDLE_S)
        run.stop()
    others = [request for request in requests if "/lease.json" not in request]
    assert len(others) <= _IDLE_S / 60, "\n".join(others)

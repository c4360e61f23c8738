"""``run`` with a target on S3: first copy, applier and status, from a live server into a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import read
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.s3_server import BUCKET, s3_server

from .test_run import Run


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

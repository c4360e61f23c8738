"""The examples in the help of commands that need a server, typed as they stand there, except for
the server's address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.cli.commands import EXAMPLES
from tests.support.live.operator import Operator
from tests.support.live.receiving import wait_for
from tests.support.live.server import Load, Server

NAMES = ("init", "config check", "run", "status", "snapshot", "verify", "relay purge", "receive")


@pytest.mark.slow
def test_the_examples_of_a_live_server_run(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    lines = {name: f"spark-repl {name} {EXAMPLES[name]}" for name in NAMES}
    server = make_server()
    operator = Operator(server, tmp_path, environment={"SPARK_REPL_PASSWORD": "repl"})
    operator.shop(lines["run"])
    here = f"127.0.0.1 --port {server.port}"
    said = operator.types(lines["init"].replace("db.example.com", here))
    assert "shop.orders" in said and "expected time of the copy" in said
    assert "server" in operator.types(lines["config check"])
    assert "wrong:    nothing" in operator.types(lines["status"])
    operator.types(lines["snapshot"])
    assert "differing: 0" in operator.types(lines["verify"])
    operator.stops()
    operator.types(lines["relay purge"])
    server.query("INSERT INTO shop.orders (state) VALUES ('late')")
    operator.starts(lines["receive"])
    wait_for(operator.loaded, server.executed)
    operator.stops()


@pytest.mark.soak
@pytest.mark.parametrize("name", ["bench receive", "bench snapshot", "bench latency"])
def test_the_example_of_a_benchmark_runs(
    make_server: Callable[..., Server], tmp_path: Path, name: str
) -> None:
    operator = Operator(make_server(), tmp_path, user="app", password_file="app")
    (tmp_path / "app").write_text("app")
    operator.shop()
    operator.stops()
    with Load(operator.server, 1):
        operator.types(f"spark-repl {name} {EXAMPLES[name]}")

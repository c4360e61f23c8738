"""The example of README.md and docs/getting-started.md with a server, unchanged."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest
from pyspark.sql import SparkSession

from spark_repl.config import load
from tests.spark.test_examples import lacking_readers
from tests.support.examples import ALL, ROOT
from tests.support.live.receiving import Command, processes
from tests.support.live.server import Server

from .test_run import Run

PASSWORD = "a secret"


class RunAsThere(Run):
    """A page's own command."""

    def __init__(self, command: list[str], file: Path) -> None:
        self.config, self.file = load(file), file
        self.process = Command(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        processes.append(self.process)


def lines(block: str) -> list[str]:
    """A block's lines without their comments."""
    found = (re.sub(r"\s*(#|--) .*", "", line) for line in ALL[block].text.splitlines())
    return [line for line in found if line]


def make_account(server: Server) -> None:
    """By the page's statements, as the server's root says them."""
    text = " ".join(lines("docs/getting-started.md sql 1")).replace("'...'", f"'{PASSWORD}'")
    with (
        pymysql.connect(unix_socket=str(server.socket), user="root") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("DROP USER repl")
        for statement in text.split(";")[:-1]:
            cursor.execute(statement)


def assert_rows_are_there(capfd: pytest.CaptureFixture[str]) -> None:
    """By the page's own commands and blocks, with each reader that is installed."""
    for line in lines("docs/getting-started.md bash 2"):
        said = subprocess.run(shlex.split(line), check=True, capture_output=True, text=True).stdout
        assert "open" in said or "--out" in line
    names: dict[str, object] = {}
    for number in (1, 2, 3):
        block = ALL[f"docs/getting-started.md python {number}"]
        if not lacking_readers(block):
            capfd.readouterr()
            exec(compile(block.text, block.name, "exec"), names)  # noqa: S102
            said = capfd.readouterr().out
            assert "open" in said and "paid" in said, block.name


@pytest.mark.slow
def test_a_live_server_is_followed(
    make_server: Callable[..., Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
    capfd: pytest.CaptureFixture[str],
) -> None:
    commands = lines("docs/getting-started.md bash 1")
    assert lines("README.md bash 3") == commands
    beginning, running = map(shlex.split, commands)
    assert "db.example.com" in beginning
    server = make_server()
    server.query(
        "CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, state VARCHAR(20))"
    )
    make_account(server)
    own = {"SPARK_REPL_PASSWORD": PASSWORD, "PYTHONPATH": str(ROOT)}
    for name, value in {**own, "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    here = ["127.0.0.1", "--port", str(server.port)]
    at = beginning.index("db.example.com")
    subprocess.run([*beginning[:at], *here, *beginning[at + 1 :]], check=True)
    run = RunAsThere([*running, "--json"], tmp_path / "my.toml")
    run.wait_for(server.executed)
    server.query("INSERT INTO shop.orders VALUES (1, 'open'), (2, 'paid')")
    run.wait_for(server.executed)
    assert_rows_are_there(capfd)
    assert run.stop()["transactions"] == 1
    begun = [
        f"asking 127.0.0.1:{server.port} what is to be copied",
        f"waiting for 127.0.0.1:{server.port}",
        "copying the tables",
    ]
    assert [line for line in run.said if line in begun] == begun
    assert any(line.startswith("copied 1 table, 0 rows, ") for line in run.said)
    page = [line for line in run.said if "page: " in line]  # another's tests may have the port
    assert len(page) == 1 and "127.0.0.1:8470" in page[0]

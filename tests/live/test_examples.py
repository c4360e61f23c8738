"""The example of README.md and docs/getting-started.md with a server, as it stands there."""

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

from spark_repl.config import load
from tests.support.examples import ALL, ROOT

from .receiving import processes
from .server import Server
from .test_run import Run

PASSWORD = "a secret"


class RunAsThere(Run):
    """A page's own command."""

    def __init__(self, command: list[str], file: Path) -> None:
        self.config, self.file = load(file), file
        path = f"{sys.prefix}/bin:{os.environ['PATH']}"
        own = {"REPL_PASSWORD": PASSWORD, "PYTHONPATH": str(ROOT), "PATH": path}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **own}
        )
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


def edit(file: Path, server: Server) -> None:
    """What the page says to change, and where this server is."""
    assert load(file).source.host == "127.0.0.1"
    changed = lines("docs/getting-started.md toml 1")
    assert changed[0] == "[source]"
    text = file.read_text("utf-8")
    for line in [*changed[1:], 'host = "127.0.0.1"', f"port = {server.port}"]:
        key = line.partition(" =")[0]
        text, times = re.subn(rf"^{key} = .*$", line, text, count=1, flags=re.MULTILINE)
        assert times == 1, line
    file.write_text(text, "utf-8")


def test_a_live_server_is_followed(
    make_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = lines("docs/getting-started.md bash 1")
    assert lines("README.md bash 3") == commands
    copying, running = map(shlex.split, commands)
    server = make_server()
    server.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY)")
    make_account(server)
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    subprocess.run(copying, cwd=tmp_path, check=True)
    edit(tmp_path / "my.toml", server)
    monkeypatch.chdir(tmp_path)
    run = RunAsThere([*running, "--json"], tmp_path / "my.toml")
    run.wait_for(server.executed)
    server.query("INSERT INTO t.a VALUES (1), (2)")
    run.wait_for(server.executed)
    assert run.stop()["transactions"] == 1

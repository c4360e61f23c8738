"""``demo --live`` as a process: rows that are typed appear in a cut, and nothing is left at its
end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import MakeServer
from tests.support.wait_until import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

_WAIT_S = 240.0


class Run:
    """A demo with its input, and what it has printed so far."""

    def __init__(self, *options: str, folder: Path) -> None:
        environment = {**os.environ, "TMPDIR": str(folder), "SPARK_REPL_PASSWORD": "app"}
        self._out = folder.with_suffix(".out")
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spark_repl", "demo", "--live", *options],
                stdin=subprocess.PIPE, stdout=out, stderr=out, env=environment,
            )  # fmt: skip

    @property
    def text(self) -> str:
        return self._out.read_text("utf-8", "replace")

    def has(self, text: str) -> None:
        """Wait for a text."""
        wait_until(lambda: text in self.text or self.process.poll() is not None, _WAIT_S)
        assert text in self.text, self.text

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()


@contextmanager
def running(*options: str) -> Iterator[tuple[Run, Path]]:
    """A demo and the folder of its temporary files, whose path a Unix socket takes."""
    with tempfile.TemporaryDirectory(prefix="demo-") as outer:
        folder = Path(outer) / "t"
        folder.mkdir()
        run = Run(*options, folder=folder)
        try:
            yield run, folder
        finally:
            if run.process.poll() is None:
                run.process.send_signal(signal.SIGTERM)
            run.process.wait(_WAIT_S)


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that name the folder."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in line:
            lines.append(line)
    return lines


@pytest.fixture
def own_server() -> None:
    if not os.environ.get("SPARK_REPL_MYSQL"):
        pytest.skip("SPARK_REPL_MYSQL names no server")


def test_a_typed_row_is_shown_from_a_cut_and_the_end_leaves_nothing(own_server: None) -> None:
    with running() as (run, folder):
        run.has("shop> ")
        run.type("INSERT INTO customer (name, city) VALUES ('Ada <b>', NULL);")
        run.has("in a cut")
        run.has("1001  Ada <b>  NULL")
        run.type("UPDATE product SET price = 9.50 WHERE `id` = 3")
        run.has("9.50")
        run.type("nonsense")
        run.has("MySQL error 1064")
        (url,) = re.findall(r"(http://\S+)#token=(\S+)", run.text)
        assert row_of("shop.product", *url)["rows"], "the page has rows, with the token"
        assert run.process.stdin is not None
        run.process.stdin.close()  # Ctrl-D
        assert run.process.wait(_WAIT_S) == 0, run.text
        assert "Ended." in run.text
        assert [*folder.iterdir()] == [] and processes_of(folder) == []


def row_of(table: str, address: str, token: str) -> Any:
    request = urllib.request.Request(
        f"{address}rows?table={table}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_its_server_starts(own_server: None, number: int) -> None:
    with running() as (run, folder):
        run.has("starting one for this demo")
        wait_until(lambda: bool(processes_of(folder)))
        run.process.send_signal(number)
        assert run.process.wait(_WAIT_S) == 0, run.text
        assert [*folder.iterdir()] == [] and processes_of(folder) == []


def test_a_killed_demo_leaves_no_process_and_the_next_one_removes_its_files(
    own_server: None,
) -> None:
    """Also a next one that starts while the ``run`` of the killed one still ends."""
    with running() as (run, folder):
        run.has("starting; its log")
        (left,) = folder.iterdir()
        wait_until(lambda: f"run --config {left}" in " ".join(processes_of(left)))
        run.process.kill()
        again = Run(folder=folder)
        try:
            again.has("starting one for this demo")
            wait_until(lambda: not processes_of(left))
        finally:
            again.process.terminate()
            assert again.process.wait(_WAIT_S) == 0, again.text
        assert f"Removed {left}" in again.text
        assert [*folder.iterdir()] == [] and processes_of(folder) == []


def test_on_another_server_the_database_stays_and_is_named(make_server: MakeServer) -> None:
    server = make_server()
    address = ("--host", "127.0.0.1", "--port", str(server.port), "--user", "app")
    with running(*address, "--database", "a-demo") as (run, folder):
        run.has("a-demo> ")
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(_WAIT_S) == 0, run.text
        assert "Remove it with: DROP DATABASE `a-demo`" in run.text
        assert [*folder.iterdir()] == [] and processes_of(folder) == []
    assert server.query("SELECT COUNT(*) FROM `a-demo`.customer")[0][0] == 1000
    with running(*address, "--database", "a-demo") as (run, _):
        assert run.process.wait(_WAIT_S) == 2
        assert "has a database a-demo already" in run.text and "--database" in run.text
    server.query("DROP DATABASE `a-demo`")

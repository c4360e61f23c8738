"""A server for the live tests: ``SPARK_REPL_MYSQL`` names the folder where MySQL is unpacked. With
``SPARK_REPL_REQUIRE_MYSQL`` they fail without one, and are not skipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl.copy import source_tables
from tests.support.live.receiving import Command, processes
from tests.support.live.server import PLANTED, Server, copy_of
from tests.support.planted import holding, printed

MakeServer = Callable[..., Server]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = os.environ.get("SPARK_REPL_MYSQL")
    if not folder:
        said = "SPARK_REPL_MYSQL names no folder with a MySQL server"
        if os.environ.get("SPARK_REPL_REQUIRE_MYSQL"):
            pytest.fail(said)
        pytest.skip(said)
    found = Server(Path(folder), tmp_path_factory.mktemp("mysql") / "data", 1)
    found.initialise()
    return found


@pytest.fixture
def chunk_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``chunk_rows(100)``: a copy's chunks have so many rows, and one."""

    def install(rows: int) -> None:
        monkeypatch.setattr(source_tables, "_CHUNK_ROWS_MIN", rows)
        monkeypatch.setattr(source_tables, "_CHUNK_ROWS_MAX", rows)

    return install


@pytest.fixture
def make_server(template: Server, tmp_path: Path) -> Iterator[MakeServer]:
    """Starts servers with ids of their own; all are gone at the test's end."""
    made: list[Server] = []

    def make(*options: str) -> Server:
        number = 101 + len(made)
        found = copy_of(template, tmp_path / f"data{number}", number, *options)
        made.append(found)
        return found.start()

    yield make
    for found in made:
        found.stop()


_SERVERS_BYTES_MAX = 1 << 20


def showing(folder: Path) -> list[str]:
    """Files that hold the planted password, other than configurations and a server's own large
    ones."""
    files = holding(folder, PLANTED, spared=lambda p: p.suffix == ".toml" or _servers(p))
    return [str(path) for path in files]


def _servers(path: Path) -> bool:
    large = path.stat().st_size >= _SERVERS_BYTES_MAX
    return large and any((folder / "auto.cnf").exists() for folder in path.parents)


@pytest.fixture(autouse=True)
def no_secret_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Neither in what a test leaves (status, logs, tables), nor in what is logged, nor in the
    arguments of processes, nor in what came through their pipes."""
    yield
    assert [
        r for r in caplog.get_records("call") if PLANTED in f"{r.getMessage()}{r.exc_text}"
    ] == []
    assert [one.args for one in processes if PLANTED in str(one.args)] == []
    piped = [one for one in processes if isinstance(one, Command)]
    assert [one.args for one in piped if PLANTED.encode() in one.output] == []
    assert showing(tmp_path) == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Nor in what was printed, by a test or by a process that prints where it does."""
    return printed((yield), item, PLANTED, "the planted password")


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Also where a test has failed."""
    yield
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    processes.clear()


@pytest.fixture(scope="module")
def shared_server(template: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For the tests of one module that leave it as it was."""
    found = copy_of(template, tmp_path_factory.mktemp("shared") / "data", 100).start()
    yield found
    found.stop()

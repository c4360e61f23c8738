"""A throw-away MySQL server for the live tests.

SPARK_REPL_MYSQL names a folder with a server's ``bin`` (as the tools of this project unpack it:
``root/usr`` holds its messages and plugins). One server per test run, on a free port of 127.0.0.1.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from .server import free_port

_START_SECONDS_MAX = 180


@dataclass(frozen=True)
class Server:
    """A running server; ``folder`` is its data folder with the binary logs."""

    bin: Path
    folder: Path
    port: int

    def connect(self, **options: Any) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", charset="utf8mb4", autocommit=True,
            conv={}, **options,
        )  # fmt: skip

    def logs(self) -> list[Path]:
        return sorted(p for p in self.folder.glob("binlog.*") if p.suffix[1:].isdigit())


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = os.environ.get("SPARK_REPL_MYSQL")
    if not home or not (Path(home) / "bin" / "mysqld").exists():
        pytest.skip("SPARK_REPL_MYSQL names no folder with a MySQL server (bin/mysqld)")
    base = Path(home).resolve()
    usr = base / "root" / "usr"
    folder = tmp_path_factory.mktemp("mysql") / "data"
    options = [f"--basedir={usr}", f"--datadir={folder}"]
    options += [f"--lc-messages-dir={usr}/share/mysql", f"--plugin-dir={usr}/lib/mysql/plugin"]
    options += [f"--character-sets-dir={usr}/share/mysql/charsets"]
    if os.geteuid() == 0:
        options.append("--user=root")
    mysqld = [str(base / "bin" / "mysqld"), "--no-defaults", *options]
    subprocess.run([*mysqld, "--initialize-insecure"], check=True, capture_output=True)
    port = free_port()
    started = subprocess.Popen(
        [
            *mysqld, f"--port={port}", "--bind-address=127.0.0.1", "--mysqlx=OFF",
            f"--socket={folder}/s", "--server-id=1", "--log-bin=binlog", "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON", "--binlog-row-metadata=FULL", "--secure-file-priv=",
            "--default-time-zone=+00:00", "--max-allowed-packet=256M", "--performance-schema=OFF",
            "--innodb-buffer-pool-size=64M", "--binlog-row-event-max-size=2048",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    found = Server(base / "bin", folder, port)
    try:
        _wait(found, started)
        yield found
    finally:
        started.terminate()
        started.wait(_START_SECONDS_MAX)


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS_MAX
    while True:
        try:
            server.connect().close()
            return
        except pymysql.err.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.1)  # between two attempts to connect

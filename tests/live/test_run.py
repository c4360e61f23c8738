"""``run`` against a server under load: receiver killed, stopped, started again, all rows equal."""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark_repl.config import Config
from spark_repl.control.records.copies import standing
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.observe.status.status import status
from spark_repl.receiver.report import read_report
from spark_repl.relay.log import open_log
from spark_repl.service.applied_purge import applied_file, purge_applied
from tests.support.live.receiving import Command, config_for, processes, toml
from tests.support.live.server import Load, Proxy, Server
from tests.support.wait_until import wait_until

_WAIT_S = 240.0


class Run:
    """``spark-repl run`` as a user starts it. ``crash``: the point where it is to be killed;
    ``options``: further ones of the command line; ``program``: Python's arguments that start the
    command line."""

    def __init__(
        self, config: Config, folder: Path, *, crash: str = "", options: Sequence[str] = (),
        program: Sequence[str] = ("-m", "spark_repl"),
    ) -> None:  # fmt: skip
        self.config, self.file = config, folder / "run.toml"
        self.file.write_text(toml(config))
        command = [sys.executable, *program, "run", "--config", str(self.file), "--json", *options]
        self.process = Command(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
            env={**os.environ, "SPARK_REPL_CRASH": crash},
        )  # fmt: skip
        processes.append(self.process)

    def executed(self) -> str:
        with suppress(Exception):
            return str(status(self.config.target.path)["gtid_executed"])
        return ""

    def wait_for(self, executed: str) -> None:
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until and self.executed() != executed:
            self.check()
            time.sleep(0.2)  # each look reads the status
        assert self.executed() == executed

    def wait_for_cut(self) -> None:
        """Return after the first copy's cut, or the first cut of this target."""

        def is_published() -> str:
            self.check()
            return self.executed()

        wait_until(is_published, _WAIT_S, each_s=0.2)

    def check(self) -> None:
        """Raises what it said when it has ended."""
        if self.process.poll() is not None:
            raise AssertionError(self.process.communicate()[1].decode()[-3000:])

    def wait_for_crash(self) -> None:
        _, err = self.process.communicate(timeout=_WAIT_S)
        assert self.process.returncode == -signal.SIGKILL, err.decode()[-3000:]

    def stop(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def interrupt(self) -> dict[str, Any]:
        """As Ctrl-C does, which Spark's JVM hears too."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self._ended()

    def _ended(self) -> dict[str, Any]:
        out, err = self.process.communicate(timeout=_WAIT_S)
        self.said = err.decode().splitlines()
        assert self.process.returncode == 0, err.decode()[-3000:]
        said = err.split(b"Traceback (most recent call last)")[1:]
        # The process that Spark asks for a stream's offsets may find its pipe closed at the end.
        assert all(b"python_streaming_source_runner" in one for one in said), err.decode()[-3000:]
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found


def rows_of(server: Server, table: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for row in server.query(f"SELECT * FROM {table} ORDER BY id"):
        values = [v.isoformat(sep=" ") if isinstance(v, datetime.datetime) else v for v in row]
        found.append(tuple(values))
    return found


def rows_in_cut(config: Config, table: str, order: str = "") -> list[tuple[Any, ...]]:
    """What the newest cut has, read by delta-rs."""
    layout = Layout.of(config.target)
    now = standing(Control.existing(config.target.path)).cut
    assert now is not None
    at = now.tables[table]
    found = read(layout.table(at.path), at.version, f"select * from t {order}")
    return [tuple(row.values()) for row in found.to_pylist()]


def check_tables(config: Config, server: Server, tables: list[str]) -> None:
    now = standing(Control.existing(config.target.path)).cut
    assert now is not None and now.gtid_executed == server.executed
    for table in tables:
        have = []
        for row in rows_in_cut(config, table, "order by id"):
            values = [v.isoformat(sep=" ") if isinstance(v, datetime.datetime) else v for v in row]
            have.append(tuple(values))
        assert have == rows_of(server, table), table


def test_a_wrong_password_ends_run_with_a_hint(shared_server: Server, tmp_path: Path) -> None:
    run = Run(config_for(shared_server, tmp_path, password="wrong"), tmp_path)
    _, err = run.process.communicate(timeout=_WAIT_S)
    assert run.process.returncode == 1
    assert b"Access denied" in err and b"Try: check source.user" in err


@pytest.mark.soak
def test_a_lost_relay_log_is_fetched_again(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """A new one begins behind what the target has."""
    # Scenario 51: missing relay logs are no error with auto-position.
    import shutil

    server = make_server()
    config = config_for(server, tmp_path)
    for seed in (1, 2):
        run = Run(config, tmp_path)
        with Load(server, 2, seed=seed):
            time.sleep(5)  # the copy and the stream meet changes
        run.wait_for(server.executed)
        run.stop()
        check_tables(config, server, ["t.a", "t.b"])
        shutil.rmtree(config.relay.path)


def _storm(
    server: Server, config: Config, folder: Path, proxy: Proxy, kills: int, cuts: int
) -> None:
    """The receiver is killed, the wire is cut, the source rotates, purges and is killed itself, all
    under a load of 8 clients."""
    run, dice = Run(config, folder), random.Random(kills)
    bytes_max, proxy.bytes_max = proxy.bytes_max, 0
    with Load(server, 8, seed=kills, pause_s=0.05 if kills < 10 else 0) as load:
        while not run.executed():  # a chunk of the copy would never get through
            run.check()
            time.sleep(0.3)  # each look reads the status
        proxy.bytes_max = bytes_max
        killed, until = set[int](), time.monotonic() + 60 * max(kills, 10)
        with _rotating(server, config):
            while (len(killed) < kills or proxy.cuts < cuts) and time.monotonic() < until:
                time.sleep(0.3)  # a new receiver starts
                run.check()
                report = read_report(config.relay.path) or {}
                pid = report.get("THREAD_ID")
                if pid and pid not in killed and len(killed) < kills:
                    time.sleep(dice.random())  # the kill comes at any moment
                    with suppress(ProcessLookupError):  # it has ended by itself
                        os.kill(pid, signal.SIGKILL)
                        killed.add(pid)
                    if len(killed) % 10 == 3:
                        server.kill()
                        server.start()
    assert len(killed) == kills and proxy.cuts >= cuts and load.transactions > 100
    proxy.bytes_max = 0
    run.wait_for(server.executed)
    server.query("CREATE TABLE t.last (id INT PRIMARY KEY)")  # a cut may have begun an empty file
    run.wait_for(server.executed)
    run.stop()


@contextmanager
def _rotating(server: Server, config: Config) -> Iterator[None]:
    """Meanwhile FLUSH LOGS in a loop, PURGE of what was received."""
    stop = threading.Event()

    def rotate() -> None:
        while not stop.wait(0.2):
            with suppress(pymysql.err.MySQLError, OSError):
                server.query("FLUSH BINARY LOGS")
                if at := (read_report(config.relay.path) or {}).get("SOURCE_LOG_FILE"):
                    server.query(f"PURGE BINARY LOGS TO '{at}'")

    thread = threading.Thread(target=rotate)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(("kills", "cuts"), [(2, 3), pytest.param(50, 100, marks=pytest.mark.soak)])
def test_kills_and_cut_connections_under_load_leave_tables_equal(
    make_server: Callable[..., Server], tmp_path: Path, kills: int, cuts: int
) -> None:
    """The source has purged how its tables began, too: they are copied while they change."""
    server = make_server()
    with Load(server, 8) as load:
        load.wait_for(100)
    server.query("FLUSH BINARY LOGS")
    server.query(f"PURGE BINARY LOGS TO '{server.query('SHOW BINARY LOGS')[-1][0]}'")
    with Proxy(server.port, bytes_max=100_000) as proxy:
        config = config_for(
            server, tmp_path, port=proxy.port, tls="required", relay__segment_size_bytes=200_000
        )
        _storm(server, config, tmp_path, proxy, kills, cuts)
    check_tables(config, server, ["t.a", "t.b"])
    report = read_report(config.relay.path)
    assert report and report["SERVICE_STATE"] == "OFF"
    log = open_log(config.relay.path)
    assert log.files[-1].number > 1
    assert applied_file(Control.existing(config.target.path), log) == log.files[-1].number
    purge_applied(config)
    assert len(open_log(config.relay.path).files) == 1

"""Two sources in one process of ``run``: each is followed, fails and is begun again by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.control.records.channels import channel_at, control_of
from spark_repl.control.records.copies import standing
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.gtid import GtidSet
from spark_repl.observe.status.status import status
from tests.support.live.receiving import Command, config_for, processes, toml
from tests.support.live.server import Server

_MOST_S = 240.0


class Channels:
    """``spark-repl run`` with a file for each source; its tables are ``NAME.t``."""

    def __init__(self, folder: Path, servers: dict[str, Server]) -> None:
        self.servers, self.configs, files = servers, dict[str, Config](), list[str]()
        for name, server in servers.items():
            (folder / name).mkdir()
            paths = {
                "relay__path": str(folder / name / "log"),
                "target__path": str(folder / "lake"),
            }
            config = config_for(server, folder, **paths, observe__listen="").override(
                {"channel": name}
            )
            file = folder / f"{name}.toml"
            file.write_text(f'channel = "{name}"\n' + toml(config))
            self.configs[name] = config
            files += ["--config", str(file)]
        self._files = files
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "spark_repl", "run", *self._files, "--json"]
        self.process = Command(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
        processes.append(self.process)

    def cut_of(self, name: str) -> tuple[str, list[tuple[int, int]]]:
        """The channel's newest cut: its GTID set, the rows of its table."""
        config = self.configs[name]
        cut = standing(control_of(config)).cut
        if cut is None or f"{name}.t" not in cut.tables:
            return "", []
        table = cut.tables[f"{name}.t"]
        folder = Layout.of(config.target).table(table.path)
        found = read(folder, table.version, "select id, v from t order by id").to_pylist()
        return cut.gtid_executed, [tuple(row.values()) for row in found]

    def until_equal(self, name: str) -> None:
        server, until = self.servers[name], time.monotonic() + _MOST_S
        want = GtidSet.parse(server.executed)
        while True:
            executed, rows = self.cut_of(name)
            if GtidSet.parse(executed) == want:
                assert rows == [*server.query(f"SELECT id, v FROM {name}.t ORDER BY id")]
                return
            assert self.process.poll() is None, self.process.communicate()[1].decode()[-3000:]
            assert time.monotonic() < until, f"{name}: {executed}, not {want}"
            time.sleep(0.3)  # each look reads the control table

    def until_failed(self, name: str) -> None:
        """Until its status has an error."""
        until = time.monotonic() + _MOST_S
        while True:
            with suppress(Exception):
                target = self.configs[name].target.path
                if status(target, at=channel_at(target, name))["state"] == "failed":
                    return
            assert self.process.poll() is None, self.process.communicate()[1].decode()[-3000:]
            assert time.monotonic() < until, name
            time.sleep(0.3)  # each look reads the control table

    def skip(self, name: str, gtid: str) -> None:
        """By hand, as often as the channel has the target: it is begun again, and fails again."""
        command = [sys.executable, "-m", "spark_repl", "skip", "--channel", name, "--gtid", gtid]
        until = time.monotonic() + _MOST_S
        while True:
            target = self.configs[name].target.path
            done = subprocess.run([*command, "--target", target], capture_output=True, check=False)
            if done.returncode == 0:
                return
            assert b"another applier owns this target" in done.stderr, done.stderr.decode()
            assert time.monotonic() < until, done.stderr.decode()
            time.sleep(0.3)  # the channel gives up the target between two runs


@pytest.mark.slow
def test_one_run_applies_two_sources(make_server: Callable[..., Server], tmp_path: Path) -> None:
    servers = {"eu": make_server(), "us": make_server()}
    for name, server in servers.items():
        server.query(
            f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)"
        )
        server.query(f"INSERT INTO {name}.t VALUES (1, 1), (2, 2)")
    channels = Channels(tmp_path, servers)
    for name in servers:
        channels.until_equal(name)
    for name, server in servers.items():
        server.query(
            f"UPDATE {name}.t SET v = 7 WHERE id = 2", f"INSERT INTO {name}.t VALUES (3, 3)"
        )
        channels.until_equal(name)

    # What one can't apply stops it alone.
    us = servers["us"]
    us.query(
        "SET sql_log_bin = 0", "INSERT INTO us.t VALUES (9, 9)", "SET sql_log_bin = 1",
        "UPDATE us.t SET v = 10 WHERE id = 9",
    )  # fmt: skip
    channels.until_failed("us")
    servers["eu"].query("INSERT INTO eu.t VALUES (4, 4)")
    channels.until_equal("eu")

    # Got past by hand, it is begun again by SIGHUP, or by itself.
    us.query("SET sql_log_bin = 0", "DELETE FROM us.t WHERE id = 9", "SET sql_log_bin = 1")
    last = us.executed.rpartition("-")[2] or us.executed.rpartition(":")[2]
    gtid = f"{us.executed.partition(':')[0]}:{last}"
    channels.skip("us", gtid)
    os.kill(channels.process.pid, signal.SIGHUP)
    us.query("INSERT INTO us.t VALUES (5, 5)")
    channels.until_equal("us")

    channels.process.send_signal(signal.SIGTERM)
    out, err = channels.process.communicate(timeout=_MOST_S)
    assert channels.process.returncode == 0, err.decode()[-3000:]
    results = json.loads(out.splitlines()[-1])
    assert {name: results[name]["gtid_executed"] for name in results} == {
        name: server.executed for name, server in servers.items()
    }
    assert b"channel us stopped by an error, is begun again in 10 s, or at SIGHUP" in err
    assert b"channel eu stopped" not in err and b"eu: starting Spark" in err


@pytest.mark.slow
def test_ctrl_c_ends_every_channel_after_its_group(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """The receivers hear Ctrl-C also. A second run finds nothing that the first has lost."""
    servers = {"eu": make_server(), "us": make_server()}
    for name, server in servers.items():
        server.query(
            f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)"
        )
    channels = Channels(tmp_path, servers)
    for name, server in servers.items():
        channels.until_equal(name)
        server.query(f"INSERT INTO {name}.t VALUES (1, 1)", f"INSERT INTO {name}.t VALUES (2, 2)")
    os.killpg(channels.process.pid, signal.SIGINT)
    out, err = channels.process.communicate(timeout=_MOST_S)
    assert channels.process.returncode == 0, err.decode()[-3000:]
    # The process that Spark asks for a stream's offsets may find its pipe closed at the end.
    traces = err.split(b"Traceback (most recent call last)")[1:]
    assert all(b"pyspark" in trace for trace in traces), err.decode()[-3000:]
    results = json.loads(out.splitlines()[-1])
    for name, server in servers.items():
        executed, rows = channels.cut_of(name)
        assert results[name]["gtid_executed"] == executed
        assert rows == [(n, n) for n in range(1, len(rows) + 1)]
        assert GtidSet.parse(executed).issubset(GtidSet.parse(server.executed))
    channels.start()
    for name in servers:
        channels.until_equal(name)
    os.killpg(channels.process.pid, signal.SIGINT)
    _, err = channels.process.communicate(timeout=_MOST_S)
    assert channels.process.returncode == 0, err.decode()[-3000:]

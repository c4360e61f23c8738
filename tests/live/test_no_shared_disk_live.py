"""``run`` on a cluster whose machines share only a bucket, from a live server into each kind of
object store. Then the driver's whole disk is lost, and a driver with another disk continues."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.config import Config, load
from spark_repl.control.records.copies import last_copy, standing
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy.recopy import ask
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.log.table_log import TableLog
from spark_repl.errors import SparkReplError
from spark_repl.observe.status.status import status
from spark_repl.runtime.object_store import ObjectStore
from tests.support import standalone as cluster
from tests.support.live.killing import children
from tests.support.live.receiving import Process, config_for, processes, wait_for
from tests.support.live.server import PLANTED, Load, Server
from tests.support.stores import SERVERS
from tests.support.wait_until import wait_until

from .test_relay_archive import purge_source, wait_until_archived
from .test_run import Run, check_tables

ROOT = Path(__file__).parents[2]
_WAIT_S = 240.0
_DAY_S = 86_400
_TABLES = ["t.a", "t.b", "t.wide", "t.renamed"]

# Without the bounds the driver does everything small; here every task has to go to an executor.
# VACUUM sees the files as they are after the retention.
_RUN = f"""
import sys
import spark_repl.apply.group.stager, spark_repl.runtime.workers
import spark_repl.write.upkeep.table_maintenance as maintenance
spark_repl.runtime.workers.HERE_LOG_BYTES = spark_repl.apply.group.stager._SHARD_BYTES = 0
spark_repl.runtime.workers.HERE_ROWS = spark_repl.runtime.workers.HERE_FILE_BYTES = 0
now_vacuum = maintenance.vacuum
maintenance.vacuum = lambda folder, remover, now_s, spared: now_vacuum(
    folder, remover, now_s + 30 * {_DAY_S}, spared
)
from spark_repl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
_SPARK = """
spark.driver.host 127.0.0.1
spark.executor.memory 512m
spark.python.daemon.module spark_repl.service.worker_daemon
"""


class Cluster:
    """A master that ``run`` uses, and the folder of drivers, which the workers can't see."""

    def __init__(self, server: Server, target: str, drivers: Path, master: str) -> None:
        self.server, self.target, self.drivers, self.master = server, target, drivers, master

    def config(self, driver: str) -> Config:
        """The configuration of a driver whose disk is a folder of its own."""
        folder = self.drivers / driver
        folder.mkdir()
        return config_for(
            self.server, folder, relay__archive_after_s=1, relay__segment_size_bytes=200_000,
            target__path=self.target, target__state_path=str(folder / "state"),
            target__compact_files=3,
        )  # fmt: skip

    def run(self, config: Config) -> Run:
        folder = Path(config.relay.path).parent
        return Run(config, folder, options=["--master", self.master], program=["-c", _RUN])

    def verify(self, config: Config, *options: str) -> dict[str, Any]:
        """What ``verify`` prints. Rows that change at every look are no fault (exit code 3)."""
        file = Path(config.relay.path).parent / "run.toml"
        command = [sys.executable, "-m", "spark_repl", "verify", "--config", str(file), "--json"]
        verified = subprocess.run(
            [*command, *options], capture_output=True, text=True, check=False, timeout=500
        )
        assert verified.returncode in (0, 3), verified.stdout[-2000:] + verified.stderr[-3000:]
        found: dict[str, Any] = json.loads(verified.stdout.splitlines()[-1])
        return found


def _prepare(server: Server) -> None:
    server.query(
        "CREATE DATABASE t",
        "CREATE TABLE t.wide (id INT PRIMARY KEY, v VARCHAR(200), n INT)",
        "SET SESSION cte_max_recursion_depth = 10000",
        "INSERT INTO t.wide WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r"
        " WHERE i < 5000) SELECT i, REPEAT('v', i % 200), i FROM r",
    )


def _change_definitions(server: Server) -> None:
    server.query(
        "ALTER TABLE t.wide ADD COLUMN extra INT NOT NULL DEFAULT 5, DROP COLUMN n",
        "UPDATE t.wide SET v = UPPER(v) WHERE id % 3 = 0",
        "ALTER TABLE t.b ADD COLUMN note VARCHAR(20) DEFAULT 'new'",
        "CREATE TABLE t.later AS SELECT id, v FROM t.wide",
        "ALTER TABLE t.later ADD PRIMARY KEY (id)",
        "RENAME TABLE t.later TO t.renamed",
        "DELETE FROM t.renamed WHERE id % 2 = 0",
        "CREATE TABLE t.gone (id INT PRIMARY KEY)", "INSERT INTO t.gone VALUES (1)",
        "DROP TABLE t.gone",
    )  # fmt: skip


def _prepare_branches(server: Server) -> None:
    """Leave the branch ``left`` prepared, after another one was committed."""
    for name, key in (("ended", 1_000_001), ("left", 1_000_002)):
        server.query(
            f"XA START '{name}'", f"INSERT INTO t.a VALUES ({key}, 7, '{name}')",
            f"UPDATE t.wide SET v = '{name}' WHERE id = {key % 100}", f"XA END '{name}'",
            f"XA PREPARE '{name}'",
        )  # fmt: skip
    server.query("XA COMMIT 'ended'")


def _copy_again(config: Config, table: str) -> None:
    control = Control.existing(config.target.path)
    request = ask(config, (table,))

    def is_shown() -> bool:
        copy = last_copy(control)
        assert copy is None or not copy.error, copy
        asked = copy is not None and copy.asked == request and copy.until is not None
        return asked and standing(control).copy is None

    wait_until(is_shown, _WAIT_S, each_s=0.2)


def _operations(config: Config, table: str) -> list[str]:
    """The operations of a table's commits, of those that its log still has."""
    folder = Layout.of(config.target).table(table)
    commits = (read_commit(folder, n) or () for n in range(TableLog().version(folder) + 1))
    infos = [action["commitInfo"] for actions in commits for action in actions
             if "commitInfo" in action]  # fmt: skip
    return [str(info.get("operation")) for info in infos]


def _data_files(config: Config, table: str) -> set[str]:
    names = ObjectStore().walk(Layout.of(config.target).table(table))
    return {name for name, _ in names if name.endswith(".parquet") and "_delta_log" not in name}


def _vacuum(config: Config, server: Server, run: Run) -> None:
    """Have the run's next upkeep of t.a remove what no version names. No commit is under way."""
    layout, before = Layout.of(config.target), _data_files(config, "t/a")
    now = time.time()
    note = layout.vacuumed("t/a")
    wait_until(lambda: os.path.exists(note))  # the run looks whether VACUUM is due
    os.utime(note, (now - 2 * _DAY_S, now - 2 * _DAY_S))
    server.query("INSERT INTO t.a VALUES (1000003, 1, 'the last')")
    run.wait_for(server.executed)
    wait_until(lambda: os.path.getmtime(note) > now - 1, _WAIT_S, each_s=0.2)
    assert len(before - _data_files(config, "t/a")) > 5


def _first_driver(machines: Cluster) -> None:
    """Copies, DDL, XA, compaction, VACUUM and verify; then the driver ends, and its receiver
    archives more than the target has."""
    server, config = machines.server, machines.config("first")
    run = machines.run(config)
    with Load(server, 2, seed=1, pause_s=0.05) as load:
        load.wait_for(20)
        run.wait_for_cut()
        _change_definitions(server)
        _prepare_branches(server)
        _copy_again(config, "t.wide")
        assert machines.verify(config)["differing"] == 0
    run.wait_for(server.executed)
    wait_until(lambda: "OPTIMIZE" in _operations(config, "t/a"), _WAIT_S, each_s=1)
    _vacuum(config, server, run)
    run.stop()
    receiver = Process(config, machines.drivers / "first")
    receiver.start()
    with Load(server, 2, seed=2) as load:
        load.wait_for(200)
    wait_for(config, server.executed)
    wait_until_archived(config)
    receiver.kill()
    purge_source(server)


def _second_driver(machines: Cluster) -> None:
    server, config = machines.server, machines.config("second")
    run = machines.run(config)
    with Load(server, 2, seed=3, pause_s=0.05) as load:
        run.wait_for_cut()
        load.wait_for(20)
        server.query("XA COMMIT 'left'", "ALTER TABLE t.renamed ADD COLUMN after INT DEFAULT 1")
        _copy_again(config, "t.b")
    run.wait_for(server.executed)
    run.stop()
    found = machines.verify(config, "--master", machines.master)
    assert (found["differing"], found["tables"]) == (0, len(_TABLES))
    check_tables(config, server, _TABLES)
    assert (1_000_002, 7, "left") in server.query("SELECT * FROM t.a")


@pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing())
@pytest.mark.parametrize(
    "kind",
    [pytest.param("s3", marks=pytest.mark.slow)]
    + [pytest.param(kind, marks=pytest.mark.soak) for kind in ("azure", "google")],
)
def test_another_driver_continues_from_the_bucket(
    make_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    server = make_server()
    _prepare(server)
    drivers, settings = tmp_path / "drivers", tmp_path / "settings"
    drivers.mkdir(mode=0o700)
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(_SPARK)
    with SERVERS[kind](tmp_path) as store:
        for name, value in {**store.environment, "SPARK_CONF_DIR": str(settings)}.items():
            monkeypatch.setenv(name, value)
        with cluster.standalone(tmp_path, drivers, store.environment) as master:
            machines = Cluster(server, f"{store.base}/lake", drivers, master)
            _first_driver(machines)
            shutil.rmtree(drivers / "first")
            _second_driver(machines)


@pytest.mark.soak
@pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing())
def test_submit_sh_of_init_follows_on_a_standalone_cluster(
    make_server: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, drivers = make_server(), tmp_path / "drivers"
    drivers.mkdir(mode=0o700)
    with SERVERS["s3"](tmp_path) as store:
        words = ["--offline", "--on", "standalone", "--host", "127.0.0.1", "--user", "planted"]
        words += ["--port", str(server.port), "--password-command", f"printf {PLANTED}"]
        words += ["--target", f"{store.base}/lake", "--config", str(drivers / "my.toml")]
        assert main(["init", *words]) == 0
        config = load(drivers / "my.toml")
        for name, value in {**store.environment, "PYTHONPATH": str(ROOT)}.items():
            monkeypatch.setenv(name, value)
        with cluster.standalone(tmp_path, drivers, {}) as master:
            environment = {**os.environ, "MASTER": master, "PYSPARK_PYTHON": sys.executable,
                           "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}  # fmt: skip
            options = ["--executor-memory", "512m", "--conf", "spark.driver.host=127.0.0.1"]
            submit = subprocess.Popen(
                ["sh", "submit.sh", *options], cwd=drivers, env=environment, process_group=0,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            processes.append(submit)
            with Load(server, 2) as load_:
                load_.wait_for(200)
            wait_for_cut(submit, config, server.executed)
            (driver,) = (
                pid for pid, line in children(submit.pid).items()
                if line.startswith(sys.executable) and "job.py my.toml" in line
            )  # fmt: skip
            os.kill(driver, signal.SIGTERM)
            _, err = submit.communicate(timeout=_WAIT_S)
            assert submit.returncode == 0, err.decode()[-5000:]
        check_tables(config, server, ["t.a", "t.b"])


def wait_for_cut(submit: subprocess.Popen[bytes], config: Config, executed: str) -> None:
    def is_shown() -> bool:
        assert submit.poll() is None, submit.communicate()[1].decode()[-5000:]
        try:
            return str(status(config.target.path)["gtid_executed"]) == executed
        except SparkReplError:  # nothing is there yet
            return False

    wait_until(is_shown, _WAIT_S, each_s=0.5)

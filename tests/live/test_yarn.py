"""The jobs on YARN, in client and in cluster mode: executors are lost, added and excluded, and the
driver's container is killed. Nothing is lost and nothing is doubled.

MiniYARNCluster of Hadoop runs on this machine. Each driver is in a PID namespace of its own, so
that the next one can't see whether it lives, as on another host.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.owner import Owner
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.demo.expected import differences, expected_tables
from spark_repl.observe.status.status import status
from spark_repl.user_cache import cache_folder
from tests.support import standalone
from tests.support.live.receiving import config_for, toml
from tests.support.live.server import Load, Server
from tests.support.s3_server import BUCKET, s3_server
from tests.support.wait_until import wait_until
from tests.support.yarn import Yarn, yarn

from .test_run import check_tables
from .test_store_kills import check_applied_once

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]
LEASE_S, _WAIT_S = 10, 300.0
_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
# Without the bounds everything small is done in the driver; here executors have to.
_JOB = """
import runpy, sys
import spark_repl.apply.group.stager, spark_repl.runtime.workers
spark_repl.runtime.workers.HERE_LOG_BYTES = spark_repl.apply.group.stager._SHARD_BYTES = 0
spark_repl.runtime.workers.HERE_ROWS = spark_repl.runtime.workers.HERE_FILE_BYTES = 0
runpy.run_path({job!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn") / "cluster") as running:
        yield running


def job(folder: Path, name: str) -> Path:
    file = folder / f"{name}_job.py"
    file.write_text(_JOB.format(job=str(ROOT / "jobs" / f"{name}.py")))
    return file


def settings(store: dict[str, str], folder: Path) -> dict[str, str]:
    """What driver and executors need in their containers."""
    variables = {
        **store, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable,
        "SPARK_REPL_CACHE": str(cache_folder()), "SPARK_REPL_FAILING": str(folder / "failing"),
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYTHONFAULTHANDLER": "1",  # if a driver aborts, its log shows the threads
    }  # fmt: skip
    places = ("spark.yarn.appMasterEnv", "spark.executorEnv")
    return {
        **{f"{place}.{name}": value for place in places for name, value in variables.items()},
        "spark.executor.instances": "2",
        # A task on an executor that has failed excludes it. All executors are on one host.
        "spark.excludeOnFailure.enabled": "true",
        "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "1",
        "spark.excludeOnFailure.application.maxFailedExecutorsPerNode": "100",
        "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode": "100",
        "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "7",
        "spark.excludeOnFailure.killExcludedExecutors": "true",
        "spark.executor.maxNumFailures": "100",
        "spark.task.maxFailures": "8",
        "spark.yarn.maxAppAttempts": "2",
        "spark.python.daemon.module": "tests.support.failing_executor",
    }


def succeeds(ran: subprocess.Popen[str], cluster: Yarn) -> str:
    out, _ = ran.communicate(timeout=_WAIT_S)
    assert ran.returncode == 0, cluster.logs()[-20000:]
    return out


def driver_python(folder: Path) -> Path:
    """A Python whose processes see no process outside of them."""
    file = folder / "driver_python"
    words = [*standalone.NAMESPACE, "--pid", "--fork", "--kill-child", "--mount-proc"]
    file.write_text(f'#!/bin/sh\nexec {shlex.join([*words, sys.executable])} "$@"\n')
    file.chmod(0o700)
    return file


class Following:
    """``jobs/run.py`` in cluster mode, whose driver, relay log and state are in a container."""

    def __init__(self, cluster: Yarn, server: Server, store: dict[str, str], folder: Path) -> None:
        self.cluster, self.server, self.folder = cluster, server, folder
        self.config = config_for(
            server, folder, relay__path="relay", relay__archive_after_s=1,
            target__path=f"s3://{BUCKET}/cluster", target__state_path="state",
            apply__lease_s=LEASE_S, observe__listen="",
        )  # fmt: skip
        self.file = folder / "replica.toml"
        self.file.write_text(toml(self.config))
        self.settings = settings(store, folder)
        own = {
            "spark.pyspark.driver.python": str(driver_python(folder)),
            "spark.yarn.dist.files": str(self.file),
        }
        self.ran = cluster.submit(
            "cluster", job(folder, "run"), self.file.name, settings={**self.settings, **own}
        )

    def wait_for_cut(self) -> None:
        wait_until(self.executed, _WAIT_S, each_s=0.5)

    def catch_up(self) -> None:
        """Wait until a cut has all that the source has executed."""
        wait_until(lambda: self.executed() == self.server.executed, _WAIT_S, each_s=0.5)

    def executed(self) -> str:
        assert self.ran.poll() is None, self.cluster.logs()[-20000:]
        with suppress(Exception):  # nothing is there yet
            return str(status(self.config.target.path)["gtid_executed"])
        return ""

    def owner(self) -> Owner:
        found = Control.existing(self.config.target.path).owner()
        assert found is not None
        return found[1]

    def wait_for_executors(self, gone: int) -> None:
        """Wait until ``gone`` is no executor any more, and there are two."""
        found = self.cluster.executors
        wait_until(lambda: len(found()) == 2 and gone not in found(), _WAIT_S, each_s=0.5)

    def lose_executor(self) -> None:
        self.wait_for_executors(gone=0)
        victim = self.cluster.executors()[0]
        self.cluster.kill_container(victim)
        self.wait_for_executors(gone=victim)

    def exclude_executor(self) -> None:
        """Have each task of an executor fail, until Spark excludes the executor and replaces it."""
        victim = self.cluster.executors()[0]
        failing = Path(self.settings["spark.executorEnv.SPARK_REPL_FAILING"])
        failing.write_text(self.cluster.container(victim))
        self.wait_for_executors(gone=victim)
        assert failing.with_suffix(".pids").read_text().splitlines()

    def driver(self) -> int:
        return self.cluster.processes(f"{sys.executable} run_job.py")[-1]

    def kill_driver(self) -> None:
        """Kill the driver's container, and wait for the owner that follows it."""
        former, masters = self.owner(), self.cluster.processes(_MASTER)
        # While it is open, Linux gives the namespace's number to no other.
        namespace = os.open(f"/proc/{self.driver()}/ns/pid", os.O_RDONLY)
        try:
            self.cluster.kill_container(masters[-1])
            wait_until(lambda: self.owner() != former, _WAIT_S, each_s=0.5)
        finally:
            os.close(namespace)
        assert former.has_lease_elsewhere and not former.released
        assert self.owner().pid_namespace != former.pid_namespace
        assert "if it does not renew its lease" in self.cluster.logs()

    def stop(self) -> None:
        os.kill(self.driver(), signal.SIGTERM)
        succeeds(self.ran, self.cluster)


@pytest.fixture(autouse=True)
def environment(store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests themselves, and a driver in client mode, find the store and the package by."""
    for name, value in {**store, "PYTHONPATH": str(ROOT)}.items():
        monkeypatch.setenv(name, value)


def test_client_mode_gives_the_servers_tables(
    bank: Path, cluster: Yarn, store: dict[str, str], tmp_path: Path
) -> None:
    config = Config.from_mapping({
        "relay": {"path": str(bank)},
        "target": {"path": f"s3://{BUCKET}/client", "state_path": str(tmp_path / "state")},
    })  # fmt: skip
    file = tmp_path / "replica.toml"
    file.write_text(toml(config))
    words, own = [str(file), "--available-now"], settings(store, tmp_path)
    succeeds(cluster.submit("client", job(tmp_path, "replicate"), *words, settings=own), cluster)
    for name, columns, want in expected_tables(bank / "expected"):
        table = read(f"s3a://{BUCKET}/client/{name.replace('.', '/')}")
        got = [tuple(row.values()) for row in table.to_pylist()]
        assert differences(table.column_names, got, columns, want)[:5] == [], name


@pytest.mark.skipif(bool(standalone.missing()), reason=standalone.missing())
def test_cluster_mode_outlives_its_executors_and_its_drivers_container(
    make_server: Callable[..., Server], cluster: Yarn, store: dict[str, str], tmp_path: Path
) -> None:
    server = make_server()
    with Load(server, 2, pause_s=0.2) as load:
        load.wait_for(20)
        following = Following(cluster, server, store, tmp_path)
        following.wait_for_cut()
        following.lose_executor()
        following.exclude_executor()
        following.kill_driver()
    following.catch_up()
    following.stop()
    check_tables(following.config, server, ["t.a", "t.b"])
    layout = Layout.of(following.config.target)
    for at in Control(layout.control).cuts()[-1].tables.values():
        check_applied_once(layout.table(at.path))
    verify = cluster.submit(
        "client", job(tmp_path, "verify"), str(following.file), "--json",
        settings=following.settings,
    )  # fmt: skip
    found = json.loads(succeeds(verify, cluster).splitlines()[-1])
    assert (found["tables"], found["differing"], found["not_compared"]) == (2, 0, {})

"""Spark Connect gives the same tables: its sessions have neither RDDs nor a JVM of this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_repl.runtime.spark_release import spark_release
from tests.spark.lab import assert_applied_once, assert_server_state_elsewhere
from tests.support.connect_server import connect_server
from tests.support.wait_until import wait_until

# pyspark is either classic or a client in a process, hence a process of its own. Without the
# bounds everything small is done in it; here every task has to go to the server.
_SCRIPT = """
import sys, time
import spark_repl.apply.group.stager, spark_repl.runtime.workers
spark_repl.runtime.workers.HERE_LOG_BYTES = spark_repl.apply.group.stager._SHARD_BYTES = 0
spark_repl.runtime.workers.HERE_ROWS = 0
from spark_repl import Config, Replica
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.runtime.spark_session import build_session
from spark_repl.verify.verifier import VerifyLimits
from spark_repl.verify.verify_run import between
from spark_repl.runtime.spark_jobs import run_job
def place_of(item):
    from pyspark import TaskContext
    return item, TaskContext.get().partitionId()
server, relay, target = sys.argv[1:]
spark = build_session(master=server)
config = Config.from_mapping({
    "relay": {"path": relay}, "target": {"path": target},
    "apply": {"workers": 2, "group_max_transactions": 1000},
})
with Replica(spark, config) as replica:
    print("groups:", replica.apply().counters.groups)
cuts = sorted(Control(Layout.of(config.target).control).cuts(), key=lambda cut: cut.position)
middle = cuts[len(cuts) // 2].gtid_executed
found = between(config, (middle, "latest"), (), VerifyLimits(), server)
print("compared:", found["tables"])
places = run_job(spark, place_of, range(40))
assert [item for item, _ in places] == [*range(40)] and len({at for _, at in places}) == 40, places
"""


@pytest.mark.slow
def test_a_connect_server_applies_a_log_and_compares_cuts(bank: Path, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    with connect_server(tmp_path) as address:
        ran = subprocess.run(
            [sys.executable, "-c", _SCRIPT, address, str(bank), str(target)],
            capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "compared:" in ran.stdout
    assert_server_state_elsewhere(target, bank / "expected")
    assert_applied_once(target)


def test_an_address_where_no_server_answers_is_named(bank: Path, tmp_path: Path) -> None:
    given = ["--relay", str(bank), "--target", str(tmp_path / "lake"), "--follow"]
    ran = subprocess.run(
        [sys.executable, "-m", "spark_repl", "apply", *given, "--master", "sc://127.0.0.1:1"],
        capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "no Spark Connect server answers at sc://127.0.0.1:1: " in ran.stderr
    assert "Try: start the server" in ran.stderr and "Traceback" not in ran.stderr


_REFUSED = """
import os, sys
from spark_repl.errors import SparkReplError
from spark_repl.runtime.spark_jobs import keep_alive, run_job
from spark_repl.runtime.spark_session import build_session
from spark_repl.runtime.workers import Workers
server, size = sys.argv[1], int(sys.argv[2])
spark = build_session(master=server)
sys.stdin.readline()
for work in (lambda: Workers(spark, 2).run(len, [os.urandom(size)]), lambda: keep_alive(spark)):
    try:
        print(work())
    except SparkReplError as error:
        print(type(error).__name__, error, error.hint)
"""


def refused(folder: Path, settings: dict[str, str], size: int, logged: str) -> str:
    """What a job of one task of ``size`` bytes returns, after the server has logged a text."""
    with connect_server(folder, settings) as address:
        ran = subprocess.Popen(
            [sys.executable, "-c", _REFUSED, address, str(size)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        )  # fmt: skip
        wait_until(lambda: logged in (folder / "connect.log").read_text(), each_s=0.1)
        out, err = ran.communicate("\n", timeout=300)
    assert ran.returncode == 0, err[-3000:]
    return out


@pytest.mark.slow
def test_a_session_that_the_server_has_ended_is_named(tmp_path: Path) -> None:
    """An applier that begins again gets another session."""
    # The session must not end while it is being built.
    times = {"defaultSessionTimeout": "5s", "maintenanceInterval": "1s"}
    settings = {f"spark.connect.session.manager.{name}": time for name, time in times.items()}
    said = refused(tmp_path, settings, 1, " that expired")
    assert said.startswith("JvmEndedError the Spark Connect server has ended, or has ended"), said
    assert "SESSION" in said and "start again" in said and said.count("JvmEndedError") == 2


@pytest.mark.slow
def test_a_task_above_the_limit_of_a_message_is_sent_or_named(tmp_path: Path) -> None:
    """Since 4.1 pyspark sends larger tables in parts."""
    said = refused(tmp_path, {"spark.connect.grpc.maxInboundMessageSize": "1m"}, 3_000_000, "")
    if spark_release() == "4.0":
        assert said.startswith("ConfigError a message of Spark Connect is too large: "), said
        assert "--conf spark.connect.grpc.maxInboundMessageSize=" in said
    else:
        assert said == "[3000000]\nNone\n"

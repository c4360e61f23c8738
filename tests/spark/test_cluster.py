"""Executors in processes of their own give the same tables as threads of the driver do."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark.lab import (
    assert_applied_once,
    assert_rows,
    assert_server_state_elsewhere,
    cuts,
)
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.live.killing import children
from tests.support.wait_until import wait_until

# One JVM has one master, hence a process of its own. Without the bounds everything small is done
# in the driver; here every task has to go to an executor.
_SCRIPT = """
import sys
import spark_repl.apply.group.stager, spark_repl.runtime.workers
spark_repl.runtime.workers.HERE_LOG_BYTES = spark_repl.apply.group.stager._SHARD_BYTES = 0
spark_repl.runtime.workers.HERE_ROWS = 0
from spark_repl import Config, Replica
from spark_repl.runtime.spark_session import build_session
spark = build_session(master="local-cluster[2,1,1024]")
config = Config.from_mapping({
    "relay": {"path": sys.argv[1]}, "target": {"path": sys.argv[2]}, "apply": {"workers": 2},
})
config = config.override({"apply.group_max_transactions": int(sys.argv[3])})
with Replica(spark, config) as replica:
    print("task retries:", replica.apply().counters.task_retries)
# Executors read and write files by the driver's settings, and have Hadoop's and Delta's classes.
spark.range(1).write.format("delta").save(sys.argv[2] + "-beside")
spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "4")  # not 10,000 tasks
spark.sql(f"VACUUM delta.`{sys.argv[2]}-beside`")
spark.stop()
"""
_FOLLOW = """
import signal, sys
import spark_repl.apply.group.stager, spark_repl.runtime.workers
spark_repl.runtime.workers.HERE_LOG_BYTES = spark_repl.apply.group.stager._SHARD_BYTES = 0
spark_repl.runtime.workers.HERE_ROWS = 0
from spark_repl import Config, Replica
from spark_repl.runtime.spark_session import build_session
settings = {"enabled": "true", "minExecutors": "0", "executorIdleTimeout": "1s"}
spark = build_session(
    master="local-cluster[2,1,1024]", delta=False,
    settings={f"spark.dynamicAllocation.{key}": value for key, value in settings.items()},
)
config = Config.from_mapping({"relay": {"path": sys.argv[1]}, "target": {"path": sys.argv[2]}})
with Replica(spark, config) as replica:
    signal.signal(signal.SIGTERM, lambda *_: replica.stop())
    replica.apply(follow=True)
spark.stop()
"""
A = Table("a")


def start(script: str, *words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(words[1]).parent,
    )


def executors(driver: int) -> set[int]:
    return {pid for pid, name in children(driver).items() if "CoarseGrainedExecutor" in name}


@pytest.mark.slow
def test_executors_of_their_own_give_the_servers_tables(bank: Path, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    ran = start(_SCRIPT, bank, target, "100000")
    _, said = ran.communicate(timeout=600)
    assert ran.returncode == 0, said[-3000:]
    assert_server_state_elsewhere(target, bank / "expected")
    assert_applied_once(target)


@pytest.mark.slow
def test_dynamic_allocation_removes_and_adds_executors_while_it_follows(tmp_path: Path) -> None:
    target, log, seen = tmp_path / "lake", LogWriter(tmp_path / "log"), set[int]()
    log.ddl(A.create)
    ran = start(_FOLLOW, log.folder, target)

    def is_cut(last: int) -> bool:
        assert ran.poll() is None, ran.communicate()[1][-3000:]
        seen.update(executors(ran.pid))
        found = cuts(target) if (target / "_repl").exists() else []
        return bool(found) and found[-1].gtid_executed.endswith(f"-{last}")

    try:
        for key in range(2):
            log.transaction(insert(A, (key, "x")))
            wait_until(lambda: is_cut(log.gno - 1), 240, each_s=0.1)
            wait_until(lambda: not executors(ran.pid), 240, each_s=0.1)  # there is nothing to do
    finally:
        ran.terminate()
        _, said = ran.communicate(timeout=240)
    assert ran.returncode == 0, said[-3000:]
    assert len(seen) >= 2, "each transaction got an executor of its own"
    assert_rows(None, target, A, [(0, "x"), (1, "x")])
    assert_applied_once(target)


@pytest.mark.soak
def test_killed_executors_tasks_run_again_and_apply_once(bank: Path, tmp_path: Path) -> None:
    """Executors die under the tasks: Spark tries these again, elsewhere, and so do we."""
    target, kills, dice = tmp_path / "lake", 0, random.Random(1)
    ran = start(_SCRIPT, bank, target, "50")
    while ran.poll() is None and kills < 8:
        before = len(cuts(target))
        wait_until(
            lambda before=before: ran.poll() is not None or len(cuts(target)) >= before + 3,
            600, each_s=0.2,
        )  # fmt: skip
        time.sleep(dice.uniform(0, 1))  # executors are killed at any moment
        if found := [*executors(ran.pid)]:
            os.kill(dice.choice(found), signal.SIGKILL)
            kills += 1
    out, said = ran.communicate(timeout=600)
    print(f"{kills} executors killed; {out.strip()}")
    assert ran.returncode == 0, said[-3000:]
    assert kills >= 3
    assert_server_state_elsewhere(target, bank / "expected")
    assert_applied_once(target)

"""The JVM is killed as a compaction's commit appears in the log: its file is live, and stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl.delta.store.delta_rs_read import read
from tests.spark.lab import assert_rows, cuts, run
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.wait_until import wait_until
from tests.support.with_spark import WITH_SPARK

A = Table("a")
ROWS = 24


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    for key in range(ROWS):
        made.transaction(insert(A, (key, f"v{key}")))
    return made


def java_below(pid: int) -> list[int]:
    """The JVMs that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                name = (entry / "comm").read_text().strip()
            except OSError:
                continue
            if name == "java" and int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def kill_behind_a_rewrite(applier: int, log: Path, timeout_s: float) -> bool:
    """Kill the applier's JVM as soon as the table's log has an OPTIMIZE. The JVM may start later:
    it starts while the first groups are applied."""
    seen, until = set[str](), time.monotonic() + timeout_s
    while time.monotonic() < until:
        names = os.listdir(log) if log.is_dir() else []
        for name in sorted(name for name in names if name[0] == "0" and name.endswith(".json")):
            if name not in seen and '"OPTIMIZE"' in (log / name).read_text("utf-8"):
                wait_until(lambda: java_below(applier))
                for pid in java_below(applier):
                    os.kill(pid, signal.SIGKILL)
                return True
            seen.add(name)
        time.sleep(0.001)  # the kill has to come before the next commit
    return False


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.spark
def test_jvm_is_killed_behind_the_rewrite(spark: SparkSession, log: LogWriter, tmp_path: Path):
    target = tmp_path / "lake"
    config = tmp_path / "replica.toml"
    config.write_text(
        f'[relay]\npath = "{log.folder}"\n[target]\npath = "{target}"\ncompact_files = 4\n'
        "[apply]\ngroup_max_transactions = 1\n"
    )
    command = [*WITH_SPARK, "apply", "--follow", "--config", str(config)]
    with (tmp_path / "out.txt").open("wb") as out:
        applier = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=tmp_path, start_new_session=True
        )
    try:
        assert kill_behind_a_rewrite(applier.pid, target / "t" / "a" / "_delta_log", 120)
        assert applier.wait(120) == 1
        said = (tmp_path / "out.txt").read_text("utf-8")
        # The JVM may still be starting: small groups are folded without it.
        assert "Error: Spark's JVM has ended" in said or "Error: Spark does not start" in said
        assert "in vain" not in said
        assert "put off" not in said, "a JVM that is gone puts nothing off"
    finally:
        if applier.poll() is None:
            os.killpg(applier.pid, signal.SIGKILL)
            applier.wait()
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(key, f"v{key}") for key in range(ROWS)])
    for cut in cuts(target):
        if at := cut.tables.get("t.a"):
            count = len(read(str(target / at.path), at.version))
            assert count == max(0, len_of(cut.gtid_executed))


def len_of(executed: str) -> int:
    """Rows that a cut has: each transaction behind the two statements brings one."""
    return int(executed.replace("-", ":").rsplit(":", 1)[1]) - 2

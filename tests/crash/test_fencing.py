"""Two appliers on one channel: one works, the other stops with an error that names the first.

Started together: ``unit/control/table/test_control.py``. Started second, and stopped (SIGSTOP) in
mid-commit, overtaken and woken: here, as processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl import Replica
from spark_repl.config import load
from spark_repl.errors import FencedError
from tests.spark.lab import assert_applied_once, assert_server_state_elsewhere, cuts
from tests.support.wait_until import wait_until

_WAIT_S = 240


def state_of(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return stat.rpartition(")")[2].split()[0]


@pytest.mark.slow
def test_an_applier_that_slept_in_mid_commit_is_fenced(
    spark: SparkSession, bank: Path, tmp_path: Path
) -> None:
    target = tmp_path / "lake"
    file = tmp_path / "replica.toml"
    file.write_text(
        f'[relay]\npath = "{bank}"\n[target]\npath = "{target}"\n'
        "[apply]\ngroup_max_transactions = 400\n"
    )
    command = [sys.executable, "-m", "spark_repl", "apply", "--config", str(file)]
    environment = {**os.environ, "SPARK_REPL_CRASH": "between_tables:3:STOP"}
    first = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: state_of(first.pid) == "T" or first.poll() is not None, _WAIT_S)
        assert first.poll() is None
        config = load(file)
        with pytest.raises(FencedError, match=f"pid {first.pid} on host"):
            Replica(spark, config).start()
        with Replica(spark, config, take_over=True) as second:
            second.apply()
        before = len(cuts(target))
        first.send_signal(signal.SIGCONT)
        _, said = first.communicate(timeout=_WAIT_S)
    finally:
        first.kill()
    assert first.returncode == 1, said[-9000:]
    assert f"pid {os.getpid()} on host" in said, said[-9000:]
    assert len(cuts(target)) == before
    assert_server_state_elsewhere(target, bank / "expected")
    assert_applied_once(target)

"""Executors in processes of their own give the same tables as threads of the driver do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.spark.lab import assert_applied_once, assert_server_state

# One JVM has one master, hence a process of its own. Without the bounds everything small is done
# in the driver; here every task has to go to an executor.
_SCRIPT = """
import sys
import spark_repl.stager, spark_repl.group
spark_repl.stager.HERE_BYTES = spark_repl.stager._SHARD_BYTES = 0
spark_repl.group._HERE_ROWS = 0
from spark_repl import Config, Replica
from spark_repl.session import build_session
spark = build_session(master="local-cluster[2,1,1024]")
config = Config.from_mapping({
    "relay": {"path": sys.argv[1]}, "target": {"path": sys.argv[2]}, "apply": {"workers": 2},
})
with Replica(spark, config) as replica:
    replica.apply()
spark.stop()
"""


def test_local_cluster(spark, bank: Path, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(bank), str(target)],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert_server_state(spark, target, bank / "expected")
    assert_applied_once(target)

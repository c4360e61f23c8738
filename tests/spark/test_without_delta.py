"""The applier needs no Delta in its JVM: no jar, no package, no extension."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.lab import assert_server_state_elsewhere

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
sys.modules["delta"] = None

from pyspark.sql import SparkSession
from spark_repl import cut
from spark_repl.cli.main import main
from spark_repl.errors import SetupError
from spark_repl.runtime import workers

workers.HERE_LOG_BYTES = workers.HERE_ROWS = 0  # every group needs Spark
log, target = sys.argv[1:]
code = main(["apply", "--relay", log, "--target", target, "--json"])
spark = SparkSession.active()
try:
    cut(spark, target).table("bank.account")
except SetupError as error:
    reader = f"{error.message}: {error.hint}"
settings = spark.sparkContext.getConf().getAll()
print(json.dumps({
    "code": code, "reader": reader, "delta": [name for name, value in settings if "delta" in value],
    "jars": [name for name, _ in settings if name in ("spark.jars", "spark.driver.extraClassPath")],
}))
"""


@pytest.mark.slow
def test_a_log_is_applied_from_an_empty_cache(bank: Path, tmp_path: Path) -> None:
    cache, target = tmp_path / "cache", tmp_path / "lake"
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(bank), str(target)],
        cwd=ROOT,
        env={**os.environ, "SPARK_REPL_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    seen: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    reader = seen.pop("reader")
    assert "it has no Delta" in reader and "build_session()" in reader
    assert seen == {"code": 0, "delta": [], "jars": []}
    assert not (cache / "jars").exists()
    assert_server_state_elsewhere(target, bank / "expected")

"""``build_session`` in a process that has a session already: that one stays as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_repl.runtime.java import delta_jars

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession

jars, target = sys.argv[1:]
theirs = (
    SparkSession.builder.master("local[1]").config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.session.timeZone", "Europe/Berlin").getOrCreate()
)
theirs.conf.set("spark.sql.shuffle.partitions", "64")
root = theirs.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger()

def look():
    java = theirs.sparkContext._jsc.hadoopConfiguration()
    settings = {key: value for key, value in theirs.conf.getAll.items()}
    return settings, str(root.getLevel()), {e.getKey(): e.getValue() for e in java.iterator()}

before = look()
from spark_repl import MySQLRelaySource, build_session

own = build_session("mine", target=target, settings={"spark.sql.shuffle.partitions": "3"})
own.dataSource.register(MySQLRelaySource)
own.createDataFrame([(1,), (2,)], "id int").createOrReplaceTempView("ours")
rows = own.sql("SELECT count(*) AS n FROM ours").collect()[0].n
print(json.dumps({
    "same": before == look(),
    "context": own.sparkContext is theirs.sparkContext, "session": own is theirs,
    "again": build_session() is own,
    "partitions": own.conf.get("spark.sql.shuffle.partitions"),
    "zone": own.conf.get("spark.sql.session.timeZone"),
    "views": [one.name for one in theirs.catalog.listTables()], "rows": rows,
    "active": SparkSession.builder.getOrCreate() is theirs,
}))
"""


@pytest.mark.slow
def test_a_session_that_is_there_keeps_its_settings(tmp_path: Path) -> None:
    words = [",".join(map(str, delta_jars())), str(tmp_path / "lake")]
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    seen: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert seen.pop("rows") == 2
    assert seen == {
        "same": True, "context": True, "session": False, "again": True, "partitions": "2",
        "zone": "UTC", "views": [], "active": True,
    }  # fmt: skip

"""The first time that a Spark with default settings opens a table.

    python -m tests.bench.first_open [--commits 10000] [--rows 100000] [--rounds 3]

Makes two tables with the same rows and as many commits: one of the applier's, and one of Spark's.
The later commits add one of the table's files again; the last checkpoint is a
hundred commits old. Each round opens each table in a new Spark, by turns, and counts its rows.
Prints JSON: for each table and round the seconds from the ready session to the count, and the
seconds of a second count in that session.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_repl import Config, Replica
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import opened
from spark_repl.runtime.spark_session import build_session
from tests.support.binlog_writer import LogWriter, Table, insert

_OPEN = """
import json, sys, time
from pyspark.sql import SparkSession
from spark_repl.runtime.java import delta_jars
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.jars", ",".join(delta_jars()))
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
spark.range(10).count()
found = []
for _ in range(2):
    began = time.perf_counter()
    rows = spark.read.format("delta").load(sys.argv[1]).count()
    found.append(round(time.perf_counter() - began, 2))
print(json.dumps({"rows": rows, "seconds": found}))
"""
_BEHIND = 100
"""commits since the last checkpoint"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder:
        tables = made(Path(folder), options.rows, options.commits)
        found: dict[str, list[Any]] = {name: [] for name in tables}
        for _ in range(options.rounds):
            for name, table in tables.items():
                ran = subprocess.run(
                    [sys.executable, "-c", _OPEN, table], check=True, stdout=subprocess.PIPE
                )
                answer = json.loads(ran.stdout)
                assert answer["rows"] == options.rows
                found[name].append(answer["seconds"])
        print(json.dumps(found))


def made(folder: Path, rows: int, commits: int) -> dict[str, str]:
    """Return the folders of the two tables."""
    spark = build_session(master="local[2]")
    log = LogWriter(folder / "log")
    table = Table("a")
    log.ddl(table.create)
    log.transaction(insert(table, *((number, f"row {number}") for number in range(rows))))
    values = {"relay": {"path": str(log.folder)}, "target": {"path": str(folder / "lake")}}
    config = Config.from_mapping(values)
    with Replica(spark, config) as replica:
        replica.apply()
    cut = Control.existing(config.target.path).last_cut()
    assert cut is not None
    ours, theirs = Layout.of(config.target).table(cut.tables["t.a"].path), str(folder / "spark")
    frame = spark.read.format("delta").load(ours)
    frame.repartition(1).write.format("delta").save(theirs)
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta.DeltaLog

    def by_us() -> None:
        with opened(ours) as log:
            log.create_checkpoint()

    def by_spark() -> None:
        delta.clearCache()
        delta.forTable(spark._jsparkSession, theirs).checkpoint()

    for path, checkpoint in ((ours, by_us), (theirs, by_spark)):
        add_commits(Path(path, "_delta_log"), commits - _BEHIND, checkpoint)
        add_commits(Path(path, "_delta_log"), _BEHIND, lambda: None)
    return {"applier's": ours, "Spark's": theirs}


def add_commits(log: Path, count: int, checkpoint: Callable[[], None]) -> None:
    """Add commits that do not change the table's rows."""
    last = max(log.glob("[0-9]*.json"))
    actions = [json.loads(line) for line in last.read_text("utf-8").splitlines()]
    kept = [action for action in actions if action.keys() & {"commitInfo", "txn"}]
    add = next(action["add"] for action in actions if "add" in action)
    entry = "\n".join(map(json.dumps, [*kept, {"add": {**add, "dataChange": False}}]))
    for version in range(int(last.stem) + 1, int(last.stem) + 1 + count):
        (log / f"{version:020d}.json").write_text(entry)
    checkpoint()


if __name__ == "__main__":
    main()

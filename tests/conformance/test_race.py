"""Two writers of ours, one of Spark's and one of delta-rs append to one table at once: no version
is lost, and none is written over.

Spark takes part on a disk only. On S3 Delta's log store overwrites: it looks for the version first,
and S3A's ``create`` writes without a condition. fake-gcs-server ignores the condition in the
requests of Google's connector. azurite has no hierarchical namespace, whose rename Delta's log
store for Azure needs.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_repl.delta.files.delta_columns import schema_json
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable
from spark_repl.delta.store import storage
from tests.support.store_proxy import DROPPED_ANSWER, DROPPED_REQUEST, store_proxy
from tests.support.stores import SERVERS

SCHEMA = pa.schema([("id", pa.int64()), ("who", pa.string())])
CHECKPOINTS = {"delta.checkpointInterval": "20"}
"""Spark and delta-rs write them after their own commits, and every reader needs no earlier ones."""
ROOT = Path(__file__).parents[2]


def make_table(folder: str) -> None:
    TableLog().create(folder, NewTable(schema_json(SCHEMA), CHECKPOINTS), Stamp("maker", 1, "{}"))


def start(
    way: str, folder: str, name: str, count: int, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.conformance.race_writer", way, folder, name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)


def wait_for(writers: Mapping[str, subprocess.Popen[str]], counts: Mapping[str, int]) -> None:
    for name, writer in writers.items():
        printed, _ = writer.communicate(timeout=3000)
        assert writer.returncode == 0 and int(printed) == counts[name]


def check(folder: str, counts: dict[str, int], extra: int = 0) -> None:
    """Check that each append is one version, and each row there once. ``extra``: versions without
    rows."""
    newest = TableLog().version(folder)
    commits = [read_commit(folder, version) for version in range(newest + 1)]
    adds = sum("add" in action for actions in commits for action in actions or ())
    assert adds == sum(counts.values()) and newest == adds + extra
    table = DeltaTable(folder, storage_options=storage.options(folder)).to_pyarrow_table()
    rows = Counter(zip(table["who"].to_pylist(), table["id"].to_pylist(), strict=True))
    assert rows == Counter((who, n) for who, count in counts.items() for n in range(count))
    snapshot = TableLog().snapshot(folder)
    assert snapshot is not None
    for who in ("one", "two"):
        positions = [
            action["txn"]["version"]
            for actions in commits
            for action in actions or ()
            if action.get("txn", {}).get("appId") == who
        ]
        assert positions == list(range(1, counts[who] + 1))
        assert TableLog.last_txn(snapshot, who) == counts[who]


@pytest.mark.parametrize("count", [12, pytest.param(700, marks=pytest.mark.soak)])
def test_four_racing_writers_lose_no_commit_on_a_disk(
    spark: SparkSession, tmp_path: Path, count: int
) -> None:
    folder = str(tmp_path / "t")
    make_table(folder)
    counts = dict.fromkeys(("one", "two", "rust"), count)
    ways = {"one": "ours", "two": "ours", "rust": "delta-rs"}
    writers = {name: start(ways[name], folder, name, count) for name in counts}
    for number in range(count):
        row = spark.sql(f"SELECT {number}L AS id, 'spark' AS who").coalesce(1)
        row.write.format("delta").mode("append").save(folder)
    wait_for(writers, counts)
    check(folder, {**counts, "spark": count})


@pytest.mark.slow
@pytest.mark.parametrize("count", [15, pytest.param(500, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["s3", "azure", "google"])
def test_writers_on_a_store_whose_answers_get_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, count: int
) -> None:
    """Two of ours behind a proxy that drops requests and answers at random, and one of delta-rs."""
    dice, counts = random.Random(kind), dict.fromkeys(("one", "two", "rust"), count)
    with SERVERS[kind](tmp_path) as server, store_proxy(server.url) as proxy:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        folder = f"{server.base}/race/t"
        make_table(folder)
        lossy = {**os.environ, **server.at(proxy.url)}
        faults = (DROPPED_ANSWER, DROPPED_REQUEST, *[None] * 18)
        proxy.fault = lambda method, target: dice.choice(faults)
        writers = {name: start("ours", folder, name, count, lossy) for name in ("one", "two")}
        writers["rust"] = start("delta-rs", folder, "rust", count)
        wait_for(writers, counts)
        check(folder, counts)

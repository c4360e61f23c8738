"""Two writers of ours, one of Spark's and one of delta-rs append to one table at once: no version
is lost, and none is written over."""

from __future__ import annotations

import json
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
NEVER = {"delta.checkpointInterval": "1000000"}
ROOT = Path(__file__).parents[2]


def make_table(folder: str) -> None:
    TableLog().create(folder, NewTable(schema_json(SCHEMA), NEVER), Stamp("maker", 1, "{}"))


def start(
    way: str, folder: str, name: str, count: int, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.conformance.race_writer", way, folder, name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)


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
    writers = [
        start("ours", folder, "one", count),
        start("ours", folder, "two", count),
        start("delta-rs", folder, "rust", count),
    ]
    for number in range(count):
        row = spark.sql(f"SELECT {number}L AS id, 'spark' AS who").coalesce(1)
        row.write.format("delta").mode("append").save(folder)
    for writer in writers:
        out, _ = writer.communicate(timeout=3000)
        assert writer.returncode == 0 and len(json.loads(out)) == count
    check(folder, dict.fromkeys(("one", "two", "rust", "spark"), count))


@pytest.mark.slow
@pytest.mark.parametrize("count", [15, pytest.param(400, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["s3", "azure", "google"])
def test_writers_on_a_store_whose_answers_get_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, count: int
) -> None:
    """Two of ours behind a proxy that drops requests and answers at random, and one of delta-rs."""
    dice = random.Random(kind)
    with SERVERS[kind](tmp_path) as server, store_proxy(server.url) as proxy:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        folder = f"{server.base}/race/t"
        make_table(folder)
        lossy = {**os.environ, **server.at(proxy.url)}
        faults = (DROPPED_ANSWER, DROPPED_REQUEST, *[None] * 18)
        proxy.fault = lambda method, target: dice.choice(faults)
        writers = [
            start("ours", folder, "one", count, lossy),
            start("ours", folder, "two", count, lossy),
            start("delta-rs", folder, "rust", count, {**os.environ}),
        ]
        for writer in writers:
            out, _ = writer.communicate(timeout=3000)
            assert writer.returncode == 0 and len(json.loads(out)) == count
        check(folder, dict.fromkeys(("one", "two", "rust"), count))

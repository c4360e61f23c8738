"""Random commits, made once by Delta's own transaction and once by our log, read alike by Spark.

Each step is done to two tables, one of them Spark's: data files and deletion vectors are the same
files, so that after each step Delta must read the same protocol, metadata, live files,
transactions, domains and rows of both. Delta validates our version checksums as it reads.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap
from pyspark.sql import SparkSession

from spark_repl.delta.files import deletion_vector
from spark_repl.delta.log import checkpoint_writer
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from tests.conformance.spark_log import Read, SparkLog

Action = dict[str, Any]

VECTORS = {"delta.enableDeletionVectors": "true"}
FEATURES: dict[str, dict[str, str]] = {
    "plain": {},
    "vectors": VECTORS,
    "mapped": {**VECTORS, "delta.columnMapping.mode": "name"},
    "feed": {**VECTORS, "delta.enableChangeDataFeed": "true"},
    "timestamps": {**VECTORS, "delta.enableInCommitTimestamps": "true"},
    "row_ids": {**VECTORS, "delta.feature.rowTracking": "supported"},
    "v2": {
        **VECTORS, "delta.checkpointPolicy": "v2",
        "delta.feature.vacuumProtocolCheck": "supported",
    },
    "all": {
        **VECTORS, "delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true",
        "delta.enableInCommitTimestamps": "true", "delta.feature.rowTracking": "supported",
        "delta.checkpointPolicy": "v2",
    },
}  # fmt: skip
ROWS = 20


def column(name: str, kind: str) -> Action:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


class Twins:
    """One table twice: made by Spark, and by us."""

    def __init__(self, spark: SparkSession, base: Path, properties: dict[str, str]) -> None:
        self.spark, self.theirs, self.ours = spark, base / "theirs", base / "ours"
        self.log, self.oracle = TableLog(), SparkLog(spark, str(self.theirs))
        fields = [column("id", "long"), column("v", "string"), column("t", "timestamp_ntz")]
        schema = json.dumps({"type": "struct", "fields": fields})
        new = NewTable(schema, {"delta.checkpointInterval": "1000000", **properties})
        self.oracle.create(new)
        self.log.create(str(self.ours), new, Stamp("app", 0, ""))
        self.vectors = "delta.enableDeletionVectors" in properties
        self.files: dict[str, tuple[Action, set[int]]] = {}
        self.number = 0

    def snapshot(self) -> Snapshot:
        snapshot = self.log.snapshot(str(self.ours))
        assert snapshot is not None
        return snapshot

    def add(self) -> Action:
        """Return the ``add`` of a new file, which both folders get, each with its own names."""
        self.number += 1
        path = f"part-{self.number:05d}.parquet"
        first = self.number * ROWS
        ids = list(range(first, first + ROWS))
        for folder, schema in (
            (self.theirs, self.oracle.schema_string()),
            (self.ours, self.snapshot().schema_string),
        ):
            fields = json.loads(schema)["fields"]
            names = [
                f["metadata"].get("delta.columnMapping.physicalName", f["name"]) for f in fields
            ]
            columns = [pa.array(ids, pa.int64())]
            columns += [pa.array([f"{name}{i}" for i in ids]) for name in "v"]
            columns += [pa.array(ids, pa.timestamp("us"))]
            columns += [pa.array(ids, pa.int32()) for _ in fields[3:]]
            pq.write_table(pa.table(columns, names=names), folder / path)
        size = (self.ours / path).stat().st_size
        add = {
            "path": path, "partitionValues": {}, "size": size, "modificationTime": 1,
            "dataChange": True, "stats": json.dumps({"numRecords": ROWS}),
        }  # fmt: skip
        self.files[path] = add, set()
        return {"add": add}

    def remove(self, path: str) -> Action:
        add, _ = self.files.pop(path)
        return {"remove": removed(add)}

    def mark(self, path: str, rows: set[int]) -> list[Action]:
        """Mark more rows of a file as deleted: with one vector file that both folders have."""
        add, dead = self.files[path]
        dead = dead | rows
        (vector,) = deletion_vector.write(str(self.ours), [BitMap(dead)])
        file = Path(deletion_vector.path_of(str(self.ours), vector) or "")
        shutil.copy(file, self.theirs / file.name)
        loose = json.dumps({"numRecords": ROWS, "tightBounds": False})
        fresh = {**add, "deletionVector": vector, "stats": loose}
        self.files[path] = fresh, dead
        return [{"remove": removed(add)}, {"add": fresh}]

    def commit(self, actions: list[Action], app: str, position: int) -> None:
        completed = self.with_row_ids(actions)
        self.oracle.commit(completed, app, position)
        self.log.commit(self.snapshot(), completed, Stamp(app, position, "{}"))

    def with_row_ids(self, actions: list[Action]) -> list[Action]:
        """Return the actions as the applier has them: a marked file keeps its row ids."""
        live = self.log.files(self.snapshot())
        kept = ("baseRowId", "defaultRowCommitVersion")
        completed = []
        for action in actions:
            (kind, fields), *_ = action.items()
            old = live.get(fields["path"], {}) if kind == "add" else {}
            completed.append({kind: {**fields, **{n: old[n] for n in kept if n in old}}})
        return completed

    def add_column(self, name: str) -> None:
        fields = json.loads(self.oracle.schema_string())["fields"]
        configuration = self.oracle.read(self.snapshot().version).metadata["configuration"]
        schema = json.dumps({"type": "struct", "fields": [*fields, column(name, "integer")]})
        self.oracle.alter(schema, configuration)
        mine = self.snapshot()
        from spark_repl.delta.log.schema_change import ColumnIds

        configuration = dict(mine.configuration)
        ids = ColumnIds(configuration)
        fields = [*json.loads(mine.schema_string)["fields"], ids.given(column(name, "integer"))]
        ids.keep(configuration)
        new = NewTable(json.dumps({"type": "struct", "fields": fields}), configuration)
        self.log.alter(mine, new, [], Stamp("alter", mine.version + 1, ""))

    def compare(self) -> None:
        """Check that Delta reads the same of both, by files and by rows."""
        version = self.snapshot().version
        theirs, ours = self.oracle.read(version), SparkLog(self.spark, str(self.ours)).read(version)
        assert comparable(ours) == comparable(theirs)
        assert (ours.timestamp_ms is None) == (theirs.timestamp_ms is None)
        assert self.rows(self.ours, version) == self.rows(self.theirs, version)
        live = {r for _, (add, dead) in self.files.items() for r in alive(add, dead)}
        assert {row[0] for row in self.rows(self.ours, version)} == live

    def rows(self, folder: Path, version: int) -> list[Any]:
        frame = self.spark.read.format("delta").option("versionAsOf", version).load(str(folder))
        return sorted(map(tuple, frame.collect()))


def alive(add: Action, dead: set[int]) -> list[int]:
    first = int(add["path"][5:10]) * ROWS
    return [first + i for i in range(ROWS) if i not in dead]


def removed(add: Action) -> Action:
    kept = {n: add[n] for n in ("path", "partitionValues", "size", "deletionVector") if n in add}
    return {**kept, "deletionTimestamp": 2, "dataChange": True, "extendedFileMetadata": True}


def comparable(read: Read) -> Any:
    """Return what must be equal: without ids and names that each writer chooses."""
    protocol = {k: sorted(v) if isinstance(v, list) else v for k, v in read.protocol.items()}
    fields = json.loads(read.metadata["schemaString"])["fields"]
    for field in fields:
        field["metadata"].pop("delta.columnMapping.physicalName", None)
    chosen = ("delta.rowTracking.materialized", "delta.checkpointInterval")
    configuration = {
        k: v for k, v in read.metadata["configuration"].items() if not k.startswith(chosen)
    }
    files = {}
    for path, add in read.files.items():
        kept = ("size", "stats", "deletionVector", "baseRowId", "defaultRowCommitVersion")
        files[path] = {name: add[name] for name in kept if name in add}
    txns = {app: at for app, at in read.txns.items() if app not in ("app", "alter")}
    domains = {
        name: json.loads(one["configuration"]).get("rowIdHighWaterMark")
        for name, one in read.domains.items()
    }
    return protocol, fields, configuration, files, txns, domains


def step(twins: Twins, choose: random.Random, position: int) -> None:
    """Do one random commit to both."""
    paths = sorted(twins.files)
    kinds = ["append", "append", "mark", "remove", "both", "alter", "checkpoint"]
    kind = choose.choice(kinds) if paths else "append"
    actions: list[Action] = []
    if kind in ("append", "both"):
        actions += [twins.add() for _ in range(choose.randint(1, 3))]
    if kind in ("mark", "both") and twins.vectors:
        for path in choose.sample(paths, min(len(paths), 3)):
            free = set(range(ROWS)) - twins.files[path][1]
            if len(free) > 4:
                actions += twins.mark(path, set(choose.sample(sorted(free), 3)))
    if kind == "remove" and paths:
        actions.append(twins.remove(choose.choice(paths)))
    if kind == "alter":
        twins.add_column(f"c{position}")
    elif kind == "checkpoint":
        checkpoint_writer.write(str(twins.ours), twins.snapshot().state)
        twins.oracle.checkpoint()
    else:
        twins.commit(actions, choose.choice("ab"), position)


@pytest.mark.parametrize(
    "features",
    [name if name == "all" else pytest.param(name, marks=pytest.mark.slow) for name in FEATURES],
)
def test_spark_reads_ours_as_its_own(spark: SparkSession, tmp_path: Path, features: str) -> None:
    choose = random.Random(features)
    twins = Twins(spark, tmp_path, FEATURES[features])
    twins.compare()
    for position in range(1, 12):
        step(twins, choose, position)
        twins.compare()

"""Spark and we change one table by turns: its rows are what both have made of them.

Spark deletes, updates, merges, optimizes, restores, vacuums and alters; we append, mark rows and
vacuum. After each step Spark's rows are the model's, Delta's live files are ours, its checksum
validation passes, and delta-rs reads the same where it knows the features.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap
from pyspark.sql import SparkSession

from spark_repl.delta.files import deletion_vector
from spark_repl.delta.files.delta_columns import (
    Columns,
    open_file,
    read_rows,
    schema_json,
    write_file,
)
from spark_repl.delta.log import checkpoint_writer
from spark_repl.delta.log.schema_change import altered
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.delta.store.remover import Remover
from spark_repl.write.files.commit import removed
from tests.conformance.spark_log import SparkLog
from tests.conformance.test_random_commits import FEATURES, VECTORS

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
KINDS = dict(zip(SCHEMA.names, SCHEMA.types, strict=True))
NEVER = {"delta.checkpointInterval": "1000000"}
READ_ELSEWHERE = {"plain", "vectors", "feed"}
"""features whose tables delta-rs opens"""


class Shared:
    """A table and the rows that it must have."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.log = spark, str(folder), TableLog()
        self.oracle = SparkLog(spark, self.folder)
        self.rows: dict[int, str] = {}
        self.past: dict[int, dict[int, str]] = {}
        self.next_id, self.position = 0, 0

    def snapshot(self) -> Snapshot:
        snapshot = self.log.snapshot(self.folder)
        assert snapshot is not None
        return snapshot

    def some(self, choose: random.Random, count: int = 3) -> list[int]:
        return choose.sample(sorted(self.rows), min(count, len(self.rows)))

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.replace("TABLE_", f"delta.`{self.folder}`"))

    # What we do.

    def commit(self, actions: list[dict[str, Any]]) -> None:
        self.position += 1
        self.log.commit(self.snapshot(), actions, Stamp("app", self.position, "{}"))

    def append(self, choose: random.Random) -> None:
        snapshot = self.snapshot()
        columns = Columns.of(snapshot.schema_string, snapshot.partition_columns)
        ids = list(range(self.next_id, self.next_id + choose.randint(1, 9)))
        self.next_id = ids[-1] + 1
        given = {"id": ids, "v": [f"ours {number}" for number in ids]}
        arrays = [
            pa.array(given.get(name, [None] * len(ids)), KINDS.get(name, pa.int32()))
            for name in columns.names
        ]
        rows = pa.table(arrays, names=columns.names)
        adds = [write_file(self.folder, columns, part, v) for v, part in columns.split(rows)]
        self.commit([{"add": add} for add in adds])
        self.rows |= dict(zip(ids, given["v"], strict=True))

    def mark(self, choose: random.Random) -> None:
        """Delete rows by deletion vectors, as the applier does."""
        ids, snapshot = self.some(choose), self.snapshot()
        columns = Columns.of(snapshot.schema_string, snapshot.partition_columns)
        name, actions = columns.physical[columns.names.index("id")], []
        for add in self.log.files(snapshot).values():
            rows = BitMap(self.places(add, name, ids))
            if not rows:
                continue
            dead = deletion_vector.joined(self.folder, add, rows)
            (vector,) = deletion_vector.write(self.folder, [dead])
            actions.append({"remove": removed(add, int(time.time() * 1000))})
            actions.append({"add": {**add, "deletionVector": vector, "dataChange": True}})
        self.commit(actions)
        for number in ids:
            del self.rows[number]

    def places(self, add: dict[str, Any], name: str, ids: list[int]) -> list[int]:
        """Return the live rows of a file that have these ids."""
        (found,) = read_rows(self.folder, add["path"], [name], np.arange(row_count(self, add)))
        vector = add.get("deletionVector")
        dead = deletion_vector.read(self.folder, vector) if vector else BitMap()
        return [at for at, one in enumerate(found.to_pylist()) if one in ids and at not in dead]

    def checkpoint(self, choose: random.Random) -> None:
        checkpoint_writer.write(self.folder, self.snapshot().state)

    def our_vacuum(self, choose: random.Random) -> None:
        vacuum(self.folder, Remover(), time.time() + 3600 * 24 * 30)
        self.past.clear()

    # What Spark does.

    def delete(self, choose: random.Random) -> None:
        ids = self.some(choose)
        self.sql(f"DELETE FROM TABLE_ WHERE id IN ({listed(ids)})")
        for number in ids:
            del self.rows[number]

    def update(self, choose: random.Random) -> None:
        ids = self.some(choose)
        self.sql(f"UPDATE TABLE_ SET v = concat(v, '!') WHERE id IN ({listed(ids)})")
        self.rows |= {number: f"{self.rows[number]}!" for number in ids}

    def merge(self, choose: random.Random) -> None:
        ids = [*self.some(choose, 2), self.next_id]
        self.next_id += 1
        source = " UNION ALL ".join(f"SELECT {number}L AS id, 'm{number}' AS v" for number in ids)
        self.sql(
            f"MERGE INTO TABLE_ t USING ({source}) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = s.v"
            " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
        )
        self.rows |= {number: f"m{number}" for number in ids}

    def optimize(self, choose: random.Random) -> None:
        self.sql("OPTIMIZE TABLE_")

    def add_column(self, choose: random.Random) -> None:
        self.sql(f"ALTER TABLE TABLE_ ADD COLUMN (c{self.snapshot().version} INT)")

    def restore(self, choose: random.Random) -> None:
        version = choose.choice(sorted(self.past))
        self.sql(f"RESTORE TABLE_ TO VERSION AS OF {version}")
        self.rows = dict(self.past[version])

    def vacuum(self, choose: random.Random) -> None:
        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.sql("VACUUM TABLE_ RETAIN 0 HOURS")
        self.past.clear()

    def check(self, elsewhere: bool) -> None:
        """Check that everybody reads the model's rows, and Delta our files and metadata."""
        snapshot = self.snapshot()
        frame = self.spark.read.format("delta").load(self.folder).select("id", "v")
        assert {row["id"]: row["v"] for row in frame.collect()} == self.rows
        theirs = self.oracle.read(snapshot.version)
        ours = self.log.files(snapshot)
        assert set(theirs.files) == set(ours)
        for path, add in theirs.files.items():
            assert (add.get("deletionVector") or {}) == (ours[path].get("deletionVector") or {})
            assert add.get("baseRowId") == ours[path].get("baseRowId")
        assert theirs.metadata["schemaString"] == snapshot.schema_string
        assert theirs.metadata["configuration"] == snapshot.configuration
        assert theirs.txns.get("app") == self.log.last_txn(snapshot, "app")
        if elsewhere:
            found = read(self.folder, query="select id, v from t").to_pylist()
            assert {row["id"]: row["v"] for row in found} == self.rows
        self.past[snapshot.version] = dict(self.rows)


def row_count(shared: Shared, add: dict[str, Any]) -> int:
    with open_file(shared.folder, add["path"]) as file:
        return int(file.metadata.num_rows)


def listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids)) or "-1"


OURS: list[Callable[[Shared, random.Random], None]] = [
    Shared.append, Shared.append, Shared.mark, Shared.checkpoint, Shared.our_vacuum,
]  # fmt: skip
THEIRS: list[Callable[[Shared, random.Random], None]] = [
    Shared.delete, Shared.update, Shared.merge, Shared.optimize, Shared.add_column,
    Shared.restore, Shared.vacuum,
]  # fmt: skip


def by_turns(shared: Shared, features: str, seed: str, *, marks: bool, turns: int = 7) -> None:
    """So many of Spark's steps, each once, between steps of ours."""
    choose = random.Random(seed)
    theirs = THEIRS.copy()
    choose.shuffle(theirs)
    shared.append(choose)
    shared.check(features in READ_ELSEWHERE)
    for step in theirs[:turns]:
        ours = choose.choice([one for one in OURS if marks or one is not Shared.mark])
        for one in (Shared.append, ours, step):
            if one is Shared.restore and not shared.past:
                continue
            one(shared, choose)
            shared.check(features in READ_ELSEWHERE)


@pytest.mark.parametrize(
    ("features", "turns"),
    [
        ("all", 1),
        pytest.param("all", 7, marks=pytest.mark.slow),
        *(pytest.param(name, 7, marks=pytest.mark.soak) for name in FEATURES),
    ],
)
def test_delta_and_our_log_take_turns_on_a_table_of_ours(
    spark: SparkSession, tmp_path: Path, features: str, turns: int
) -> None:
    shared, properties = Shared(spark, tmp_path / "t"), FEATURES[features]
    shared.log.create(
        shared.folder, NewTable(schema_json(SCHEMA), {**NEVER, **properties}), Stamp("app", 0, "")
    )
    if "rowTracking" in str(properties):  # or Spark's commands give rows other ids
        shared.sql("ALTER TABLE TABLE_ SET TBLPROPERTIES (delta.enableRowTracking = true)")
    by_turns(shared, features, features, marks=properties != {}, turns=turns)


@pytest.mark.parametrize(
    "features",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "all" else pytest.mark.soak)
        for name in FEATURES
    ],
)
def test_delta_and_our_log_take_turns_on_a_table_of_sparks(
    spark: SparkSession, tmp_path: Path, features: str
) -> None:
    """Clustered, so that OPTIMIZE writes its domain and says so of each file."""
    shared, properties = Shared(spark, tmp_path / "t"), FEATURES[features]
    given = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    shared.sql(
        "CREATE TABLE TABLE_ (id BIGINT, v STRING) USING delta CLUSTER BY (id)"
        + (f" TBLPROPERTIES ({given})" if given else "")
    )
    by_turns(shared, features, f"spark {features}", marks=properties != {})


@pytest.mark.slow
def test_our_log_reads_a_zordered_partitioned_table(spark: SparkSession, tmp_path: Path) -> None:
    shared = Shared(spark, tmp_path / "t")
    schema = pa.schema([*SCHEMA, ("p", pa.int32())])
    new = NewTable(schema_json(schema), {**NEVER, **VECTORS}, ("p",))
    shared.log.create(shared.folder, new, Stamp("app", 0, ""))
    choose = random.Random(7)
    for step in (Shared.append, Shared.append, Shared.mark, Shared.append):
        step(shared, choose)
        shared.check(True)
    shared.sql("OPTIMIZE TABLE_ ZORDER BY (id)")
    shared.check(True)
    shared.mark(choose)
    shared.check(True)
    assert shared.oracle.read(shared.snapshot().version).metadata["partitionColumns"] == ["p"]


@pytest.mark.slow
def test_our_log_continues_with_a_column_that_spark_widened(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Files before it have the narrow type; the schema keeps the change through our ALTER."""
    shared, choose = Shared(spark, tmp_path / "t"), random.Random(5)
    schema = pa.schema([*SCHEMA, ("n", pa.int16())])
    properties = {**NEVER, **VECTORS, "delta.enableTypeWidening": "true"}
    shared.log.create(shared.folder, NewTable(schema_json(schema), properties), Stamp("app", 0, ""))
    numbers = append_numbers(shared, pa.int16(), [1, 2, 32_767, 4])
    shared.sql("ALTER TABLE TABLE_ ALTER COLUMN n TYPE INT")
    shared.check(False)
    numbers |= append_numbers(shared, pa.int32(), [5, 40_000, 2_147_483_647])
    shared.check(False)
    shared.mark(choose)
    shared.checkpoint(choose)
    before = shared.snapshot()
    wider = schema.set(2, pa.field("n", pa.int32())).append(pa.field("m", pa.int32()))
    new = altered(before, wider, (0, 1, 2, None), ())
    shared.position += 1
    shared.log.alter(before, new, [], Stamp("app", shared.position, "{}"))
    shared.check(False)
    (changes,) = (field["metadata"] for field in json.loads(new.schema_string)["fields"]
                  if field["name"] == "n")  # fmt: skip
    assert changes["delta.typeChanges"] == [{"fromType": "short", "toType": "integer"}]
    found = spark.read.format("delta").load(shared.folder).collect()
    assert {row["id"]: row["n"] for row in found} == {i: numbers[i] for i in shared.rows}


def append_numbers(shared: Shared, kind: pa.DataType, values: list[int]) -> dict[int, int]:
    """Append a row for each value, of the type that the column has; return values by id."""
    columns = Columns.of(shared.snapshot().schema_string)
    ids = list(range(shared.next_id, shared.next_id + len(values)))
    shared.next_id += len(values)
    texts = [f"ours {number}" for number in ids]
    rows = pa.table({"id": ids, "v": texts, "n": pa.array(values, kind)})
    (add,) = [write_file(shared.folder, columns, part, v) for v, part in columns.split(rows)]
    shared.commit([{"add": add}])
    shared.rows |= dict(zip(ids, texts, strict=True))
    return dict(zip(ids, values, strict=True))

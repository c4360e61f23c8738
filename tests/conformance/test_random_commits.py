"""Random commits, made once by Delta's own transaction and once by our log, read alike by Spark.

Each step is done to two tables, one of them Spark's. After each step Delta must read the same
protocol, metadata, live files, transactions, domains, rows and changes of both, and the
``commitInfo`` of both must have the same fields. Delta validates our version checksums as it reads.
At the end delta-rs, DuckDB and Polars read both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.delta.log import checkpoint_writer
from spark_repl.delta.store.delta_rs_read import read
from tests.conformance.spark_log import Action
from tests.conformance.twins import FEED, ROWS, Twins, alive
from tests.support.readers import by_duckdb_query

VECTORS = {"delta.enableDeletionVectors": "true"}
FEATURES: dict[str, dict[str, str]] = {
    "plain": {},
    "vectors": VECTORS,
    "mapped": {**VECTORS, "delta.columnMapping.mode": "name"},
    "feed": {**VECTORS, FEED: "true"},
    "timestamps": {**VECTORS, "delta.enableInCommitTimestamps": "true"},
    "row_ids": {**VECTORS, "delta.feature.rowTracking": "supported"},
    "v2": {
        **VECTORS, "delta.checkpointPolicy": "v2",
        "delta.feature.vacuumProtocolCheck": "supported",
    },
    "all": {
        **VECTORS, "delta.columnMapping.mode": "name", FEED: "true",
        "delta.enableInCommitTimestamps": "true", "delta.feature.rowTracking": "supported",
        "delta.checkpointPolicy": "v2",
    },
}  # fmt: skip
PROPERTIES = {
    "owner.note": "checked",
    "delta.deletedFileRetentionDuration": "interval 9 days",
    "delta.logRetentionDuration": "interval 40 days",
}
STEPS = (
    "append", "mark", "remove", "both", "add", "rename", "drop", "set", "unset", "checkpoint",
)  # fmt: skip
"""kinds of commits: a run does each once, in a random order"""


def step(twins: Twins, choose: random.Random, kind: str, position: int) -> None:
    """Do one random commit of a kind to both."""
    if kind in ("add", "rename", "drop"):
        alter(twins, choose, kind if twins.mapped else "add", position)
    elif kind in ("set", "unset"):
        change_property(twins, choose, kind)
    elif kind == "checkpoint":
        checkpoint_writer.write(str(twins.ours), twins.snapshot().state)
        twins.oracle.checkpoint()
    else:
        change_rows(twins, choose, kind, position)


def change_rows(twins: Twins, choose: random.Random, kind: str, position: int) -> None:
    paths = sorted(twins.files)
    actions: list[Action] = []
    deleted: list[int] = []
    if kind in ("append", "both"):
        actions += [twins.add() for _ in range(choose.randint(1, 3))]
    if kind in ("mark", "both") and twins.vectors:
        for path in choose.sample(paths, min(len(paths), 3)):
            add, dead = twins.files[path]
            free = sorted(set(range(ROWS)) - dead)
            if len(free) > 4:
                rows = set(choose.sample(free, 3))
                actions += twins.mark(path, rows)
                deleted += alive(add, set(range(ROWS)) - rows)
    if kind == "remove":
        path = choose.choice(paths)
        deleted += alive(*twins.files[path])
        actions.append(twins.remove(path))
    twins.commit(actions, deleted, choose.choice("ab"), position)


def alter(twins: Twins, choose: random.Random, kind: str, position: int) -> None:
    """Add a column. Only a mapped table can also have one renamed or dropped."""
    if kind == "add":
        twins.add_column(f"c{position}")
    elif kind == "rename":
        twins.rename_column(choose.choice(twins.columns()), f"r{position}")
    else:
        twins.drop_column(choose.choice(twins.columns()))


def change_property(twins: Twins, choose: random.Random, kind: str) -> None:
    present = sorted(PROPERTIES.keys() & twins.snapshot().configuration.keys())
    if kind == "unset" and present:
        twins.unset_property(choose.choice(present))
    else:
        name = choose.choice(sorted(PROPERTIES))
        twins.set_property(name, PROPERTIES[name])


def by_delta_rs(folder: str) -> set[int]:
    return set(read(folder, query="select id from t")["id"].to_pylist())


def by_duckdb(folder: str) -> set[int]:
    (rows,) = by_duckdb_query([(f"SELECT id FROM delta_scan('{folder}')", ())])
    return {int(row[0]) for row in rows}


def by_polars(folder: str) -> set[int]:
    polars: Any = pytest.importorskip("polars", reason="polars: pip install -e '.[readers]'")
    return set(polars.scan_delta(folder).select("id").collect()["id"].to_list())


READERS: tuple[Callable[[str], set[int]], ...] = (by_delta_rs, by_duckdb, by_polars)
REFUSED = {
    ("by_delta_rs", "v2"): "VacuumProtocolCheck",
    ("by_polars", "mapped"): "columnMapping",
    ("by_polars", "v2"): "v2Checkpoint",
    ("by_polars", "all"): "columnMapping",
}
"""(reader, features) -> what the reader's error names, if it can't read such a table"""


def read_elsewhere(twins: Twins, features: str) -> None:
    """Check that other engines find the rows of both, or refuse both by name."""
    for reader in READERS:
        for folder in (twins.ours, twins.theirs):
            if refused := REFUSED.get((reader.__name__, features)):
                with pytest.raises(Exception, match=refused):
                    reader(str(folder))
            else:
                assert reader(str(folder)) == twins.ids()


@pytest.mark.parametrize(
    ("features", "steps"),
    [("all", 4), *(pytest.param(name, len(STEPS), marks=pytest.mark.slow) for name in FEATURES)],
)
def test_spark_reads_ours_as_its_own(
    spark: SparkSession, tmp_path: Path, features: str, steps: int
) -> None:
    choose = random.Random(features)
    twins = Twins(spark, tmp_path, FEATURES[features])
    twins.compare()
    order = ["append", *choose.sample(STEPS, steps)]
    for position, kind in enumerate(order, 1):
        step(twins, choose, kind, position)
        twins.compare()
    read_elsewhere(twins, features)


@pytest.mark.slow
def test_a_compaction_is_described_as_deltas_optimize(spark: SparkSession, tmp_path: Path) -> None:
    twins = Twins(spark, tmp_path, VECTORS)
    twins.commit([twins.add(), twins.add()], [], "a", 1)
    spark.sql(f"OPTIMIZE delta.`{twins.theirs}`")
    twins.compact()
    ours, theirs = twins.compare_info()
    for name in ("operation", "operationParameters"):
        assert ours[name] == theirs[name]
    shared = ours["operationMetrics"].keys() & theirs["operationMetrics"].keys()
    assert {"numAddedFiles", "numRemovedFiles"} <= shared
    for name in ("numAddedFiles", "numRemovedFiles"):
        assert ours["operationMetrics"][name] == theirs["operationMetrics"][name]
    version = twins.snapshot().version
    assert twins.rows(twins.ours, version) == twins.rows(twins.theirs, version)

"""Our VACUUM removes what Delta's own would, of tables that Spark wrote."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl.delta.files.partitions import PROPERTIES
from spark_repl.delta.log import checkpoint_writer, log_state
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store.remover import Remover
from tests.support.delta_snapshot import forget

_HOUR_S = 3600
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_INDEX = "_delta_index/part.parquet"
_STRAY = (
    "part-of-a-dead-attempt.parquet", "with space.parquet", "deletion_vector_of_nobody.bin",
    "deeper/part.parquet", "p=a/part.parquet", "_change_data/cdc-of-nobody.parquet",
    "_hidden/part.parquet", ".hidden/part.parquet", "_begun.parquet", ".begun.parquet.crc",
    "p=a/_begun.parquet", _INDEX, "_p=a/part.parquet",
)  # fmt: skip


@pytest.mark.parametrize(
    ("checkpointed", "parted"),
    [
        (True, True),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
        pytest.param(False, False, marks=pytest.mark.slow),
    ],
)
def test_vacuum_removes_what_delta_would(
    spark: SparkSession, tmp_path: Path, parted: bool, checkpointed: bool
) -> None:
    folder = tmp_path / "t"
    table = f"delta.`{folder}`"
    rows = spark.range(40).selectExpr("id", "if(id % 2 = 0, 'a', 'b c%') AS p").repartition(3)
    kind = rows.write.format("delta").option("delta.enableDeletionVectors", "true")
    for name, value in {"delta.enableChangeDataFeed": "true", **PROPERTIES}.items():
        kind = kind.option(name, value)
    (kind.partitionBy("p") if parted else kind).save(str(folder))
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    spark.sql(f"UPDATE {table} SET id = 1000 WHERE id = 4")
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"DELETE FROM {table} WHERE id IN (6, 7)")
    for name in _STRAY:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    age(folder, 4)
    (folder / "young.parquet").write_bytes(b"x")
    retained = "'delta.deletedFileRetentionDuration' = 'interval 3 hours'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({retained})")
    if checkpointed:
        state = log_state.load(str(folder))
        assert state is not None
        checkpoint_writer.write(str(folder), state)
    forget(spark)
    spark.conf.set(_LISTING, "2")  # VACUUM lists in 10,000 tasks else
    named = spark.sql(f"VACUUM {table} DRY RUN").collect()
    expected = {relative(path, folder) for (path,) in named}
    # An index of Databricks' stays with us: no commit names its files.
    expected = {one for one in expected if (folder / one).is_file() and one != _INDEX}
    before = files(folder)
    assert vacuum(str(folder), Remover(), time.time()) == len(expected)
    assert before - files(folder) == expected != set()
    assert spark.read.format("delta").load(str(folder)).count() == 37


def test_files_of_removed_versions_stay_for_their_time(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    table = f"delta.`{folder}`"
    spark.range(4).repartition(2).write.format("delta").save(str(folder))
    spark.sql(f"OPTIMIZE {table}")
    age(folder, 24 * 30)
    before = files(folder)
    assert vacuum(str(folder), Remover(), time.time()) == 0
    assert files(folder) == before
    assert spark.sql(f"SELECT * FROM {table} VERSION AS OF 0").count() == 4
    assert vacuum(str(folder), Remover(), time.time() + 200 * _HOUR_S) == 2
    assert spark.sql(f"SELECT * FROM {table}").count() == 4


def age(folder: Path, hours: int) -> None:
    then = time.time() - hours * _HOUR_S
    for path in folder.rglob("*"):
        if "_delta_log" not in path.parts and path.is_file():
            os.utime(path, (then, then))


def files(folder: Path) -> set[str]:
    """Return the files outside of the log. Hadoop removes its checksums with the files."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith("_delta_log/") and ".crc" not in name}


def relative(path: str, folder: Path) -> str:
    return os.path.relpath(path.removeprefix("file:"), folder)

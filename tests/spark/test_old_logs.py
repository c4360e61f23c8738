"""Logs whose old commits are gone: Delta reads each promised version, and commits go on; VACUUM
leaves the files of pinned versions."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.control.cuts.cut_reader import CutReader
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log import checkpoint_schedule
from spark_repl.delta.log.durable import Durable
from spark_repl.delta.log.log_cleanup import remove_commits
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.delta.store.remover import Remover
from spark_repl.errors import ConcurrentChangeError
from spark_repl.write.files.commit import removed
from spark_repl.write.upkeep.file_retention import files_of
from tests.support.delta_snapshot import DeltaSnapshot, forget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}
PROPERTIES = {
    "delta.checkpointInterval": checkpoint_schedule.NEVER,
    "delta.deletedFileRetentionDuration": "interval 3 hours",
}


class Aged:
    """A table that loses its only row and gets another one with each commit."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.delta = spark, str(folder), TableLog()
        new = NewTable(json.dumps(SCHEMA), PROPERTIES)
        self.delta.create(self.folder, new, Stamp("app", 1, "{}"))
        found = self.delta.snapshot(self.folder)
        assert found is not None
        self.snapshot: Snapshot = found
        self.live: dict[str, Any] = {}
        self.durable = Durable(str(folder.parent))

    def commit(self) -> None:
        number = self.snapshot.version + 1
        path = os.path.join(self.folder, f"{number}.parquet")
        pq.write_table(pa.table({"id": pa.array([number], pa.int64())}), path)
        add = {
            "path": f"{number}.parquet", "partitionValues": {}, "size": os.path.getsize(path),
            "modificationTime": int(time.time() * 1000), "dataChange": True, "stats": "{}",
        }  # fmt: skip
        actions: list[dict[str, Any]] = [{"add": add}]
        if self.live:
            actions.append({"remove": removed(self.live, int(time.time() * 1000) - 14_400_000)})
        self.live = add
        version = self.delta.commit(self.snapshot, actions, Stamp("app", number + 1, "{}"))
        self.snapshot = self.delta.advance(self.snapshot, version)
        assert self.delta.is_newest(self.snapshot)
        checkpoint_schedule.write_if_due(self.snapshot)

    def age(self, hours: int = 2) -> None:
        for entry in Path(self.folder).rglob("*.*"):
            os.utime(entry, (0, time.time() - 3600 * hours))

    def row(self, version: int) -> int:
        reader = self.spark.read.format("delta").option("versionAsOf", version)
        ((by_spark,),) = reader.load(self.folder).collect()
        assert read(self.folder, version).column("id").to_pylist() == [by_spark]
        return int(by_spark)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Aged:
    monkeypatch.setattr(checkpoint_schedule, "EVERY", 8)
    made = Aged(spark, tmp_path / "t")
    for _ in range(20):
        made.commit()
    made.age()
    made.commit()
    return made


@pytest.mark.slow
def test_promised_versions_and_the_newest_are_read(table: Aged) -> None:
    assert remove_commits(table.folder, table.durable, before=time.time() - 60, keep={3, 9}) == 14
    other = Aged.__new__(Aged)  # a session that has seen nothing of the table
    other.spark, other.folder = table.spark.newSession(), table.folder
    forget(table.spark)
    assert [other.row(version) for version in (3, 9, 17, 21)] == [3, 9, 17, 21]
    with pytest.raises(Exception, match=r"(?i)version|recreat"):
        other.row(5)
    for _ in range(9):  # the snapshot from before goes on, and a checkpoint comes
        table.commit()
    assert [table.row(version) for version in (3, 9, 30)] == [3, 9, 30]
    table.age()
    assert remove_commits(table.folder, table.durable, before=time.time() - 60, keep={9}) == 9
    assert [table.row(version) for version in (9, 30)] == [9, 30]


def test_delta_opens_a_table_by_its_checkpoint_and_checksum(table: Aged) -> None:
    snapshot = DeltaSnapshot(table.spark, table.folder)
    assert snapshot.segment() == (16, 5)
    assert snapshot.has_valid_checksum()  # without a checksum Delta computes the state again
    assert table.row(21) == 21


def test_setting_properties_keeps_all_else_and_refuses_an_old_plan(table: Aged) -> None:
    """Everything else stays, and a commit that was planned on the earlier properties is refused."""
    table.spark.sql(f"COMMENT ON TABLE delta.`{table.folder}` IS 'of somebody'")
    found = table.delta.snapshot(table.folder)
    assert found is not None
    table.snapshot = before = found
    files = table.delta.files(before)
    asked = {"delta.deletedFileRetentionDuration": "interval 9 hours"}
    version = table.delta.set_properties(before, asked, "app")
    after = table.delta.advance(before, version)
    assert version == before.version + 1
    assert after.configuration == {**before.configuration, **asked}
    same = (before.metadata_id, before.schema_string, before.features)
    assert (after.metadata_id, after.schema_string, after.features) == same
    assert table.delta.files(after) == files
    assert table.delta.last_txn(after, "app") == before.version
    detail = table.spark.sql(f"DESCRIBE DETAIL delta.`{table.folder}`").first()
    assert detail is not None and detail["description"] == "of somebody"
    with pytest.raises(ConcurrentChangeError):
        table.delta.set_properties(before, asked, "app")
    table.snapshot = after
    table.commit()
    assert table.row(version + 1) == version + 1


@pytest.mark.slow
@pytest.mark.parametrize("tracks", [True, False])
def test_a_stream_that_tracks_schemas_stops_once_where_properties_are_set(
    spark: SparkSession, tmp_path: Path, tracks: bool
) -> None:
    folder, seen = str(tmp_path / "t"), str(tmp_path / "seen")
    table, state = f"delta.`{folder}`", str(tmp_path / "state")
    spark.range(1).write.format("delta").save(folder)
    delta = TableLog()

    def follow() -> None:
        reader = spark.readStream.format("delta")
        if tracks:
            reader = reader.option("schemaTrackingLocation", f"{state}/_schema")
        writer = reader.load(folder).writeStream.format("delta")
        query = writer.option("checkpointLocation", state).trigger(availableNow=True).start(seen)
        query.awaitTermination()

    follow()
    before = delta.snapshot(folder)
    assert before is not None
    delta.set_properties(before, {"delta.logRetentionDuration": "interval 60 days"}, "app")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    if tracks:
        with pytest.raises(Exception, match="DELTA_STREAMING_METADATA_EVOLUTION"):
            follow()
    follow()
    assert sorted(read(seen).column("id").to_pylist()) == [0, 1]


def test_others_commits_behind_a_known_snapshot_are_seen(table: Aged) -> None:
    table.spark.sql(f"ALTER TABLE delta.`{table.folder}` SET TBLPROPERTIES ('a' = 'b')")
    assert not table.delta.is_newest(table.snapshot)
    newest = table.delta.snapshot(table.folder)
    assert newest is not None and newest.version == table.snapshot.version + 1
    table.snapshot = newest
    table.commit()
    assert table.row(23) == 23
    os.remove(Path(table.folder, "_delta_log", f"{23:020d}.json"))  # an older state put back
    assert not table.delta.is_newest(table.snapshot)


@pytest.mark.slow
def test_vacuum_leaves_files_of_pinned_versions(table: Aged) -> None:
    table.age(hours=4)
    spared = files_of(table.folder, {3, 9})
    assert spared == {"3.parquet", "9.parquet"}
    vacuum(table.folder, Remover(), time.time(), spared)
    assert sorted(path.name for path in Path(table.folder).glob("*.parquet")) == [
        "21.parquet", "3.parquet", "9.parquet",
    ]  # fmt: skip
    layout = Layout(os.path.dirname(table.folder))
    for number in (3, 9, 21):
        shown = {"x.t": TableVersion("t", number, "id", number)}
        reader = CutReader(table.spark, layout, Cut(number, "", "log", {}, shown))
        assert reader.table("x.t").collect() == [(number,)]
    with pytest.raises(Exception, match="BEYOND_DELETED_FILE_RETENTION"):
        table.row(3)  # whoever does not go by the cut has to say that he means it

"""The state of a log: from checkpoints and commits, and carried on by commits."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_repl.delta.log import checkpoint_writer, log_checkpoints, version_checksum
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.commit_file import Operation, complete, publish
from spark_repl.delta.log.log_replay import checksum_path, commit_path
from spark_repl.delta.log.log_state import LiveTotals, LogState, advance, load
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store.remover import Remover
from spark_repl.delta.store.storage import data_file
from spark_repl.errors import ConcurrentChangeError, FencedError, TargetError
from spark_repl.write.upkeep.file_retention import keep_files_of

COLUMN = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
SCHEMA = json.dumps({"type": "struct", "fields": [COLUMN]})
VECTORS = {"delta.enableDeletionVectors": "true"}
VECTOR = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 3}


def add(path: str, **more: Any) -> dict[str, Any]:
    fields = {"path": path, "size": 10, "dataChange": True, "partitionValues": {"p": None}}
    return {"add": {**fields, "modificationTime": 1, "stats": '{"numRecords":5}', **more}}


def remove(path: str, **more: Any) -> dict[str, Any]:
    fields = {"path": path, "size": 10, "dataChange": True, "deletionTimestamp": 10**14}
    return {"remove": {**fields, **more}}


class Table:
    """A table without Spark."""

    def __init__(self, folder: Path, properties: dict[str, str] = VECTORS) -> None:
        self.folder, self.log = str(folder), TableLog()
        self.position = 0
        self.log.create(self.folder, NewTable(SCHEMA, properties), Stamp("us", 0, "0"))

    def snapshot(self) -> Snapshot:
        snapshot = self.log.snapshot(self.folder)
        assert snapshot is not None
        return snapshot

    def commit(self, *actions: dict[str, Any], app: str = "us") -> LogState:
        self.position += 1
        planned = self.snapshot()
        self.log.files(planned)
        version = self.log.commit(planned, [*actions], Stamp(app, self.position, "x"))
        return self.log.advance(planned, version).state

    def others(self, *actions: dict[str, Any]) -> None:
        state = self.snapshot().state
        publish(self.folder, state.version + 1, complete(state, actions, Operation("WRITE")))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "t")


def test_a_new_table_is_not_read_again_and_only_once(table):
    read = table.snapshot()
    created = table.log.created(table.folder)
    assert created == read and created is not None and created.state == read.state
    assert created.state.totals == LiveTotals()  # known without its checksum
    assert table.log.created(table.folder) is None
    table.commit(add("a"))
    assert table.log.created(table.folder) is None


def test_a_state_that_is_carried_on_is_the_one_that_is_read(table):
    table.commit(add("a"), add("b"), app="first")
    domain = {"domain": "d", "configuration": "{}", "removed": False}
    table.commit({"domainMetadata": domain}, remove("a"), add("a", deletionVector=VECTOR))
    carried = table.commit({"domainMetadata": {**domain, "removed": True}}, remove("b"))
    assert carried == load(table.folder)
    assert {app: one["version"] for app, one in carried.txns.items()} == {"us": 3, "first": 1}
    assert carried.domains == {}
    assert carried.totals == LiveTotals(1, 10, 1, 3)


def test_a_checkpoint_holds_the_state_and_the_files(table):
    for number in range(3):
        table.commit(add(f"f{number}"), add(f"g{number}"))
    table.commit(remove("f0"), add("f0", deletionVector=VECTOR, tags={"k": "v"}), remove("g0"))
    for number in range(3):
        table.commit({"domainMetadata": {"domain": "d", "configuration": str(number)}})
        before, files = table.snapshot(), live_files(table.folder, table.snapshot().version)
        checkpoint_writer.write(before.folder, before.state)
        for version in range(before.version):
            Path(table.folder, "_delta_log", f"{version:020d}.json").unlink(missing_ok=True)
        after = load(table.folder)
        assert after is not None and after.totals == before.state.totals
        assert after.metadata == before.state.metadata
        assert set(after.txns) == set(before.state.txns)
        assert after.domains["d"]["configuration"] == str(number)
        assert live_files(table.folder, before.version) == files
    base = log_checkpoints.newest(table.folder)
    assert base is not None
    (removed,) = base.files("remove")
    assert sorted(removed["path"].to_pylist()) == ["f0", "g0"]
    assert removed["deletionVector"].null_count == 2


def test_removed_files_leave_a_checkpoint_after_their_retention(table):
    table.commit(add("a"), add("b"))
    table.commit(remove("a", deletionTimestamp=1), remove("b"))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    base = log_checkpoints.newest(table.folder)
    assert base is not None
    assert [part["path"].to_pylist() for part in base.files("remove")] == [["b"]]


def test_a_file_that_goes_twice_is_in_a_checkpoint_once(table):
    """RESTORE takes a removed file back."""
    table.commit(add("a"))
    table.commit(remove("a"))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    table.others(add("a"))
    table.commit(remove("a", deletionTimestamp=10**14 + 5))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    base = log_checkpoints.newest(table.folder)
    assert base is not None
    (removed,) = base.files("remove")
    assert removed["deletionTimestamp"].to_pylist() == [10**14 + 5]


def test_a_hint_that_names_an_older_checkpoint_hides_no_newer_one(table):
    """Its writer slept, and woke behind a clean-up of the log."""
    for number in range(6):
        table.commit(add(f"f{number}"))
    before, older = table.snapshot(), table.log.snapshot(table.folder, 2)
    files = live_files(table.folder, before.version)
    for state in (table.log.snapshot(table.folder, 5).state, older.state):
        checkpoint_writer.write(table.folder, state)
    log = Path(table.folder, "_delta_log")
    log.joinpath("_last_checkpoint").write_text('{"version":2,"size":4}')
    for version in range(5):
        log.joinpath(f"{version:020d}.json").unlink()
    assert table.snapshot() == before
    assert live_files(table.folder, before.version) == files
    table.commit(add("more"))


def test_a_multi_part_checkpoint_of_one_part_may_lie_beside_one_of_one_file(table):
    table.commit(add("a"))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    log = Path(table.folder, "_delta_log")
    whole = log / f"{1:020d}.checkpoint.parquet"
    whole.with_name(f"{1:020d}.checkpoint.{1:010d}.{1:010d}.parquet").write_bytes(
        whole.read_bytes()
    )
    log.joinpath("_last_checkpoint").unlink()
    assert log_checkpoints.newest(table.folder) is not None


def test_a_checkpoint_of_many_transactions_takes_no_time_for_each(table):
    txns = {f"app{n}": {"appId": f"app{n}", "version": n} for n in range(40_000)}
    state = replace(table.snapshot().state, txns=txns)
    begin = time.process_time()
    checkpoint_writer.write(table.folder, state)
    assert time.process_time() - begin < 5  # 16 s and more, when each was a table
    after = load(table.folder)
    assert after is not None and after.txns == txns


def test_vacuum_spares_what_the_log_names_by_a_uri(tmp_path):
    folder = tmp_path / "a b"
    retention = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    table = Table(folder, {**VECTORS, **retention})
    link = tmp_path / "link"
    link.symlink_to(folder)
    files = [folder / f"{n}.parquet" for n in range(6)] + [folder / "\udcff.parquet"]
    for file in files:
        file.write_bytes(b"x")
        os.utime(file, (1, 1))
    uri = str(folder).replace(" ", "%20")
    paths = "0.parquet", f"file:{uri}/1.parquet", f"file://{uri}/2.parquet", f"{uri}/3.parquet"
    table.commit(*map(add, [*paths, f"file:{link}/4.parquet"]))
    assert vacuum(table.folder, Remover(), time.time()) == 1
    assert [file.exists() for file in files] == [True] * 5 + [False, True]
    assert data_file(table.folder, paths[1]) == str(files[1])


def test_a_preview_of_a_feature_is_the_feature(table):
    features = ["appendOnly", "deletionVectors", "inCommitTimestamp-preview", "invariants"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    listed = {"readerFeatures": ["deletionVectors"], "writerFeatures": features}
    metadata = table.snapshot().state.metadata
    timestamps = {"delta.enableInCommitTimestamps": "true"}
    metadata = {**metadata, "configuration": {**VECTORS, **timestamps}}
    table.others({"protocol": {**protocol, **listed}}, {"metaData": metadata})
    before = table.snapshot()
    table.log.set_properties(before, {"k": "v"}, "us")
    assert table.snapshot().state.protocol == before.state.protocol


def test_a_checkpoint_of_an_older_version_leaves_the_hint(table):
    for number in range(4):
        table.commit(add(f"f{number}"))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    older = table.log.snapshot(table.folder, 2)
    checkpoint_writer.write(table.folder, older.state)
    assert log_checkpoints.hinted_version(table.folder) == 4
    path = Path(table.folder, "_delta_log", f"{2:020d}.checkpoint.parquet")
    assert pq.read_table(path).column("add").drop_null().length() == 2


def test_a_missing_version_is_named(table):
    for number in range(3):
        table.commit(add(f"f{number}"))
    Path(table.folder, "_delta_log", f"{2:020d}.json").unlink()
    with pytest.raises(TargetError, match=r"version 2 .* is missing, and version 3 is there"):
        load(table.folder)


def test_a_commit_on_an_older_version_does_not_land(table):
    planned = table.snapshot()
    table.others(add("theirs"))
    with pytest.raises(ConcurrentChangeError):
        table.log.commit(planned, [add("ours")], Stamp("us", 7, ""))
    planned = table.snapshot()
    table.commit(add("a former owner's"))
    with pytest.raises(FencedError):
        table.log.commit(planned, [add("ours")], Stamp("us", 7, ""))
    with pytest.raises(ConcurrentChangeError):
        table.log.create(table.folder, NewTable(SCHEMA, {}), Stamp("us", 0, ""))


def test_checksums_go_on_over_commits_of_others(table):
    table.commit(add("a"))
    assert version_checksum.read_totals(table.folder, 1) == LiveTotals(1, 10)
    table.others(add("b", size=7), remove("a"))
    assert version_checksum.read_totals(table.folder, 2) is None
    table.commit(add("c"))
    assert version_checksum.read_totals(table.folder, 3) == LiveTotals(2, 17)


def test_totals_are_not_carried_over_commits_of_others(table):
    """A backfill of row ids, or ANALYZE, adds files that are live."""
    table.commit(add("a"))
    state = table.commit(add("b"))
    assert state.totals == LiveTotals(2, 20)
    info = {"commitInfo": {"operation": "ROW TRACKING BACKFILL", "engineInfo": "Spark"}}
    publish(table.folder, 3, [info, add("a", dataChange=False, baseRowId=0)])
    assert advance(table.folder, state, 3).totals is None
    table.commit(add("c"))
    assert version_checksum.read_totals(table.folder, 4) == LiveTotals(3, 30)


def test_a_checksum_that_can_not_be_written_is_no_error(table):
    os.mkdir(checksum_path(table.folder, 1))
    table.commit(add("a"))
    assert table.snapshot().version == 1


def test_features_come_with_the_properties_and_types_that_need_them(table):
    planned = table.snapshot()
    fields = [COLUMN, {**COLUMN, "name": "t", "type": "timestamp_ntz"}]
    properties = {**planned.configuration, "delta.enableChangeDataFeed": "true"}
    new = NewTable(json.dumps({"type": "struct", "fields": fields}), properties)
    version = table.log.alter(planned, new, [], Stamp("us", 1, ""))
    after = table.log.advance(planned, version)
    assert after.features == planned.features | {"timestampNtz", "changeDataFeed"}
    assert after == table.snapshot()
    mapped = NewTable(after.schema_string, {"delta.columnMapping.mode": "name"})
    with pytest.raises(TargetError, match="columnMapping"):
        table.log.alter(after, mapped, [], Stamp("us", 2, ""))


def test_a_table_with_an_unknown_feature_gets_no_longer_retention(table):
    """Nothing is applied to the table any more, so no other code checks its features."""
    before = table.snapshot().state.protocol
    features = {kind: [*before[kind], "unheardOf"] for kind in before if "Features" in kind}
    table.others({"protocol": {**before, **features}})
    with pytest.raises(TargetError, match="unheardOf"):
        keep_files_of(table.log, table.folder, 1000, "us")
    assert table.snapshot().version == 1


def test_a_checksum_names_no_more_than_a_hundred_transactions(table: Table) -> None:
    """Each commit writes one: it would grow with every application that ever wrote."""
    path = Path(table.folder, "_delta_log")
    for number in range(101):
        table.commit(app=f"app {number}")
        version = table.snapshot().version
        content = json.loads((path / f"{version:020d}.crc").read_text())
        assert len(table.snapshot().state.txns) == number + 2
        if number < 99:
            assert len(content["setTransactions"]) == number + 2
        else:
            assert "setTransactions" not in content


def test_a_checksum_that_cannot_be_read_is_none(table: Table) -> None:
    version = table.snapshot().version
    path = Path(table.folder, "_delta_log", f"{version:020d}.crc")
    path.unlink(missing_ok=True)
    path.mkdir()
    table.log = TableLog()
    table.commit()
    assert table.snapshot().version == version + 1


def test_checksums_count_a_file_once_that_gets_other_statistics(table):
    table.commit(add("a"), add("b"))
    table.commit(add("a", dataChange=False, stats="{}"))
    table.commit(add("c"))
    checksum = json.loads(Path(checksum_path(table.folder, 3)).read_text())
    assert checksum["numFiles"] == 3


def test_a_commit_on_a_version_that_was_removed_meanwhile_does_not_land(table):
    """The process slept: another engine has committed, checkpointed and cleaned up."""
    planned = table.snapshot()
    for name in ("a", "b", "c"):
        table.others(add(name))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    for version in range(3):
        Path(commit_path(table.folder, version)).unlink()
    with pytest.raises(ConcurrentChangeError, match="removed earlier versions"):
        table.log.commit(planned, [add("ours")], Stamp("us", 2, "{}"))
    found = table.log.snapshot(table.folder)
    assert found is not None and table.log.last_txn(found, "us") == 0
    assert sorted(live_files(table.folder, found.version)) == ["a", "b", "c"]


def test_a_commit_on_a_version_of_which_only_the_checkpoint_is_left_lands(table):
    table.others(add("a"))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    planned = table.snapshot()
    for version in range(2):
        Path(commit_path(table.folder, version)).unlink()
    assert table.log.commit(planned, [add("ours")], Stamp("us", 2, "{}")) == 2


def test_hadoops_checksum_of_a_replaced_hint_is_removed(table):
    hint = Path(table.folder, "_delta_log", "_last_checkpoint")
    stale = hint.with_name("._last_checkpoint.crc")
    stale.write_bytes(b"crc")
    table.commit(add("a"))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    assert hint.exists() and not stale.exists()

"""What a commit of ours has beside its actions, and how its file is published."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.log.commit_file import ENGINE, Operation, complete, publish, txn_id
from spark_repl.delta.log.log_replay import commit_path, read_commit
from spark_repl.delta.log.log_state import LogState
from spark_repl.errors import ConcurrentChangeError, TargetError

SCHEMA = json.dumps({"type": "struct", "fields": []})
ADD = {"path": "a", "size": 10, "dataChange": True, "stats": '{"numRecords":5}'}
OPTIMIZE = Operation("OPTIMIZE", {"auto": False})


def state(*features: str, properties: dict[str, str] | None = None, **fields: Any) -> LogState:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": [*features]}
    metadata = {"id": "1", "schemaString": SCHEMA, "configuration": properties or {}}
    return LogState(4, protocol, metadata, **fields)


def info_of(actions: list[dict[str, Any]]) -> dict[str, Any]:
    info: dict[str, Any] = actions[0]["commitInfo"]
    return info


def test_commit_info_comes_first_and_names_us():
    info = info_of(complete(state(), [{"add": ADD}], Operation("WRITE", {}, "mine")))
    assert info["operation"] == "WRITE" and info["userMetadata"] == "mine"
    assert info["engineInfo"] == ENGINE and info["readVersion"] == 4
    assert info["operationMetrics"]["numAddedFiles"] == "1"
    assert "inCommitTimestamp" not in info


def test_parameters_are_written_as_delta_writes_them():
    operation = Operation("SET", {"properties": {"a": "b"}, "auto": False, "mode": "Append"})
    written = info_of(complete(state(), [], operation))["operationParameters"]
    assert written == {"properties": '{"a":"b"}', "auto": False, "mode": "Append"}


def test_a_file_with_another_vector_is_neither_added_nor_removed():
    actions = [{"remove": {"path": "a", "size": 10}}, {"add": ADD}, {"remove": {"path": "b"}}]
    metrics = info_of(complete(state(), actions, OPTIMIZE))["operationMetrics"]
    assert metrics == {
        "numAddedFiles": "0", "numAddedBytes": "0", "numRemovedFiles": "1",
        "numRemovedBytes": "0", "numDeletionVectorsUpdated": "1",
    }  # fmt: skip


def test_in_commit_timestamps_rise_even_if_the_clock_does_not():
    ahead = 10**15
    timestamps = {"delta.enableInCommitTimestamps": "true"}
    before = state("inCommitTimestamp", properties=timestamps, timestamp_ms=ahead)
    actions = complete(before, [], OPTIMIZE)
    assert next(iter(info_of(actions))) == "inCommitTimestamp"
    assert info_of(actions)["inCommitTimestamp"] == ahead + 1
    assert before.after(actions).timestamp_ms == ahead + 1


def test_new_files_get_row_ids_and_marked_ones_keep_theirs():
    kept = {**ADD, "path": "old", "baseRowId": 0, "defaultRowCommitVersion": 1}
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}'}
    before = state("rowTracking", "domainMetadata", domains={"delta.rowTracking": domain})
    actions = complete(before, [{"add": kept}, {"add": ADD}], OPTIMIZE)
    assert actions[1] == {"add": kept}
    assert actions[2]["add"] == {**ADD, "baseRowId": 10, "defaultRowCommitVersion": 5}
    assert before.after(actions).last_row_id == 14
    with pytest.raises(TargetError, match="no number of rows"):
        complete(before, [{"add": {**ADD, "stats": "{}"}}], OPTIMIZE)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "_delta_log").mkdir()
    return str(tmp_path)


def test_a_version_is_written_once(folder):
    ours, others = (complete(state(), [{"add": ADD}], OPTIMIZE) for _ in range(2))
    publish(folder, 5, others)
    with pytest.raises(ConcurrentChangeError, match="version 5 is taken"):
        publish(folder, 5, ours)
    assert txn_id(read_commit(folder, 5) or ()) == txn_id(others)
    assert os.listdir(f"{folder}/_delta_log") == [f"{5:020d}.json"]


def test_a_commit_that_is_asked_for_twice_has_landed(folder):
    """A store's client sends a put again when its answer is lost."""
    ours = complete(state(), [{"add": ADD}], OPTIMIZE)
    publish(folder, 5, ours)
    publish(folder, 5, ours)


def test_any_text_is_one_line(folder):
    odd = "\u2028\x85\r\n\U00020bb7"
    publish(folder, 0, [{"commitInfo": {"txnId": "1", "userMetadata": odd}}])
    lines = Path(commit_path(folder, 0)).read_bytes().split(b"\n")
    assert len(lines) == 2 and "\U00020bb7".encode() in lines[0]
    assert json.loads(lines[0])["commitInfo"]["userMetadata"] == odd

"""The newest version of a log, where others have removed its commit, or a version is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_repl.delta.log import checkpoint_writer, log_state
from spark_repl.delta.log.commit_file import publish
from spark_repl.delta.log.log_replay import checksum_path, commit_path
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.errors import TargetError
from tests.unit.delta.log.test_log_state import Table, add

TIMESTAMPS = {"delta.enableInCommitTimestamps": "true"}
AHEAD_MS = 10**14
"""a time in the future: the clock of the commit's writer was ahead"""


def checkpointed(folder: Path, properties: dict[str, str]) -> Table:
    """Return a table whose newest version has a checkpoint, and no commit."""
    table = Table(folder, properties)
    table.commit(add("a"))
    checkpoint_writer.write(table.folder, table.snapshot().state)
    Path(commit_path(table.folder, 1)).unlink()
    return table


@pytest.mark.parametrize("is_carried", [True, False])
def test_a_version_without_its_commit_is_the_newest_by_its_checkpoint(
    tmp_path: Path, is_carried: bool
) -> None:
    table = Table(tmp_path / "t")
    carried = table.commit(add("a"))
    checkpoint_writer.write(table.folder, carried)
    Path(commit_path(table.folder, 1)).unlink()
    snapshot = Snapshot.of(table.folder, carried) if is_carried else table.snapshot()
    assert bool(snapshot.state.txn_id) == is_carried
    assert table.log.is_newest(snapshot)
    table.commit(add("b"))
    assert not table.log.is_newest(snapshot)
    assert table.log.is_newest(table.snapshot())


def test_a_version_whose_checkpoint_is_gone_as_well_is_not_the_newest(tmp_path: Path) -> None:
    table = checkpointed(tmp_path / "t", {})
    snapshot = table.snapshot()
    for path in Path(table.folder, "_delta_log").glob("*checkpoint*"):
        path.unlink()
    assert not table.log.is_newest(snapshot)


def test_a_timestamp_whose_commit_is_gone_is_read_from_the_checksum(tmp_path: Path) -> None:
    table = checkpointed(tmp_path / "t", TIMESTAMPS)
    path = Path(checksum_path(table.folder, 1))
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "inCommitTimestampOpt": AHEAD_MS}))
    assert table.snapshot().state.timestamp_ms == AHEAD_MS
    assert table.commit(add("b")).timestamp_ms == AHEAD_MS + 1


@pytest.mark.parametrize("left", [None, b"", b"{}", b"[]"])
def test_a_commit_is_refused_where_the_timestamp_before_it_is_unknown(
    tmp_path: Path, left: bytes | None
) -> None:
    """Timestamps must rise, and the clock of the version's writer may have been ahead."""
    table = checkpointed(tmp_path / "t", TIMESTAMPS)
    path = Path(checksum_path(table.folder, 1))
    path.unlink() if left is None else path.write_bytes(left)
    assert table.log.is_newest(table.snapshot())
    with pytest.raises(TargetError, match="in-commit timestamp of version 1 is not known"):
        table.commit(add("b"))
    assert table.snapshot().version == 1


def test_a_commit_of_others_without_a_timestamp_is_named(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", TIMESTAMPS)
    Path(commit_path(table.folder, 1)).write_text(json.dumps(add("a")) + "\n")
    with pytest.raises(TargetError, match="in-commit timestamp of version 1 is not known"):
        table.commit(add("b"))


def test_every_way_to_the_newest_version_names_one_that_is_missing(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(3):
        table.commit(add(f"f{number}"))
    Path(commit_path(table.folder, 2)).unlink()
    for read in (log_state.load, log_state.newest_version, table.log.version):
        with pytest.raises(TargetError, match=r"version 2 .* is missing, and version 3 is there"):
            read(table.folder)


# In-commit timestamps that others switch off, and on again.

ENABLEMENT = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)


def switched(table: Table, on: bool) -> None:
    """Change the property as Delta does, which notes from when on commits have timestamps."""
    planned = table.snapshot()
    configuration = {**planned.configuration, "delta.enableInCommitTimestamps": str(on).lower()}
    if on:
        configuration |= {ENABLEMENT[0]: str(planned.version + 1), ENABLEMENT[1]: str(AHEAD_MS)}
    info = {"operation": "SET TBLPROPERTIES", "engineInfo": "Spark", "timestamp": 1}
    if on:
        info["inCommitTimestamp"] = AHEAD_MS
    metadata = {**planned.state.metadata, "configuration": configuration}
    publish(table.folder, planned.version + 1, [{"commitInfo": info}, {"metaData": metadata}])


@pytest.mark.parametrize("is_read", [True, False])
def test_timestamps_that_others_switch_off_and_on_again(tmp_path: Path, is_read: bool) -> None:
    """``is_read``: each state is read from a checkpoint, not carried on."""
    table = Table(tmp_path / "t", TIMESTAMPS)

    def commit(name: str) -> int | None:
        timestamp_ms = table.commit(add(name)).timestamp_ms
        if is_read:
            checkpoint_writer.write(table.folder, table.snapshot().state)
        return timestamp_ms

    assert commit("a") is not None
    switched(table, False)
    assert [commit("b"), commit("c")] == [None, None]
    switched(table, True)
    assert [commit("d"), commit("e")] == [AHEAD_MS + 1, AHEAD_MS + 2]
    table.log.set_properties(table.snapshot(), {"k": "v"}, "us")
    planned = table.snapshot()
    noted = [planned.configuration[name] for name in ENABLEMENT]
    assert noted == ["5", str(AHEAD_MS)] and planned.state.timestamp_ms == AHEAD_MS + 3


def test_what_is_of_each_commit_is_not_switched_on_again_by_us(tmp_path: Path) -> None:
    """Readers by time would need to know from which version on commits have timestamps."""
    table = Table(tmp_path / "t", TIMESTAMPS)
    switched(table, False)
    with pytest.raises(TargetError, match="can't be given inCommitTimestamp"):
        table.log.set_properties(table.snapshot(), TIMESTAMPS, "us")
    assert table.snapshot().version == 1


def test_a_listing_during_two_commits_may_lack_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "t")
    for path in "abc":
        table.commit(add(path))
    true = log_state.log_checkpoints.newest_and_names

    def without_one(*args: object) -> tuple[object, list[str]]:
        checkpoint, names = true(*args)  # type: ignore[arg-type]
        return checkpoint, [name for name in names if not name.endswith("2.json")]

    monkeypatch.setattr(log_state.log_checkpoints, "newest_and_names", without_one)
    assert table.log.version(table.folder) == 3
    Path(commit_path(table.folder, 2)).unlink()
    with pytest.raises(TargetError, match="version 2 of the table's log is missing"):
        table.log.version(table.folder)

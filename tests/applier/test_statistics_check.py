"""Statistics of an earlier version, by which other engines lose rows, are corrected at a start: the
same files, once. ``cut export`` names the tables of cuts before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.channels import channel_at
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.log_state import newest_version
from spark_repl.write.tables.table_commits import TableCommits
from tests.support import shared
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import cuts, run
from tests.support.old_statistics import make_old
from tests.support.readers import Condition, by_delta_rs, by_duckdb, by_polars

A, PLAIN = Table("a"), Table("plain")
NAMES = ["\U00020bb7", "\U00020bb7野", "Anna", "\U0003106c"]
ROWS = [{"id": number, "v": name} for number, name in enumerate(NAMES)]
ONE_FILE_EACH: dict[str, Any] = {"group_max_transactions": 1, "keys": {"compact_files": 1000}}
SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string())])


@pytest.fixture
def old(log: LogWriter, target: Path) -> LogWriter:
    """The log of a target that an earlier version left: a file for each name, one row marked."""
    log.ddl(PLAIN.create)
    log.transaction(insert(PLAIN, (1, "x")))
    for row in ROWS:
        log.transaction(insert(A, (row["id"], row["v"]), (row["id"] + 10, "")))
    log.transaction(*(delete(A, (row["id"] + 10, "")) for row in ROWS))
    assert run(log.folder, target, **ONE_FILE_EACH)
    make_old(target)
    return log


def files_of(folder: Path) -> dict[str, dict[str, Any]]:
    files = live_files(str(folder), newest_version(str(folder)))
    assert files is not None
    return files


def test_files_are_added_again_once(old: LogWriter, target: Path) -> None:
    folder = target / "t" / "a"
    before, version = files_of(folder), newest_version(str(folder))
    plain = newest_version(str(target / "t" / "plain"))
    asked = [Condition("v", comparison, name) for name in NAMES for comparison in ("=", ">=")]
    assert by_delta_rs(str(folder), SCHEMA, asked) != [one.rows(ROWS) for one in asked]
    assert run(old.folder, target, **ONE_FILE_EACH)
    after = files_of(folder)
    assert newest_version(str(folder)) == version + 1
    for path, add in before.items():
        again = after[path]
        assert again == {**add, "stats": again["stats"], "dataChange": again["dataChange"]}
        assert json.loads(again["stats"]) == json.loads(add["stats"])
        assert ("\\ud" in add["stats"]) == (not again["dataChange"])
        assert "\\ud" not in again["stats"]
    assert any("deletionVector" in add for add in after.values())
    for reader in (by_delta_rs, by_duckdb, by_polars):
        assert reader(str(folder), SCHEMA, asked) == [one.rows(ROWS) for one in asked], reader
    assert run(old.folder, target, **ONE_FILE_EACH)
    assert newest_version(str(folder)) == version + 1
    assert newest_version(str(target / "t" / "plain")) == plain, "it had nothing to correct"


def test_tables_that_are_recorded_are_not_read_again(old: LogWriter, target: Path) -> None:
    assert run(old.folder, target, **ONE_FILE_EACH)
    make_old(target)
    folder = target / "t" / "a"
    version = newest_version(str(folder))
    assert run(old.folder, target, **ONE_FILE_EACH)
    assert newest_version(str(folder)) == version
    assert len(channel_at(str(target)).control.rows("statistics")) == 1


def test_cut_off_anywhere_it_is_corrected_by_the_next_start(old: LogWriter, target: Path) -> None:
    steps = 0
    while not run(old.folder, target, **ONE_FILE_EACH, crash=(steps := steps + 1)):
        pass
    assert not any("\\ud8" in add["stats"] for add in files_of(target / "t" / "a").values())


def test_cut_export_names_tables_that_were_corrected_later(
    old: LogWriter, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = cuts(target)[-1].gtid_executed
    old.transaction(insert(A, (7, "later")))
    assert run(old.folder, target, **ONE_FILE_EACH)
    words = ["cut", "export", "--target", str(target), "--at"]
    assert main([*words, earlier]) == 0
    answer = capsys.readouterr()
    assert not json.loads(answer.out)["tables"]["t.a"]["sound_statistics"]
    assert "t.a" in answer.err
    assert main([*words, "latest"]) == 0
    answer = capsys.readouterr()
    assert json.loads(answer.out)["tables"]["t.a"]["sound_statistics"]
    assert "t.a" not in answer.err


@pytest.mark.parametrize("first", shared.CHANNELS)
def test_rows_that_another_channel_deletes_meanwhile_stay_deleted(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Its commit lands between the look of ``first`` at the files and the commit of these."""
    logs = shared.writers(tmp_path)
    for channel, log in logs.items():
        log.ddl(shared.one(channel).create)
        log.transaction(*(insert(shared.one(channel), (key, NAMES[0])) for key in range(1, 6)))
        assert run(log.folder, target, channel=channel, **shared.BOTH)
    make_old(target)
    (other,) = {*shared.CHANNELS} - {first}
    logs[other].transaction(*(delete(shared.one(other), (key, NAMES[0])) for key in (1, 2)))
    behind, others = TableCommits.commit_after_sharing, [other]

    def beaten(self: TableCommits, table: Any, commit: Any) -> int:
        if others:
            assert run(logs[others.pop()].folder, target, channel=other, **shared.BOTH)
        return behind(self, table, commit)

    monkeypatch.setattr(TableCommits, "commit_after_sharing", beaten)
    assert run(logs[first].folder, target, channel=first, **shared.BOTH)
    assert not others
    shared.check(target, logs, tmp_path / "apart")
    files = files_of(target / shared.FOLDER).values()
    assert not any("\\ud8" in add["stats"] for add in files), "each channel has corrected its own"

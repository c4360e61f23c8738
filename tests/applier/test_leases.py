"""An applier in a receiver's log that another channel purges: WL#5721, in the applier's process."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path

import pytest

from spark_repl.apply.group import cut_publisher
from spark_repl.receiver.purge import purge
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.log import open_log
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import receive
from tests.support.local_delta import CRASHES, applier, apply_without_stream, rows

A = Table("a")


@pytest.fixture
def relay(tmp_path: Path) -> Path:
    source, folder = LogWriter(tmp_path / "source"), tmp_path / "relay"
    source.ddl("CREATE DATABASE t")
    source.ddl(A.create)
    for key in range(20):
        source.transaction(insert(A, (key, "x" * 30)))
    with RelayWriter(folder, 4711, Limits(1000)) as writer:
        receive(writer, [source.path])
        assert writer.number > 4
    return folder


def test_it_holds_the_file_where_its_tables_are(relay: Path, tmp_path: Path) -> None:
    last = open_log(str(relay)).files[-1].number
    with applier(relay, tmp_path / "lake", group_max_transactions=2) as found:
        purged = purge(relay, last)
        assert not purged.files and "relay.000001" in purged.warning
        coordinator = found.coordinator
        records = found.index.slice(0, found.index.end)
        half = records[: len(records) // 2]
        coordinator.apply(half)
        there = int(half["end"][-1]) >> 40
        assert 1 < there < last
        assert len(purge(relay, last).files) == there - 1
        apply_without_stream(found)
        position = coordinator.mark.position >> 40
        assert len(purge(relay, last).files) == position - there
        assert not purge(relay, position).warning
    with applier(relay, tmp_path / "lake") as found:
        apply_without_stream(found)
        assert not purge(relay, found.coordinator.mark.position >> 40).warning
    assert len(rows(tmp_path / "lake", A)) == 20


def test_one_that_is_not_running_holds_nothing(relay: Path, tmp_path: Path) -> None:
    with applier(relay, tmp_path / "lake") as found:
        assert found.coordinator.mark.position == 0
    last = open_log(str(relay)).files[-1].number
    assert len(purge(relay, last).files) == last - 1


def test_one_that_has_gone_back_holds_nothing_of_before(relay: Path, tmp_path: Path) -> None:
    """It goes back for a copy, for rows or for a table in quarantine, while Python's garbage
    collector is off."""
    gc.disable()
    try:
        with applier(relay, tmp_path / "lake", group_max_transactions=2) as found:
            records = found.index.slice(0, found.index.end)
            found.coordinator.apply(records[: len(records) // 2])
            found._go_back()
            apply_without_stream(found)
            assert not purge(relay, found.coordinator.mark.position >> 40).warning
    finally:
        gc.enable()


def test_statements_whose_cuts_were_held_back_let_go_of_the_files_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In files that hold nothing else: a stop publishes the cuts, and a purge takes the files."""
    monkeypatch.setattr(cut_publisher, "_HELD_BACK_S", 60.0)
    source, folder = LogWriter(tmp_path / "source"), tmp_path / "relay"
    source.ddl(A.create)
    for number in range(20):
        source.ddl(f"RENAME TABLE t.a{number or ''} TO t.a{number + 1}")
    with RelayWriter(folder, 4711, Limits(1000)) as writer:
        receive(writer, [source.path])
    hits = itertools.count(1)
    with applier(folder, tmp_path / "lake") as found:

        def stop(point: str) -> None:
            if point == "after_statement" and next(hits) == 15:
                found.stop()

        monkeypatch.setattr(CRASHES, "told", stop)
        apply_without_stream(found)
        there = found.coordinator.mark.position >> 40
        assert there > 2
        purged = purge(folder, there)
        assert len(purged.files) == there - 1 and not purged.warning

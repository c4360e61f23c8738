"""The log that is applied, looked at again and again: files come and go meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_repl.control.table.control import Control
from spark_repl.errors import LogError
from spark_repl.position import RelayPosition
from spark_repl.receiver.purge import purge
from spark_repl.receiver.writer import Limits, RelayWriter
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import receive
from tests.support.local_delta import applier, apply_without_stream, cuts, run

A = Table("a")


@pytest.fixture
def source(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "source")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    for key in range(9):
        made.transaction(insert(A, (key, "x" * 30)))
    return made


def received(folder: Path, source: LogWriter) -> int:
    """The number of the last file."""
    with RelayWriter(folder, 4711, Limits(1000)) as writer:
        receive(writer, sorted(source.folder.iterdir()))
        return writer.number


def fingerprints(control: Control) -> set[str]:
    rows = [json.loads(row["detail"]) for row in control.rows("history")]
    return {number for row in rows for number in row["fingerprints"]}


def test_files_that_come_while_it_runs_are_known_to_the_next_start(
    source: LogWriter, tmp_path: Path
) -> None:
    target = tmp_path / "lake"
    with applier(source.folder, target) as replica:
        apply_without_stream(replica)
        assert fingerprints(replica.tracking.control) == {"1"}
        source.rotate()
        source.transaction(insert(A, (10, "y")))
        replica.opened.applied.refresh()
        assert fingerprints(replica.tracking.control) == {"1", "2"}
    (source.folder / "bin.000001").unlink()
    assert run(source.folder, target)
    assert len({cut.log_id for cut in cuts(target)}) == 1, "it goes on, with the newer file alone"


def test_where_a_purge_took_the_file_the_first_that_is_there_is_held(
    source: LogWriter, tmp_path: Path
) -> None:
    """In a log that is not the target's first: its files have other numbers in positions."""
    target, relay = tmp_path / "lake", tmp_path / "relay"
    for _ in range(20):
        source.rotate()
    source.transaction(insert(A, (10, "y")))
    assert run(source.folder, target)
    last = received(relay, source)
    with applier(relay, target) as replica:
        applied = replica.opened.applied
        assert applied.base > 20
        applied.close()
        assert purge(relay, 3).files
        applied.hold(RelayPosition(applied.base + 1, 4).packed)
        assert not purge(relay, last).files
        applied.hold(RelayPosition(applied.base + last, 4).packed)
        assert purge(relay, last).files


def test_a_receivers_new_log_is_not_gone_on_with(source: LogWriter, tmp_path: Path) -> None:
    relay = tmp_path / "relay"
    received(relay, source)
    with applier(relay, tmp_path / "lake") as replica:
        apply_without_stream(replica)
        for file in relay.iterdir():
            file.unlink()
        received(relay, source)
        with pytest.raises(LogError, match="the receiver has begun a new relay log"):
            replica.opened.applied.refresh()

"""What a dump stream says of the file that it is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import SourceError, SourceLostError
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.writer import Limits, RelayWriter
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump, feed, packets

T = Table("a")


def source(folder: Path, server_id: int = 1) -> LogWriter:
    """Of one transaction."""
    made = LogWriter(folder, server_id=server_id)
    made.transaction(insert(T, (1, "x")))
    return made


def test_a_description_that_was_damaged_on_its_way_is_not_believed(tmp_path: Path) -> None:
    log = source(tmp_path / "source")
    rotated, described, *_ = list(dump([log.path]))
    assert described[4] == 15
    damaged = described[:30] + bytes([described[30] ^ 1]) + described[31:]
    with RelayWriter(tmp_path / "relay", 4711, Limits(1 << 30, 0)) as relay:
        with pytest.raises(SourceLostError, match="FORMAT_DESCRIPTION"):
            feed(Intake(relay), packets([rotated, damaged]))
        assert relay.transactions == 0


@pytest.mark.parametrize("by_file", [True, False])
def test_a_file_of_the_same_name_is_another_one(tmp_path: Path, by_file: bool) -> None:
    """It is another server: by file and position its events would be taken for those behind what
    was received; by GTID the source knows what is lacking, whatever its files are."""
    log, other = source(tmp_path / "source"), source(tmp_path / "reset", server_id=2)
    other.gno += 1
    other.transaction(insert(T, (2, "x")))
    assert log.path.name == other.path.name
    with RelayWriter(tmp_path / "relay", 4711, Limits(1 << 30, 0)) as relay:
        feed(Intake(relay, by_file=by_file), packets(list(dump([log.path]))))
        again = packets(list(dump([other.path], relay.received)))
        if by_file:
            with pytest.raises(SourceError, match="another file than the one of that name"):
                feed(Intake(relay, by_file=True), again)
        else:
            feed(Intake(relay), again)
        assert relay.transactions == (1 if by_file else 2)

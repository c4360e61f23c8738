"""When the relay log's writer ends a file, syncs it, what number the next one gets, and where it
says that the source is."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.gtid import GtidSet
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.file_list import FileList, write_list
from spark_repl.relay.log import open_log
from spark_repl.relay.published import NAME
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump, feed, packets, receive

T = Table("a")


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Of one transaction."""
    made = LogWriter(tmp_path / "source")
    made.transaction(insert(T, (100, "x")))
    return made


def opened(folder: Path, size: int = 1 << 30) -> RelayWriter:
    return RelayWriter(folder, 4711, Limits(size, 0))


def test_no_file_is_ended_before_it_is_full(log: LogWriter, tmp_path: Path) -> None:
    """However many are filled by what arrives at once."""
    for key in range(40):
        log.transaction(insert(T, (key, "x" * 40)))
    with opened(tmp_path / "relay", 2000) as relay:
        receive(relay, [log.path])
    *full, _ = (path.stat().st_size for path in sorted((tmp_path / "relay").glob("relay.0*")))
    assert len(full) > 2 and min(full) >= 2000


def test_the_sources_place_is_told_in_a_large_file(log: LogWriter, tmp_path: Path) -> None:
    """Events say 32 bits of it; the rest is that of the place before, however large our file is."""
    with opened(tmp_path / "relay", 1 << 40) as relay:
        intake, begun = Intake(relay), list(dump([log.path]))
        feed(intake, packets(begun))
        relay.source_position += 5 << 32
        relay.size = relay.whole = 3 << 30
        log.transaction(insert(T, (2, "x")))
        more = list(dump([log.path]))[len(begun) :]
        feed(intake, packets(more, sequence=1 + len(begun)))
        assert relay.source_position == (5 << 32) + log.path.stat().st_size


def test_a_sync_beside_follows_one_that_is_done(log: LogWriter, tmp_path: Path) -> None:
    with opened(tmp_path / "relay") as relay:
        feed(Intake(relay), packets(list(dump([log.path]))))
        relay.sync_beside()
        first = relay._syncing
        assert first is not None
        first.result()
        relay.sync_beside()
        assert relay._syncing is not first


def test_a_number_that_the_list_alone_names_is_not_used_again(
    log: LogWriter, tmp_path: Path
) -> None:
    """Its positions may stand in a target."""
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        receive(relay, [log.path])
        write_list(folder, FileList(relay.log_id, (1, 7)))
        (folder / NAME).unlink()
        relay.renew(GtidSet())
        receive(relay, [log.path])
    assert [file.number for file in open_log(str(folder)).files] == [8]

"""When the relay log's writer ends a file, syncs it, what number the next one gets, and where it
says that the source is."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import LogError, SourceLostError
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.file_list import FileList, file_name, write_list
from spark_repl.relay.log import open_log
from spark_repl.relay.log_inspection import verify_log
from spark_repl.relay.published_end import NAME
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.disk_steps import disk_steps
from tests.support.dump_stream import dump, feed, packets, receive, receive_at

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


def test_a_file_is_ended_after_its_next_transaction_if_asked(
    log: LogWriter, tmp_path: Path
) -> None:
    """Because it has too many chunks in the archive. No transaction spans two files."""
    for key in range(9):
        log.transaction(insert(T, (key, "x")))
    with opened(tmp_path / "relay") as relay:
        relay.ends_file = True
        receive(relay, [log.path])
        assert not relay.ends_file
    checks = list(verify_log(open_log(str(tmp_path / "relay"))))
    assert [check.transactions for check in checks] == [1, 9] and all(check.ok for check in checks)


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


def test_a_list_that_lacks_a_file_is_no_log(log: LogWriter, tmp_path: Path) -> None:
    for key in range(40):
        log.transaction(insert(T, (key, "x" * 40)))
    folder = tmp_path / "relay"
    with opened(folder, 1500) as relay:
        receive(relay, [log.path])
        numbers = [file.number for file in open_log(str(folder)).files]
        write_list(folder, FileList(relay.log_id, (1, *numbers[2:])))
    with pytest.raises(LogError, match=r"relay.000002 is missing"):
        open_log(str(folder))


def test_a_log_that_is_begun_anew_knows_no_file_of_the_source(
    log: LogWriter, tmp_path: Path
) -> None:
    """Else the one that comes would be refused as another of the same name."""
    with opened(tmp_path / "relay") as relay:
        receive_at(relay, [log.path])
        relay.renew(GtidSet())
        receive_at(relay, [log.path])
        assert relay.source_position == log.path.stat().st_size
        relay.lost = RelayPosition(1, 4)
        relay.renew(GtidSet())
        assert relay.lost is None


def test_a_rotate_that_was_damaged_on_its_way_is_not_written(
    log: LogWriter, tmp_path: Path
) -> None:
    """The log would go on under the name of another file."""
    first = log.path
    log.rotate()
    *before, rotated = list(dump([first]))
    damaged = rotated[:-5] + bytes([rotated[-5] ^ 1]) + rotated[-4:]
    with opened(tmp_path / "relay") as relay:
        with pytest.raises(SourceLostError, match="ROTATE"):
            feed(Intake(relay), packets([*before, damaged]))
        assert relay.source_file == first.name


def test_a_file_that_is_ended_is_on_the_disk_before_the_next_one_is_begun(
    log: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else power could take transactions that were published, and leave those behind them."""
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        receive(relay, [log.path])
        first, number = folder / file_name(relay.number), relay.number
        steps = disk_steps(monkeypatch)
        relay.rotate()
    names = [step.name for step in steps if step.what in ("sync", "rename")]
    assert names.index(first.name) < names.index(file_name(number + 1))
    assert ("sync", first.name, first.stat().st_size) in steps

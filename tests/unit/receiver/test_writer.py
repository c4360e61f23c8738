"""Our own relay log: what readers see while it is written, and what any kill leaves behind."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_repl.errors import LogError
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.receiver import recovery
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay import file_list
from spark_repl.relay import log as log_module
from spark_repl.relay.index import TransactionIndex, build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.log_inspection import verify_log
from spark_repl.relay.published_end import NAME, End, read_end
from spark_repl.relay.record import gtid_text
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump, events_of, feed, looks_cut, packets, receive

_TABLE = Table("a")
_COUNT = 30
# Every byte with make soak, every seventh else.
_EACH = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three files of 30 transactions."""
    log = LogWriter(tmp_path_factory.mktemp("source"))
    log.ddl(_TABLE.create)
    for i in range(_COUNT - 1):
        log.transaction(insert(_TABLE, (i, "x" * (i * 7))))
        if i in (9, 19):
            log.rotate()
    return sorted(log.folder.iterdir())


def opened(folder: Path, size: int = 1 << 30, space: int = 0) -> RelayWriter:
    return RelayWriter(folder, 4711, Limits(size, space))


def index_of(folder: Path, known: TransactionIndex | None = None) -> TransactionIndex:
    return build_index(
        open_log(str(folder)), str(folder.parent / "index"), complete=False, previous=known
    )


def transactions(folder: Path) -> list[bytes]:
    """The bytes of every transaction that readers see."""
    log, found = open_log(str(folder)), []
    for record in build_index(log, str(folder.parent / "bytes")).records:
        place = RelayPosition.unpack(int(record["position"]))
        data = Path(log.file(place.file_no).path).read_bytes()
        found.append(data[place.offset : place.offset + int(record["length"])])
    return found


def want(source: list[Path], tmp_path: Path) -> list[bytes]:
    folder = tmp_path / "want"
    if not folder.exists():
        shutil.copytree(source[0].parent, folder)
    return transactions(folder)


def check(folder: Path, source: list[Path], tmp_path: Path) -> None:
    assert transactions(folder) == want(source, tmp_path)
    assert all(found.ok for found in verify_log(open_log(str(folder))))


@pytest.mark.parametrize("size", [1 << 30, 5000, 4096])
@pytest.mark.parametrize("step", [1 << 20, 97])
def test_the_writer_rotates_and_keeps_every_transaction(
    source: list[Path], tmp_path: Path, size: int, step: int
) -> None:
    # Scenario 115: many rotations.
    # Scenario 58: rotation never splits a transaction.
    folder = tmp_path / "relay"
    with opened(folder, size) as relay:
        receive(relay, source, step)
        assert relay.received.count() == relay.published_transactions == _COUNT
        assert relay.source_file == source[-1].name
        assert relay.source_position == source[-1].stat().st_size
    check(folder, source, tmp_path)
    log = open_log(str(folder))
    assert (len(log.files) > 1) == (size < 10_000)
    assert all(Path(f.path).stat().st_size < size + 1000 for f in log.files)
    for file in log.files:
        head = log.head(file.number)
        assert head.own.is_relay_log and head.source.server_version == "9.7.0"
        assert log.log_id in head.own.server_version
    seen = GtidSet().union(log.previous_gtids()).union(index_of(folder).gtids())
    assert seen == relay.received


def test_goes_on_after_a_stop(source: list[Path], tmp_path: Path) -> None:
    # Scenarios 11, 55: the receiver started again in mid-transaction loses none and repeats
    # none.
    folder = tmp_path / "relay"
    for count in range(1, len(source) + 1):
        with opened(folder, 5000) as relay:
            assert relay.lost is None
            receive(relay, source[:count])
    with opened(folder) as relay:
        assert relay.received.count() == _COUNT
        assert (relay.source_file, relay.source_position) == (
            source[-1].name, source[-1].stat().st_size,
        )  # fmt: skip
    check(folder, source, tmp_path)


def test_the_same_stream_gives_the_same_log(source: list[Path], tmp_path: Path) -> None:
    """A connection that breaks leaves no trace in the log, but where the source's file ends."""
    # Scenario 9: a partial transaction, then ROTATE behind a new connection: nothing of it
    # stays.
    folder, plain = tmp_path / "relay", tmp_path / "plain"
    with opened(plain) as relay:
        receive(relay, source)
    for cut in range(300, 9000, 431):
        shutil.rmtree(folder, ignore_errors=True)
        with opened(folder) as relay:
            stream = packets(list(dump(source, GtidSet())))
            feed(Intake(relay), stream[:cut])
            receive(relay, source)
        check(folder, source, tmp_path)
        sizes = [(d / "relay.000001").stat().st_size for d in (folder, plain)]
        assert abs(sizes[0] - sizes[1]) < 150


def test_readers_see_whole_transactions_only(source: list[Path], tmp_path: Path) -> None:
    folder, known, seen = tmp_path / "relay", None, 0
    with opened(folder, 5000) as relay:
        intake, stream = Intake(relay), packets(list(dump(source, GtidSet())))
        feed(intake, stream[:400])
        for at in range(400, len(stream), 53):
            feed(intake, stream[at : at + 53])
            if at % 3:
                relay.sync()
            known = index_of(folder, known)
            assert known.tail is None
            end = read_end(folder)
            assert (end and known.end == end.position.packed) or seen == 0
            assert len(known) == relay.published_transactions >= seen
            seen = len(known)
        relay.sync()
        assert len(index_of(folder, known)) == _COUNT


def test_end_is_published_behind_the_disk(
    source: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk is busy events are written on, and nothing of them is published."""
    folder, busy, real = tmp_path / "relay", threading.Event(), os.fdatasync

    def slow(fd: int) -> None:
        assert busy.wait(30)
        real(fd)

    with opened(folder) as relay:
        stream = packets(list(dump(source[:1], GtidSet())))
        intake, half = Intake(relay), len(stream) // 2
        feed(intake, stream[: half // 2])
        relay.sync()
        first = relay.published_transactions
        monkeypatch.setattr(os, "fdatasync", slow)
        feed(intake, stream[half // 2 : half])
        begun = relay.transactions
        relay.sync_beside()
        feed(intake, stream[half:])
        relay.sync_beside()  # one at a time
        assert len(index_of(folder)) == relay.published_transactions == first < begun
        busy.set()
        relay.whole = relay.size
        relay._finish_sync()
        assert len(index_of(folder)) == relay.published_transactions == begun < relay.transactions
        relay.sync_beside()
    assert len(index_of(folder)) == relay.transactions


def test_event_between_end_and_rotation_is_not_lost(source: list[Path], tmp_path: Path) -> None:
    """Scenario 92: WL#5721's race: the reader has read the end; then an event is written, and the
    rotation."""
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        intake, stream = Intake(relay), packets(list(dump(source[:1], GtidSet())))
        half = len(stream) // 2
        feed(intake, stream[:half])
        relay.sync()
        before = index_of(folder)
        feed(intake, stream[half:])
        written = relay.transactions
        relay.whole, relay.size = relay.size, relay.size
        relay.rotate()
        after = index_of(folder, before)
        assert written > len(before) and len(after) == written
        assert after.end >> 40 == 2


def test_rotation_between_end_and_list(
    source: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 92: the reader has taken the end; the rest of the file and two rotations come before
    it looks at the list of files."""
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        stream = packets(list(dump(source[:1], GtidSet())))
        intake, half = Intake(relay), len(stream) // 2
        feed(intake, stream[:half])
        relay.sync()
        before, published = index_of(folder), relay.published_transactions

        def slow(place: Path) -> End | None:
            end = read_end(place)
            monkeypatch.setattr(log_module, "read_end", read_end)
            feed(intake, stream[half:])
            for _ in range(2):
                relay.whole = relay.size
                relay.rotate()
            return end

        monkeypatch.setattr(log_module, "read_end", slow)
        during = index_of(folder, before)
        assert len(during) == published and during.end == before.end
        assert relay.transactions > published
        assert len(index_of(folder, during)) == len(index_of(folder)) == relay.transactions


@_EACH
def test_a_file_truncated_anywhere_recovers(source: list[Path], tmp_path: Path, step: int) -> None:
    # Scenarios 10, 56: a partial group is dropped and fetched again, the tail ends at a
    # boundary.
    folder, copy = tmp_path / "relay", tmp_path / "copy"
    with opened(folder) as relay:
        receive(relay, source)
    index = index_of(folder)
    ends = [RelayPosition.unpack(int(e)).offset for e in index.records["end"]]
    file = folder / "relay.000001"
    for size in range(ends[-3], file.stat().st_size + 1, step):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        os.truncate(copy / file.name, size)
        with opened(copy) as relay:
            whole = max(end for end in ends if end <= size)
            assert relay.size in (whole, ends[-1]) or size > ends[-1]
            assert relay.received.count() == sum(end <= size for end in ends)
            assert (relay.lost is not None) == (whole < ends[-1])
            if relay.lost is None:
                receive(relay, source)
            else:
                relay.renew(GtidSet())
                receive(relay, source)
                assert relay.number == 2
        check(copy, source, tmp_path)


def test_without_the_published_end_a_cut_log_goes_on(source: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        receive(relay, source)
    (folder / NAME).unlink()
    os.truncate(folder / "relay.000001", 3000)
    with opened(folder) as relay:
        assert relay.lost is None and 0 < relay.received.count() < _COUNT
        receive(relay, source)
        assert relay.number == 1
    check(folder, source, tmp_path)


@_EACH
def test_every_flipped_byte_is_found(source: list[Path], tmp_path: Path, step: int) -> None:
    # Scenario 161: in the relay log.
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        receive(relay, source)
    file = folder / "relay.000001"
    whole = file.read_bytes()
    start = RelayPosition.unpack(int(index_of(folder).records["position"][-2])).offset
    for at in range(start, len(whole), step):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not all(found.ok for found in verify_log(open_log(str(folder))))
        try:
            with opened(folder) as relay:
                assert relay.lost is not None
                assert looks_cut(whole, at), "readers have what lies before the end"
        except LogError as error:
            assert not looks_cut(whole, at), "as after a crash: fetched again"
            assert error.hint and "relay folder" in error.hint
            assert file.stat().st_size == len(whole)


class Killed(Exception):
    pass


def _steps(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    """Raises at the at-th step to disk of the writer."""
    count = 0

    def counted(real):  # type: ignore[no-untyped-def]
        def step(*args, **kwargs):  # type: ignore[no-untyped-def]
            nonlocal count
            count += 1
            if count == at:
                raise Killed
            return real(*args, **kwargs)

        return step

    for module, name in (
        (os, "fsync"), (os, "fdatasync"), (os, "write"), (os, "pwrite"), (os, "open"),
        (Path, "replace"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    yield


def test_a_writer_killed_at_every_step_recovers(
    source: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Scenario 105: of writing and rotation.
    folder, at, done = tmp_path / "relay", 0, False
    while not done:
        at += 1
        shutil.rmtree(folder, ignore_errors=True)
        with monkeypatch.context() as patch:
            next(_steps(patch, at))
            try:
                with opened(folder, 4096) as relay:
                    receive(relay, source, 1500)
                done = True
            except Killed:
                pass
        with opened(folder, 4096) as relay:
            assert relay.lost is None
            receive(relay, source)
        check(folder, source, tmp_path)
        listed = file_list.read_list(folder)
        assert listed and sorted(recovery.numbers_in(folder)) == list(listed.numbers)
    assert at > 60


def test_file_list_is_made_again(source: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    with opened(folder, 4096) as relay:
        receive(relay, source)
    for remove in (["relay.index"], ["relay.index", NAME]):
        for name in remove:
            (folder / name).unlink()
        with opened(folder, 4096):
            pass
        check(folder, source, tmp_path)


def test_renewed_log_is_another_history(source: list[Path], tmp_path: Path) -> None:
    # Scenario 52: a new relay log begins behind what is applied, old positions are void.
    folder = tmp_path / "relay"
    with opened(folder, 4096) as relay:
        receive(relay, source)
        before, given_up = open_log(str(folder)), relay._fd
        relay.renew(GtidSet())
        with pytest.raises(OSError):
            os.fstat(given_up)
        receive(relay, source)
        assert relay.log_id != before.log_id
        assert open_log(str(folder)).files[0].number > before.files[-1].number
    check(folder, source, tmp_path)


def test_a_second_writer_of_a_relay_log_is_refused(source: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    with opened(folder) as relay:
        receive(relay, source[:1])
        with pytest.raises(LogError, match="another receiver"), opened(folder):
            pass


def test_a_foreign_folder_is_left_alone(source: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    folder.mkdir()
    (folder / "relay.index").write_text("./relay.000001\n")
    with pytest.raises(LogError, match="not the receiver's"), opened(folder):
        pass


def test_a_written_log_has_the_sources_gtids(source: list[Path], tmp_path: Path) -> None:
    # Scenario 59: a transaction counts as received when it is whole.
    folder = tmp_path / "relay"
    with opened(folder, 4096) as relay:
        receive(relay, source)
    texts = gtid_text(index_of(folder).records)
    assert [int(t.rpartition(":")[2]) for t in texts] == list(range(1, _COUNT + 1))
    assert sum(1 for p in folder.glob("relay.0*") for e in events_of(p) if e[4] == 16) == _COUNT - 1

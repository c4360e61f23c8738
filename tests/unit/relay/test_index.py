"""The transactions of recorded logs, of cut ones and of damaged ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_repl.binlog.events.scan import scan
from spark_repl.binlog.events.transaction import END, Flag, Kind, Stop
from spark_repl.errors import LogError
from spark_repl.position import OFFSET_BITS, RelayPosition
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.gtid_column import gtid_column
from spark_repl.relay.index import TransactionIndex, build_index
from spark_repl.relay.log import RelayLog, open_log
from spark_repl.relay.record import RECORD, gtid_text
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import receive

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
RECORDED = sorted(p.parent.name for p in LOGS.glob("*/expected.json"))
CUT = [*RECORDED, "in_use"]


def index_of(folder: Path, store: Path) -> TransactionIndex:
    return build_index(open_log(str(folder)), str(store))


def copy(name: str, to: Path) -> Path:
    return Path(shutil.copytree(LOGS / name, to / name))


@pytest.mark.parametrize("name", RECORDED)
def test_the_index_of_a_recorded_log_has_its_transactions(name: str, tmp_path: Path) -> None:
    # Scenario 131: commit times stay the GTID event's, with a payload too.
    expected = json.loads((LOGS / name / "expected.json").read_text())
    index = index_of(LOGS / name, tmp_path)
    records = index.records
    assert [Kind(k).name for k in records["kind"]] == expected["kinds"]
    assert str(index.gtids()) == expected["gtid_executed"]
    assert index.tail is None
    assert (records["end"] - records["position"] == records["length"]).all()
    assert (records["uncompressed"] >= records["length"]).all()
    assert (np.diff(records["position"]) > 0).all()
    assert (records["commit_time"] > 1_700_000_000_000_000).all()
    assert (records["commit_time"] % 1_000_000).any(), "of the GTID event, and not of the header"
    again = index_of(LOGS / name, tmp_path)
    assert (again.records == records).all() and again.end == index.end


def test_records_have_the_flags_of_their_transactions(tmp_path: Path) -> None:
    # Scenario 123: compressed ones are known as such.
    compressed = index_of(LOGS / "compressed", tmp_path / "a").records
    packed = compressed["flags"] & Flag.COMPRESSED > 0
    assert packed.sum() == 5
    assert (compressed["row_events"][packed] == -1).all()
    assert (compressed["uncompressed"][packed] > compressed["length"][packed]).all()
    anonymous = index_of(LOGS / "anonymous", tmp_path / "b").records
    assert (anonymous["flags"] & Flag.ANONYMOUS > 0).all() and not anonymous["gno"].any()
    assert gtid_text(anonymous)[:1] == [""]
    assert anonymous["sequence_number"].tolist()[:5] == [1, 2, 3, 4, 5]
    unchecked = index_of(LOGS / "no_checksum", tmp_path / "c").records
    assert (unchecked["flags"] & Flag.CHECKSUM > 0).tolist() == [False] * 5 + [True]
    tagged = gtid_text(index_of(LOGS / "tagged", tmp_path / "d").records)
    assert tagged[-1] == "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaff80:other:9000000000"


@pytest.mark.parametrize("name", RECORDED)
def test_records_give_a_column_of_gtids(name: str, tmp_path: Path) -> None:
    records = index_of(LOGS / name, tmp_path).records
    for part in (records, records[:1], records[:0], records[::-1]):
        assert gtid_column(part).fill_null("").to_pylist() == (gtid_text(part) if len(part) else [])
    assert gtid_column(records).null_count == (records["gno"] == 0).sum()


def test_query_offsets_name_query_events(tmp_path: Path) -> None:
    data = (LOGS / "kinds" / "binlog.000001").read_bytes()
    records = index_of(LOGS / "kinds", tmp_path).records
    for record in records[records["query_offset"] > 0]:
        assert data[record["query_offset"] + 4] == 2
    single = np.isin(records["kind"], [Kind.QUERY, Kind.XA_COMMIT, Kind.XA_PREPARE, Kind.STATEMENT])
    # LOAD DATA in statement format has no Query event of its own.
    assert (records["query_offset"][single] == 0).sum() == 1


def test_rollback_to_is_flagged(tmp_path: Path) -> None:
    flagged = index_of(LOGS / "anonymous", tmp_path).records
    flagged = flagged[flagged["flags"] & Flag.ROLLBACK_TO > 0]
    assert [Kind(k) for k in flagged["kind"]] == [Kind.STATEMENT]


def test_a_base_shifts_positions_and_slices_begin_at_them(tmp_path: Path) -> None:
    log = open_log(str(LOGS / "rotate"))
    plain = build_index(log, str(tmp_path))
    moved = build_index(log, str(tmp_path), 10)
    assert (moved.records["position"] >> OFFSET_BITS).tolist() == [11, 11, 11, 12, 12, 13]
    assert moved.end - plain.end == 10 << OFFSET_BITS
    records = moved.records
    for start in (0, *records["end"].tolist()):
        for end in (*records["end"].tolist(), moved.end):
            want = records[(records["position"] >= start) & (records["end"] <= end)]
            assert (moved.slice(start, end) == want).all()
            for most in (0, 1, len(want) // 2, len(want) + 1):
                assert (moved.slice(start, end, most) == want[:most]).all()
    closed_end = RelayPosition(3, (LOGS / "rotate/binlog.000003").stat().st_size)
    assert plain.end == closed_end.packed


def test_an_index_grows_with_its_file(tmp_path: Path) -> None:
    """Whatever the receiver has written so far: only whole transactions, and all of them."""
    whole = (LOGS / "kinds" / "binlog.000001").read_bytes()
    full = index_of(LOGS / "kinds", tmp_path / "full").records
    folder = tmp_path / "log"
    folder.mkdir()
    known = None
    for size in range(60, len(whole) + 1, 97):
        (folder / "binlog.000001").write_bytes(whole[:size])
        log = open_log(str(folder))
        known = build_index(log, str(tmp_path / "idx"), complete=False, previous=known)
        want = full[(full["end"] & (1 << OFFSET_BITS) - 1) <= size]
        assert (known.records == want).all()
        fresh = build_index(log, str(tmp_path / "idx"))
        assert (fresh.records == want).all() and fresh.end == known.end
        assert (known.tail is None) == (known.end & (1 << OFFSET_BITS) - 1 == size)


@pytest.mark.parametrize("name", CUT)
def test_every_cut_gives_a_prefix(name: str) -> None:
    # Scenario 124: a payload that is cut is no transaction.
    for path in sorted((LOGS / name).glob("*.0*")):
        buf = np.fromfile(path, np.uint8)
        log = open_log(str(path))
        head = log.head(log.files[0].number)
        relay = head.own.is_relay_log
        full = scan(buf, head.length, head.source.checksum, relay=relay)
        assert full.stop == Stop.END
        for size in range(head.length, len(buf)):
            found = scan(buf[:size].copy(), head.length, head.source.checksum, relay=relay)
            assert (found.numbers == full.numbers[full.numbers[:, END] <= size]).all()
            assert found.stop in (Stop.END, Stop.OPEN, Stop.CUT)
            assert found.resume <= size


@pytest.mark.parametrize("name", CUT)
def test_a_flipped_byte_never_breaks_the_scan(name: str) -> None:
    for path in sorted((LOGS / name).glob("*.0*")):
        whole = np.fromfile(path, np.uint8)
        for at in range(4, len(whole)):
            buf = whole.copy()
            buf[at] ^= 1 << at % 8
            found = scan(buf, 4, True)
            assert (found.numbers[:, END] <= len(buf)).all()


def damage(folder: Path, name: str, offset: int, value: bytes) -> None:
    path = folder / name
    data = bytearray(path.read_bytes())
    data[offset : offset + len(value)] = value
    path.write_bytes(data)


def first_event(log: RelayLog, number: int) -> int:
    return log.head(number).length


def test_an_incomplete_tail_is_named_with_its_reason(tmp_path: Path) -> None:
    folder = copy("rotate", tmp_path)
    last = folder / "binlog.000003"
    whole = last.read_bytes()
    last.write_bytes(whole[:-1])
    tail = index_of(folder, tmp_path / "i").tail
    assert tail is not None and tail.reason == "event cut at the end of the file"
    assert (tail.file, tail.number, tail.size) == (last.name, 3, len(whole) - 1)
    assert tail.offset == first_event(open_log(str(folder)), 3)
    last.write_bytes(whole + bytes(40))
    tail = index_of(folder, tmp_path / "i").tail
    assert tail is not None and (tail.reason, tail.offset) == (
        "bytes that are no event",
        len(whole),
    )
    # Zeros may be space that is yet to be written to; these are not.
    last.write_bytes(whole + bytes(9) + b"\7" + bytes(30))
    with pytest.raises(LogError, match="an event can't have 7 bytes") as e:
        index_of(folder, tmp_path / "i")
    assert (e.value.file, e.value.position) == (last.name, str(len(whole)))
    last.write_bytes(whole[:60])
    index = index_of(folder, tmp_path / "i")
    assert index.tail is not None and index.tail.reason == "the file's head is cut"
    assert index.end == RelayPosition(3, 4).packed and len(index) == 5


def test_a_cut_in_an_earlier_file_is_an_error(tmp_path: Path) -> None:
    folder = copy("rotate", tmp_path)
    path = folder / "binlog.000002"
    whole = path.read_bytes()
    records = index_of(folder, tmp_path / "i").records
    in_file = records[records["position"] >> OFFSET_BITS == 2]
    begin, end = (
        int(n) & (1 << OFFSET_BITS) - 1 for n in (in_file[-1]["position"], in_file[-1]["end"])
    )
    path.write_bytes(whole[: end - 10])
    with pytest.raises(LogError, match="event cut at the end of the file, and it is not") as e:
        index_of(folder, tmp_path / "j")
    assert e.value.file == path.name
    path.write_bytes(whole[: begin + 79])
    with pytest.raises(LogError, match="transaction cut at the end of the file") as e:
        index_of(folder, tmp_path / "j")
    assert e.value.position == str(begin)
    path.write_bytes(whole[:end])
    with pytest.raises(LogError, match="next one was begun by a rotation: it is cut"):
        index_of(folder, tmp_path / "j")


def test_loss_at_a_crash_shows_in_previous_gtids(tmp_path: Path) -> None:
    # Scenario 61: a bad tail that the source trimmed.
    folder = copy("killed", tmp_path)
    path = folder / "binlog.000001"
    records = index_of(folder, tmp_path / "i").records
    path.write_bytes(path.read_bytes()[: int(records[1]["end"]) & (1 << OFFSET_BITS) - 1])
    with pytest.raises(LogError, match=r"says that .*:3 came before"):
        index_of(folder, tmp_path / "j")


def test_a_relay_file_cut_between_transactions_shows_in_previous_gtids(tmp_path: Path) -> None:
    folder = copy("relay", tmp_path)
    whole = index_of(folder, tmp_path / "i").records
    path = folder / "relay.000002"
    data = path.read_bytes()
    for record, missing in zip(whole[:3], ("1-3", "2-3", "3"), strict=True):
        path.write_bytes(data[: int(record["position"]) & (1 << OFFSET_BITS) - 1])
        with pytest.raises(LogError, match=f"relay.000003 says that .*:{missing} came before") as e:
            index_of(folder, tmp_path / f"i{missing}")
        assert e.value.file == path.name


def test_what_a_receiver_has_published_is_whole(tmp_path: Path) -> None:
    """Else a follower would wait for bytes that never come."""
    source = LogWriter(tmp_path / "source")
    for key in range(5):
        source.transaction(insert(Table("a"), (key, "x")))
    folder = tmp_path / "relay"
    with RelayWriter(folder, 4711, Limits(1 << 30, 0)) as writer:
        receive(writer, [source.path])
    good = index_of(folder, tmp_path / "i").records
    file = folder / "relay.000001"
    whole, at = file.read_bytes(), int(good["position"][3]) & (1 << OFFSET_BITS) - 1
    longer = whole[: at + 10] + b"\xff" + whole[at + 11 :]
    for data, match in (
        (longer, "event cut at the end of the file"),
        (whole[:-20], "the receiver has published"),
        (whole[:at], "the receiver has published"),
    ):
        file.write_bytes(data)
        log = open_log(str(folder))
        index = build_index(log, str(tmp_path / "j"), complete=False, up_to_damage=True)
        assert (index.records == good[: len(index)]).all() and len(index) in (3, 4)
        assert index.damage and match in index.damage.message and index.tail is None
    file.write_bytes(whole)
    assert (index_of(folder, tmp_path / "j").records == good).all()


def test_an_unknown_event_stops_unless_it_is_ignorable(tmp_path: Path) -> None:
    # Scenario 160: with and without the ignorable flag.
    folder = copy("rotate", tmp_path)
    at = first_event(open_log(str(folder)), 3)
    damage(folder, "binlog.000003", at + 4, b"\x63")
    with pytest.raises(LogError, match=r"event type 99 is unknown.*event from the future") as e:
        index_of(folder, tmp_path / "i")
    assert (e.value.file, e.value.position) == ("binlog.000003", str(at))
    damage(folder, "binlog.000003", at + 17, b"\x80")
    # Ignorable: skipped; the DROP TABLE behind it then stands without a GTID.
    last = index_of(folder, tmp_path / "i").records[-1]
    assert last["kind"] == Kind.QUERY and last["flags"] & Flag.ANONYMOUS


def test_an_event_out_of_place_is_an_error(tmp_path: Path) -> None:
    folder = copy("rotate", tmp_path)
    at = first_event(open_log(str(folder)), 3)
    damage(folder, "binlog.000003", at + 4, b"\x10")
    with pytest.raises(LogError, match="a XID event can't stand here"):
        index_of(folder, tmp_path / "i")


def test_what_stands_before_damage_can_be_used(tmp_path: Path) -> None:
    folder = copy("rotate", tmp_path)
    whole = index_of(folder, tmp_path / "whole").records
    log = open_log(str(folder))
    at = first_event(log, 2)
    damage(folder, "binlog.000002", at + 4, b"\x63")

    def found() -> TransactionIndex:
        return build_index(open_log(str(folder)), str(tmp_path / "i"), up_to_damage=True)

    for index in (found(), found()):  # the second time from what was stored
        assert (index.records == whole[:3]).all() and index.end == RelayPosition(2, at).packed
        assert index.tail is None and index.damage and index.damage.file == "binlog.000002"
    damage(folder, "binlog.000002", at + 4, bytes([33]))  # mended
    assert (found().records == whole).all() and found().damage is None


def test_a_compressed_transaction_that_is_damaged_ends_the_index(tmp_path: Path) -> None:
    folder = copy("compressed", tmp_path)
    whole = index_of(folder, tmp_path / "whole").records
    which = int(np.flatnonzero(whole["flags"] & Flag.COMPRESSED)[1])
    data = (folder / "binlog.000001").read_bytes()
    at = data.index(b"\x28\xb5\x2f\xfd", int(whole["position"][which]) & (1 << OFFSET_BITS) - 1)
    damage(folder, "binlog.000001", at, b"\0")
    index = build_index(open_log(str(folder)), str(tmp_path / "i"), up_to_damage=True)
    assert (index.records == whole[:which]).all() and index.end == whole["position"][which]
    assert index.damage and index.damage.position is not None


def test_a_stored_index_that_does_not_fit_is_ignored(tmp_path: Path) -> None:
    folder, store = copy("rotate", tmp_path), tmp_path / "i"
    want = index_of(folder, store).records
    stored = store / "binlog.000002.idx"
    good = stored.read_bytes()
    assert len(good) > 2 * RECORD.itemsize
    for bad in (b"", b"rubbish", good[:-1], good[:4] + b"\xff\xff" + good[6:]):
        stored.write_bytes(bad)
        assert (index_of(folder, store).records == want).all()
    other = copy("kinds", tmp_path)
    (other / "binlog.000001").rename(folder / "binlog.000003")
    assert len(index_of(folder, store)) > len(want)


def test_indexes_of_files_that_are_gone(tmp_path: Path) -> None:
    log, store = LogWriter(tmp_path / "log"), tmp_path / "idx"
    for _ in range(3):
        log.ddl("CREATE DATABASE t")
        log.rotate()
    for name in ("bin.000009.idx", "relay.000001.idx", "note"):  # of logs before; not ours
        store.mkdir(exist_ok=True)
        (store / name).touch()
    known = index_of(log.folder, store)
    stored = {path.name for path in store.iterdir()}
    assert stored == {"note", *(f"bin.00000{number}.idx" for number in range(1, 5))}
    (log.folder / "bin.000001").unlink()
    found = build_index(open_log(str(log.folder)), str(store), previous=known)
    assert len(found) == 2 and not (store / "bin.000001.idx").exists()


def test_a_file_that_became_shorter_is_indexed_again(tmp_path: Path) -> None:
    folder = copy("in_use", tmp_path)
    log = open_log(str(folder))
    known = build_index(log, str(tmp_path / "i"))
    path = folder / "binlog.000001"
    path.write_bytes(path.read_bytes()[:-1])
    index = build_index(log, str(tmp_path / "i"), previous=known)
    assert len(index) == len(known) - 1 and index.tail is not None


@pytest.mark.parametrize("window", [64, 1000, 5000])
def test_windows_make_no_difference(
    bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """Also when an event, or a whole transaction, is larger than what is mapped at a time."""
    want = build_index(open_log(str(bank)), str(tmp_path / "whole"))
    monkeypatch.setattr("spark_repl.relay.file_transactions._WINDOW_BYTES", window)
    monkeypatch.setattr("spark_repl.relay.split_transactions._WINDOW_BYTES", 1000)
    found = build_index(open_log(str(bank)), str(tmp_path / "windows"))
    assert (found.records == want.records).all()
    assert (found.end, found.tail) == (want.end, want.tail)


def test_slices_are_the_slice_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files together, a large one by itself, and none for nothing."""
    log = LogWriter(tmp_path / "log")
    for count in (3, 2, 9, 1):
        for _ in range(count):
            log.transaction(insert(Table("a"), (log.gno, "x")))
        log.rotate()
    index = build_index(open_log(str(log.folder)), str(tmp_path / "index"))
    whole = index.slice(0, index.end)
    monkeypatch.setattr("spark_repl.relay.index._COPIED_RECORDS", 5)
    assert [len(part) for part in index.slices(0, index.end)] == [5, 9, 1]
    assert np.concatenate(list(index.slices(0, index.end))).tolist() == whole.tolist()
    assert [len(part) for part in index.slices(0, index.end, 7)] == [5, 2]
    assert [len(part) for part in index.slices(index.end, index.end)] == [0]
    with pytest.raises(ValueError):
        whole["kind"] = 0


def test_bytes_end_with_the_transaction_that_reaches_them(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    for number in range(6):
        log.transaction(insert(Table("a"), (number, "x")))
        if number % 2:
            log.rotate()
    for base in (0, 5):
        index = build_index(open_log(str(log.folder)), str(tmp_path / "index"), base)
        records = index.slice(0, index.end)
        sizes = np.cumsum(records["length"]).tolist()
        for at, size in enumerate(sizes):
            assert index.end_of_bytes(0, index.end, size) == records["end"][at]
            assert index.end_of_bytes(0, index.end, size - 1) == records["end"][at]
        assert index.end_of_bytes(0, index.end, sizes[-1] + 1) == index.end


def test_a_large_transaction_is_mapped_window_by_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, table = LogWriter(tmp_path / "log"), Table("a")
    rows = insert(table, *((key, "x" * 40) for key in range(200)))
    log.transaction(*[rows] * 300)
    log.transaction(insert(table, (0, "y")))
    want = build_index(open_log(str(log.folder)), str(tmp_path / "whole"))
    for module in ("file_transactions", "split_transactions"):
        monkeypatch.setattr(f"spark_repl.relay.{module}._WINDOW_BYTES", 64 << 10)
    mapped, memmap = [], np.memmap

    def kept(*args: Any, **named: Any) -> Any:
        mapped.append(memmap(*args, **named))
        return mapped[-1]

    monkeypatch.setattr(np, "memmap", kept)
    found = build_index(open_log(str(log.folder)), str(tmp_path / "windows"))
    assert (found.records == want.records).all() and len(mapped) > 40
    # Linux maps 64 KiB around each page that is read.
    assert max(resident_kib(log.path)) <= 64 + 2 * 64


def test_a_large_transaction_of_many_other_events_is_mapped_whole(
    bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = build_index(open_log(str(bank)), str(tmp_path / "whole"))
    monkeypatch.setattr("spark_repl.relay.file_transactions._WINDOW_BYTES", 64)
    monkeypatch.setattr("spark_repl.relay.file_transactions._OUTLINE_BYTES", 100)
    found = build_index(open_log(str(bank)), str(tmp_path / "windows"))
    assert (found.records == want.records).all()
    assert (found.end, found.tail) == (want.end, want.tail)


def resident_kib(path: Path) -> list[int]:
    """Resident size of each of this process's mappings of the file."""
    sizes, is_own = [], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        word = line.split()[0]
        if not word.endswith(":"):
            is_own = line.endswith(str(path))
        elif is_own and word == "Rss:":
            sizes.append(int(line.split()[1]))
    return sizes

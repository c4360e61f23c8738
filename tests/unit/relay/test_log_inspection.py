"""verify finds every damaged byte; ls and dump show what is there."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.log_inspection import dump, list_files, verify_log
from tests.support.oltp_corpora import CORPORA

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"


@pytest.mark.parametrize("folder", sorted(p for p in LOGS.iterdir() if p.is_dir()))
def test_recorded_logs_are_sound(folder: Path) -> None:
    assert all(check.ok for check in verify_log(open_log(str(folder))))


def test_a_flipped_bit_in_any_byte_is_found(tmp_path: Path) -> None:
    """One bit of each byte. (IN_USE, which no checksum covers, is not among them.)"""
    path = tmp_path / "binlog.000001"
    whole = (LOGS / "rotate" / "binlog.000002").read_bytes()
    for at in range(4, len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        assert not all(check.ok for check in verify_log(open_log(str(path)))), at


def test_a_wrong_checksum_is_named(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LOGS / "rotate", tmp_path / "log"))
    path = folder / "binlog.000002"
    data = bytearray(path.read_bytes())
    line = next(e for e in dump(open_log(str(folder)), number=2) if e.type == "UPDATE_ROWS")
    data[line.offset + 25] ^= 1
    path.write_bytes(data)
    checks = list(verify_log(open_log(str(folder))))
    assert [check.ok for check in checks] == [True, False, True]
    assert checks[1].problem == "the checksum of the UPDATE_ROWS event is wrong"
    assert checks[1].offset == line.offset


def test_notes_on_lost_transactions(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LOGS / "killed", tmp_path / "log"))
    first = next(iter(verify_log(open_log(str(folder)))))
    assert first.ok and first.note == "ends without ROTATE or STOP"
    path = folder / "binlog.000001"
    gtid = [e for e in dump(open_log(str(path))) if e.type == "GTID"][-1]
    path.write_bytes(path.read_bytes()[: gtid.offset])
    second = list(verify_log(open_log(str(folder))))[1]
    assert second.note is not None and ":3, which the files before don't hold" in second.note


def test_dump_and_list_show_each_event_and_file(tmp_path: Path) -> None:
    log = open_log(str(LOGS / "kinds"))
    lines = list(dump(log))
    assert [line.type for line in lines[:4]] == [
        "FORMAT_DESCRIPTION", "PREVIOUS_GTIDS", "GTID", "QUERY",
    ]  # fmt: skip
    assert all(a.offset + a.length == b.offset for a, b in pairwise(lines))
    assert any("XA PREPARE" in e.info or "X'6100'" in e.info for e in lines)
    assert lines[3].info == "use `d`; CREATE DATABASE d"
    some = list(dump(log, number=1, start=lines[5].offset, end=lines[8].offset))
    assert some == lines[5:8]
    (listing,) = list_files(log, build_index(log, str(tmp_path)))
    assert (listing.transactions, listing.server_id, listing.checksum) == (
        len([e for e in lines if e.type == "GTID"]),
        620,
        True,
    )
    assert listing.first_gtid.endswith(":1")


def test_a_dump_of_a_cut_file_ends_with_its_tail(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes((LOGS / "rotate" / "binlog.000003").read_bytes()[:-5])
    lines = list(dump(open_log(str(path))))
    assert lines[-1].info.endswith("bytes that are no event")


@pytest.mark.parametrize(("corpus", "changes"), CORPORA)
def test_a_recorded_corpus_is_verified_whole(corpus: Path, changes: int, tmp_path: Path) -> None:
    log = open_log(str(corpus))
    (check,) = verify_log(log)
    index = build_index(log, str(tmp_path))
    assert check.ok and check.closed and check.transactions == len(index) > changes / 4
    assert str(index.gtids()) == (corpus / "gtid_executed.txt").read_text().strip()

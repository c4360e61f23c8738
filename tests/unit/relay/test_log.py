"""Which files make a log, and what is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_repl.errors import LogError
from spark_repl.relay.log import open_log
from tests.support.binlog_writer import LogWriter

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LOGS / "rotate", tmp_path / "log"))


def names(path: Path) -> list[str]:
    return [file.name for file in open_log(str(path)).files]


def test_a_log_is_opened_with_and_without_its_index(folder: Path) -> None:
    want = [f"binlog.{n:06d}" for n in (1, 2, 3)]
    assert names(folder) == want
    assert names(folder / "binlog.index") == want
    (folder / "binlog.index").write_text("/var/lib/mysql/binlog.000002\n./binlog.000003\n")
    assert names(folder) == want[1:]
    (folder / "binlog.index").unlink()
    (folder / "notes.txt").write_text("not a log")
    assert names(folder) == want
    assert names(folder / "binlog.000002") == want[1:2]
    log = open_log(str(folder))
    assert [file.number for file in log.files] == [1, 2, 3]
    assert log.file(2).name == want[1]
    with pytest.raises(LogError, match="number 4 is not in"):
        log.file(4)


def test_a_lone_file_without_a_number_is_a_log(folder: Path) -> None:
    lone = shutil.copyfile(folder / "binlog.000002", folder / "saved")
    assert open_log(str(lone)).files[0].number == 1


def test_a_files_head_names_server_and_previous_gtids(folder: Path) -> None:
    log = open_log(str(folder))
    assert log.server(1).server_version.startswith("9.7")
    assert log.server(1).server_id == 620 and log.server(1).checksum
    assert log.source_uuid is not None
    assert not log.previous_gtids()
    assert str(log.head(2).previous_gtids) == f"{log.source_uuid}:1-3"
    assert len({log.fingerprint(n) for n in (1, 2, 3)}) == 3


def test_fingerprint_stays_when_a_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    data = bytearray((LOGS / "in_use" / "binlog.000001").read_bytes())
    path.write_bytes(data)
    before = open_log(str(path))
    assert before.server(1).in_use
    data[4 + 17] &= 0xFE
    path.write_bytes(data)
    assert open_log(str(path)).fingerprint(1) == before.fingerprint(1)


def test_relay_log_names_its_source() -> None:
    log = open_log(str(LOGS / "relay"))
    head = log.head(2)
    assert head.own.is_relay_log and head.own.server_id == 621
    assert head.source.server_id == 620 and log.server(2) is head.source
    assert log.source_uuid == open_log(str(LOGS / "rotate")).source_uuid


def test_previous_gtids_with_tags_are_read() -> None:
    head = open_log(str(LOGS / "tagged")).head(2)
    assert str(head.previous_gtids).endswith(":1-2:first:1-2:second:1")


def test_a_folder_without_binary_logs_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(LogError, match=r"no binary logs in|does not exist"):
            open_log(str(path))


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "binlog.000002").unlink()
    with pytest.raises(LogError, match=r"binlog.000002 is listed in binlog.index but missing"):
        open_log(str(folder))
    (folder / "binlog.index").unlink()
    with pytest.raises(LogError, match=r"binlog.000002 is missing") as e:
        open_log(str(folder))
    assert e.value.file == "binlog.000002"


def test_a_folder_with_more_than_one_log_is_refused(folder: Path) -> None:
    (folder / "relay.index").write_text("")
    with pytest.raises(LogError, match="more than one log"):
        open_log(str(folder))
    for index in folder.glob("*.index"):
        index.unlink()
    (folder / "binlog.000003").rename(folder / "other.000003")
    with pytest.raises(LogError, match="files of more than one log: binlog, other"):
        open_log(str(folder))


def test_a_file_that_is_no_binlog_is_refused(folder: Path) -> None:
    last = folder / "binlog.000003"
    whole = last.read_bytes()
    last.write_bytes(b"\xfdbin" + whole[4:])
    with pytest.raises(LogError, match="encrypted"):
        open_log(str(folder))
    last.write_bytes(b"PK\3\4" + whole[4:])
    with pytest.raises(LogError, match="not a binary log"):
        open_log(str(folder))
    index = (folder / "binlog.index").read_text()
    (folder / "binlog.index").unlink()
    with pytest.raises(LogError, match="not a binary log") as error:
        open_log(str(folder))  # by its name it is one of this log
    assert error.value.file == str(last)
    (folder / "binlog.index").write_text(index)
    last.write_bytes(whole.replace(b"9.7.4-2", b"MariaDB"))
    with pytest.raises(LogError, match="MariaDB"):
        open_log(str(folder)).server(3)
    last.write_bytes(b"")
    assert len(names(folder)) == 2


def test_a_head_that_is_cut_is_not_complete(folder: Path) -> None:
    last = folder / "binlog.000003"
    whole = last.read_bytes()
    log = open_log(str(folder))
    for size in (4, 40, 127, 130):
        last.write_bytes(whole[:size])
        assert not log.head_complete(3)
    last.write_bytes(whole[:158])
    assert not log.head_complete(3) or log.head(3).length <= 158
    last.write_bytes(whole)
    assert log.head_complete(3)
    last.write_bytes(whole[:40])
    with pytest.raises(LogError, match="does not begin with a whole FORMAT_DESCRIPTION"):
        open_log(str(folder)).head(3)


def test_source_is_named_when_older_files_are_purged(tmp_path: Path) -> None:
    """Found by the soak: the first file was purged when it was looked into."""
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.rotate()
    made.ddl("CREATE DATABASE u")
    made.rotate()
    log = open_log(str(made.folder))
    (made.folder / "bin.000001").unlink()
    assert log.source_uuid == made.source

"""The published end of a relay log, and purge: what readers are told before files go."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from spark_repl.errors import FormatError, LogError, SourceLostError
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.receiver.purge import clear, deciding, purge
from spark_repl.receiver.recovery import numbers_in, recover
from spark_repl.receiver.report import Report, has_received, read_report
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay import file_list, published
from spark_repl.relay import log as log_module
from spark_repl.relay.log import open_log
from spark_repl.relay.published import NAME, End, EndWriter, read_end
from tests.support.binlog_writer import SOURCE, LogWriter
from tests.support.dump_stream import receive


def listed(folder: Path) -> tuple[int, ...]:
    found = file_list.read_list(folder)
    return found.numbers if found else ()


def test_what_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_end(tmp_path) is None
    path = tmp_path / NAME
    path.touch()
    assert read_end(tmp_path) is None
    open_files = os.listdir("/proc/self/fd")
    end = EndWriter(tmp_path)
    wanted = End("0f" * 16, RelayPosition(3, 1 << 33), 12)
    end.publish(wanted)
    end.close()
    assert os.listdir("/proc/self/fd") == open_files
    assert read_end(tmp_path) == wanted
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        monkeypatch.setattr(published, "_ATTEMPTS", 1)
        with pytest.raises(LogError, match="published end is damaged"):
            read_end(tmp_path)
    other = b"XXXX" + data[4:-4]
    path.write_bytes(other + zlib.crc32(other + bytes(4)).to_bytes(4, "little"))
    with pytest.raises(LogError, match="published end is damaged"):
        read_end(tmp_path)
    path.write_bytes(data[:-1])
    with pytest.raises(LogError, match="published end is damaged"):
        read_end(tmp_path)
    path.write_bytes(b"SRE2" + data[4:])
    with pytest.raises(FormatError):
        read_end(tmp_path)


def test_a_reader_that_meets_the_writer_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = EndWriter(tmp_path)
    wanted = End("0f" * 16, RelayPosition(3, 4), 12)
    end.publish(wanted)
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:30] + bytes(len(whole) - 30))
    monkeypatch.setattr("time.sleep", lambda seconds: end.publish(wanted))
    assert read_end(tmp_path) == wanted
    end.close()


def test_what_a_purge_gives_back(relay: Path) -> None:
    size = [(relay / file_list.file_name(n)).stat().st_size for n in listed(relay)]
    last = max(listed(relay))
    assert purge(relay, 1).files == ()
    found = purge(relay, 3)
    assert (found.files, found.bytes) == (("relay.000001", "relay.000002"), sum(size[:2]))
    (relay / "relay.000002").touch()  # left over by one that was cut off
    (relay / "relay.000003").unlink()  # by hand
    found = purge(relay, 4)
    assert found.files == ("relay.000002",) and found.bytes == 0
    assert listed(relay) == tuple(range(4, last + 1))
    (relay / file_list.NAME).rename(relay / "kept")
    assert purge(relay, 5) == purge(relay, 5) and len(numbers_in(relay)) == last - 3
    file_list.write_list(relay, file_list.FileList("ab" * 16, (5,)))
    assert purge(relay, 5).files == () and len(numbers_in(relay)) == last - 3


def test_a_log_that_is_cleared_leaves_nothing(relay: Path) -> None:
    (relay / file_list.NAME).unlink()  # as one that was cut off
    clear(relay)
    assert read_end(relay) is None and numbers_in(relay) == []
    assert not recover(relay)
    clear(relay)


def test_deciding_needs_no_lock_where_nothing_is_purged(relay: Path, tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    with deciding(recorded):
        assert not [*recorded.iterdir()]
    held = file_list.locked(relay, "relay.purge.lock", wait=False)
    with deciding(relay), pytest.raises(BlockingIOError), held:
        pass


def test_what_was_received_counts_once_it_is_published(tmp_path: Path) -> None:
    log, folder = LogWriter(tmp_path / "log"), tmp_path / "relay"
    log.ddl("CREATE DATABASE t")
    log.ddl("CREATE DATABASE u")
    have = GtidSet.parse(f"{SOURCE}:1-2")
    assert not has_received(folder, GtidSet())
    with RelayWriter(folder, 9) as writer:
        receive(writer, [log.path])
        Report(folder, "default").write("ON", writer)
        assert has_received(folder, have)
        assert not has_received(folder, GtidSet.parse(f"{SOURCE}:1-3"))
        columns = json.loads((folder / "receiver.json").read_text("utf-8"))
        columns["RELAY_LOG_POS"] += 1  # read, and not published yet
        (folder / "receiver.json").write_text(json.dumps(columns), "utf-8")
        assert not has_received(folder, have)


def test_an_error_is_said_until_the_source_answers(tmp_path: Path) -> None:
    """One that is over must not be taken for what has stopped the receiver."""
    report, error = Report(tmp_path, "default"), SourceLostError("can't connect", number=2003)
    with RelayWriter(tmp_path, 9) as writer:
        report.failed(error)
        report.write("CONNECTING", writer)
        assert (read_report(tmp_path) or {})["LAST_ERROR_MESSAGE"] == str(error)
        report.connected(MagicMock(uuid="u", host="h"))
        report.write("OFF", writer)
    said = read_report(tmp_path)
    assert said is not None
    assert (said["LAST_ERROR_NUMBER"], said["LAST_ERROR_MESSAGE"]) == (0, "")


def test_what_a_receiver_has_begun_is_no_recorded_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first file and the first end that is published."""
    log = LogWriter(tmp_path)
    log.ddl("CREATE DATABASE t")
    assert open_log(str(tmp_path)).end is None
    end = EndWriter(tmp_path)
    monkeypatch.setattr(log_module, "_ATTEMPTS", 3)
    with pytest.raises(LogError, match="has begun a log here, and published nothing"):
        open_log(str(tmp_path))
    (file,) = [path for path in tmp_path.iterdir() if path.name.endswith("000001")]
    assert open_log(str(file)).path == str(file), "one file is what it is"
    end.publish(End("0" * 32, RelayPosition(1, 4), 0))
    end.close()
    assert published.is_followed(tmp_path), "also where the end comes right behind the look for it"
    with pytest.raises(LogError):
        open_log(str(tmp_path))


def test_a_receiver_that_got_nothing_leaves_recorded_files_as_they_are(tmp_path: Path) -> None:
    LogWriter(tmp_path).ddl("CREATE DATABASE t")
    with RelayWriter(tmp_path, 1):
        pass
    assert not (tmp_path / NAME).exists() and open_log(str(tmp_path)).end is None

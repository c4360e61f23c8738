"""The published end of a relay log."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from spark_repl.errors import FormatError, LogError
from spark_repl.position import RelayPosition
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay import log as log_module
from spark_repl.relay import published_end
from spark_repl.relay.log import open_log
from spark_repl.relay.published_end import NAME, End, EndWriter, read_end
from tests.support.binlog_writer import LogWriter
from tests.support.disk_steps import open_below


def test_absent_and_damaged_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_end(tmp_path) is None
    path = tmp_path / NAME
    path.touch()
    assert read_end(tmp_path) is None
    end = EndWriter(tmp_path)
    assert open_below(tmp_path) == [str(path)]
    wanted = End("0f" * 16, RelayPosition(3, 1 << 33), 12)
    end.publish(wanted)
    end.close()
    assert open_below(tmp_path) == []
    assert read_end(tmp_path) == wanted
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        monkeypatch.setattr(published_end, "_ATTEMPTS", 1)
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
    assert published_end.is_followed(tmp_path), (
        "also where the end comes right behind the look for it"
    )
    with pytest.raises(LogError):
        open_log(str(tmp_path))


def test_a_receiver_that_got_nothing_leaves_recorded_files_as_they_are(tmp_path: Path) -> None:
    LogWriter(tmp_path).ddl("CREATE DATABASE t")
    with RelayWriter(tmp_path, 1):
        pass
    assert not (tmp_path / NAME).exists() and open_log(str(tmp_path)).end is None

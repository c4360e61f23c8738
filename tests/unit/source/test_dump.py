"""The dump protocol's requests and answers, and what the receiver makes of them."""

from __future__ import annotations

import shlex
import struct
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from spark_repl.config import Source
from spark_repl.crash_points import listening
from spark_repl.errors import (
    ConfigError,
    LogError,
    PurgedError,
    SecretError,
    SourceError,
    SourceLostError,
)
from spark_repl.gtid import GtidSet
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.purge import purge
from spark_repl.receiver.recovery import recover
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.source import account, dump
from spark_repl.source.account import addresses, password_of
from spark_repl.source.source_check import check_gtids, check_identity
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump as dump_events
from tests.support.dump_stream import event, feed, heartbeat, packets, receive

_UUID = "11111111-2222-3333-4444-555555555555"
_FATAL = struct.pack("<BH", 0xFF, 1236) + b"#HY000"


def test_requests_of_the_dump_protocol_have_mysqls_bytes() -> None:
    have = GtidSet.parse(f"{_UUID}:1-5")
    data = dump.dump_gtid(7, have)
    code, flags, server_id, name, position, length = struct.unpack_from("<BHIIQI", data)
    assert (code, flags, server_id, name, position) == (0x1E, 6, 7, 0, 4)
    assert GtidSet.decode(data[-length:]) == have
    assert dump.dump_file(7, "binlog.000002", 157) == (
        b"\x12" + struct.pack("<IHI", 157, 2, 7) + b"binlog.000002"
    )
    assert dump.register(7, "here")[:10] == b"\x15\x07\0\0\0\x04here"
    assert dump.acknowledgement("b.1", 9) == b"\xef" + struct.pack("<Q", 9) + b"b.1"


@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        ("Cannot replicate because the source purged required binary logs.", PurgedError,
         'source.on_purged = "snapshot"'),
        ("Could not find first log file name in binary log index file", PurgedError, "gone"),
        ("Replica has more GTIDs than the source has", SourceError, "RESET"),
        ("A replica with the same server_uuid/server_id as this replica", SourceError, "identity"),
        ("Client requested source to start replication from position > file size", SourceError,
         "crashed"),
        ("log event entry exceeded max_allowed_packet", SourceError, "max_allowed_packet"),
        ("Binary log is not open", SourceError, "log_bin"),
        ("Cannot replicate anonymous transaction when AUTO_POSITION = 1", SourceError, "gtid_mode"),
        ("event read from binlog did not pass crc check", SourceError, "damaged"),
        ("could not find next log; the first event '' at 4", SourceError, "RESET"),
        ("something new", SourceError, "error log"),
    ],
)  # fmt: skip
def test_a_sources_refusal_becomes_a_named_error(
    text: str, kind: type[SourceError], hint: str
) -> None:
    # Scenarios 108, 109: what the source says, with the remedy.
    found = dump.refusal(_FATAL + text.encode())
    assert type(found) is kind and found.number == 1236
    assert text in found.message and hint in str(found.hint)


def test_temporary_errors_of_the_source_are_retried() -> None:
    assert isinstance(dump.refusal(b"\xfe\0\0\2\0"), SourceLostError)
    for number in (1040, 1053, 1226, 2003, 2013):
        assert isinstance(dump.error_of(number, "x"), SourceLostError)
    for number in (1045, 1227, 1236, 3118):
        assert not isinstance(dump.error_of(number, "x"), SourceLostError)


@pytest.mark.parametrize("number", [1045, 1130, 1698, 1862, 2026, 3118, 3955])
def test_an_account_that_has_logged_in_may_be_refused_for_a_while(number: int) -> None:
    error = dump.error_of(number, "x")
    assert dump.is_temporary(error, reconnect=True)
    assert not dump.is_temporary(error, reconnect=False)


def test_what_is_temporary_at_any_time_and_never() -> None:
    for reconnect in (False, True):
        assert dump.is_temporary(dump.error_of(1226, "x"), reconnect=reconnect)
        for number in (1142, 1227, 1236):
            assert not dump.is_temporary(dump.error_of(number, "x"), reconnect=reconnect)
        assert not dump.is_temporary(ConfigError("x"), reconnect=reconnect)
    assert dump.is_temporary(SecretError("x"), reconnect=True)
    assert not dump.is_temporary(SecretError("x"), reconnect=False)


def test_heartbeats_of_both_versions_are_parsed() -> None:
    # Scenario 96: versions 1 and 2.
    found = dump.parse_heartbeat(heartbeat("binlog.000007", 4711))
    assert (found.file, found.position) == ("binlog.000007", 4711)
    body = b"\x01\x0dbinlog.000007\x02\x09\xfe" + struct.pack("<Q", 5 << 32) + b"\0"
    found = dump.parse_heartbeat(event(41, body))
    assert (found.file, found.position) == ("binlog.000007", 5 << 32)
    with pytest.raises(LogError, match="heartbeat"):
        dump.parse_heartbeat(event(41, body[:9]))


def test_heartbeats_are_not_logged_and_never_run_backwards(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "source")
    log.ddl(Table("a").create)
    events = list(dump_events([log.path], GtidSet()))
    with RelayWriter(tmp_path / "relay", 9) as writer:
        intake = Intake(writer)
        feed(intake, packets(events))
        size, end = writer.size, log.path.stat().st_size
        good = packets([heartbeat(log.path.name, end)], sequence=len(events) + 1)
        feed(intake, good)
        assert (writer.size, intake.heartbeats) == (size, 1) and intake.last_heartbeat > 0
        with pytest.raises(LogError, match="Unexpected source's heartbeat data"):
            feed(intake, packets([heartbeat(log.path.name, 4)], sequence=len(events) + 2))


def test_a_password_comes_from_each_of_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "from env")
    (tmp_path / "file").write_text("from file\nsecond line\n")
    assert password_of(Source(password="plain")) == "plain"
    assert password_of(Source(password_env="SECRET")) == "from env"
    assert password_of(Source(password_file=str(tmp_path / "file"))) == "from file"
    assert password_of(Source(password_command="echo 'from command'")) == "from command"
    for wrong in (
        Source(password_env="NO_SUCH"), Source(password_file="/no/such"),
        Source(password_command="false"), Source(password_command="/no/such"),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            password_of(wrong)
        assert not wrong.password_env or "export NO_SUCH=..." in str(caught.value.hint)


@pytest.mark.parametrize("ending", ["exit 3", "exec sleep 9", "kill -9 $$", "echo '"])
def test_a_password_command_that_fails_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """Its arguments may be secret, and what it printed may be the password."""
    monkeypatch.setattr(account, "_COMMAND_TIMEOUT_S", 0.5)
    command = f'sh -c "echo on-stdout; {ending}" 19841984' + ("'" if "'" in ending else "")
    with pytest.raises(ConfigError, match="password_command failed") as caught:
        password_of(Source(password_command=command))
    said = "".join(traceback.format_exception(caught.value))
    assert "19841984" not in said and "on-stdout" not in said


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", "it printed no password"),
        ("echo; echo second", "it printed no password"),
        ("echo the first cause >&2; echo 'no role' >&2; exit 4", "it ended with 4: no role"),
        ("echo 19841984; echo using 19841984 >&2; exit 1", "it ended with 1"),
    ],
)
def test_why_a_password_command_failed(script: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        password_of(Source(password_command=f"sh -c {shlex.quote(script)}"))
    assert str(caught.value) == f"source.password_command failed: {reason}"


def test_a_password_command_is_killed_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would keep its output open."""
    monkeypatch.setattr(account, "_COMMAND_TIMEOUT_S", 0.5)
    begun = time.monotonic()
    with pytest.raises(ConfigError, match="no answer within"):
        password_of(Source(password_command="sh -c 'sleep 20; true'"))
    assert time.monotonic() - begun < 10


def test_a_password_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"19841984\xff")
    with pytest.raises(ConfigError, match="can't read the password") as caught:
        password_of(Source(password_file=str(tmp_path / "file")))
    assert "19841984" not in "".join(traceback.format_exception(caught.value))


def test_addresses_are_tried_in_the_configured_order() -> None:
    source = Source(host="a", port=1, socket="/s", hosts=("b:2", "[::1]:3"))
    found = [(one.host, one.port, one.socket) for one in addresses(source)]
    assert found == [("a", 1, "/s"), ("b", 2, ""), ("::1", 3, "")]


def test_another_replica_with_our_server_id_is_refused() -> None:
    # Scenario 101: the same server id under another UUID is named.
    rows = [{"Server_Id": 7, "Replica_UUID": "x", "Host": "h"}]
    check_identity(rows, 7, "x")
    check_identity(rows, 8, "y")
    with pytest.raises(SourceError, match="server_id 7: x on host h"):
        check_identity(rows, 7, "y")


def test_purged_and_foreign_gtids_are_refused() -> None:
    # Scenarios 108, 109, 110: what the source has purged, and what it lacks of its own.
    from spark_repl.source.connection import Server

    other = "99999999-2222-3333-4444-555555555555"
    server = Server(
        "h", _UUID, 1, "9.7.0", {}, GtidSet.parse(f"{_UUID}:1-10"), GtidSet.parse(f"{_UUID}:1-3")
    )
    check_gtids(server, GtidSet.parse(f"{_UUID}:1-3:5,{other}:1-9"))
    with pytest.raises(PurgedError, match=f"{_UUID}:3 is missing"):
        check_gtids(server, GtidSet.parse(f"{_UUID}:1-2"))
    with pytest.raises(SourceError, match=f"lacks {_UUID}:11 of its own"):
        check_gtids(server, GtidSet.parse(f"{_UUID}:1-11"))


def test_a_receiver_that_starts_waits_for_a_purge(tmp_path: Path) -> None:
    """The applier purges while a killed receiver is started again: both would remove one file."""
    log, folder = LogWriter(tmp_path / "source"), tmp_path / "relay"
    for i in range(60):
        log.transaction(insert(Table("a"), (i, "x" * 200)))
    with RelayWriter(folder, 9, Limits(4096)) as writer:
        receive(writer, [log.path])
        last = writer.number
    recover(folder)  # compiles
    purging, go_on = threading.Event(), threading.Event()

    def pause(point: str) -> None:
        if point == "relay_purged":
            purging.set()
            assert go_on.wait(60)

    with listening(pause), ThreadPoolExecutor(2) as beside:
        purged = beside.submit(purge, folder, last)
        assert purging.wait(60)
        recovered = beside.submit(recover, folder)
        done = wait([recovered], 1).done
        go_on.set()
        assert not done
        assert len(purged.result().files) == last - 1
        found = recovered.result()
    assert found is not None and found.files.numbers == (last,)


def test_a_purge_keeps_the_file_that_is_written(tmp_path: Path) -> None:
    # Scenarios 104, 107: up to a file, never the one that is written; a start counts all the same.
    log = LogWriter(tmp_path / "source")
    log.ddl(Table("a").create)
    for i in range(60):
        log.transaction(insert(Table("a"), (i, "x" * 200)))
    folder = tmp_path / "relay"
    with RelayWriter(folder, 9, Limits(4096)) as writer:
        receive(writer, [log.path])
        last = writer.number
        assert last > 4
        assert purge(folder, 3).files == ("relay.000001", "relay.000002")
        assert not purge(folder, 3).files
        assert len(purge(folder, 10**6).files) == last - 3  # never the one that is written
        assert writer.total_bytes() == writer.size
    with RelayWriter(folder, 9, Limits(4096)) as writer:
        assert writer.number == last and writer.received.count() == 61
    with pytest.raises(ConfigError, match="only a receiver's"):
        purge(log.folder, 5)

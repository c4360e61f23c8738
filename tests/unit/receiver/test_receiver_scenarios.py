"""MySQL's own scenarios of the dump and the relay log that no other test of the receiver holds.

Each test says which of MySQL's own it stands for (scenarios.py), and asserts what that does.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_repl.config import Config
from spark_repl.crash_points import listening
from spark_repl.errors import SourceError, SourceLostError
from spark_repl.gtid import GtidSet
from spark_repl.receiver.identity import identity
from spark_repl.receiver.intake import Intake
from spark_repl.receiver.purge import purge
from spark_repl.receiver.receiver import Receiver
from spark_repl.receiver.recovery import numbers_in
from spark_repl.receiver.report import read_report
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.file_list import read_list
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.source.connection import Server
from spark_repl.source.dump import dump_gtid
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import dump, feed, packets, receive
from tests.support.relay_reader import receive_into

A = Table("a")
TAGGED = Path(__file__).parents[2] / "fixtures" / "logs" / "tagged"
ELSEWHERE = "99999999-2222-3333-4444-555555555555"


def gtids(folder: Path) -> GtidSet:
    return build_index(open_log(str(folder)), f"{folder}-index").gtids()


def numbers(folder: Path) -> list[int]:
    listed = read_list(folder)
    assert listed is not None
    return list(listed.numbers)


def test_a_source_knows_its_receiver_again(tmp_path: Path) -> None:
    """Scenario 101: a source ends the older of two dumps of one UUID, so a receiver that was killed
    leaves no dump behind: it comes again under its own, and another folder has another."""
    first, other = tmp_path / "first", tmp_path / "other"
    first.mkdir()
    other.mkdir()
    known = identity(first)
    assert identity(first) == known != identity(other)
    (first / "receiver.uuid").write_text("torn")
    assert identity(first) not in (known, "torn")


def test_a_rotation_and_a_purge_at_once(tmp_path: Path, source: LogWriter) -> None:
    """Scenario 102: one waits for the other's list of files, and neither for ever."""
    folder = receive_into(tmp_path / "relay", source)
    last, purging, go_on = numbers(folder)[-1], threading.Event(), threading.Event()

    def pause(point: str) -> None:
        if point == "relay_purged":
            purging.set()
            assert go_on.wait(60)

    with RelayWriter(folder, 4711) as writer, listening(pause), ThreadPoolExecutor(2) as beside:
        purged = beside.submit(purge, folder, last)
        assert purging.wait(60)
        rotated = beside.submit(writer.rotate)
        done = wait([rotated], 0.1).done
        go_on.set()
        assert not done
        assert len(purged.result(60).files) == last - 1
        rotated.result(60)
    assert numbers(folder) == sorted(numbers_in(folder)) == [last, last + 1]


class Killed(Exception):
    pass


def test_a_kill_in_a_purge_leaves_a_whole_log(
    tmp_path: Path, source: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 105: at each step to disk: a reader sees a whole log, the next purge or the
    receiver's start takes the rest away, and what is received stays so."""
    at = 0
    while True:
        at += 1
        folder = receive_into(tmp_path / f"relay{at}", source)
        last, steps = numbers(folder)[-1], 0

        def step(real):  # type: ignore[no-untyped-def]
            def counted(*args, **kwargs):  # type: ignore[no-untyped-def]
                nonlocal steps
                steps += 1
                if steps == at:  # noqa: B023
                    raise Killed
                return real(*args, **kwargs)

            return counted

        with monkeypatch.context() as patch:
            for module, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
                patch.setattr(module, name, step(getattr(module, name)))
            try:
                purge(folder, last)
                break
            except Killed:
                pass
        seen = gtids(folder)
        assert GtidSet.parse(f"{source.source}:31").issubset(seen)
        if at % 2:
            purge(folder, last)
            assert numbers(folder) == sorted(numbers_in(folder)) == [last]
        with RelayWriter(folder, 4711) as writer:
            assert numbers(folder) == sorted(numbers_in(folder))
            assert writer.received == GtidSet.parse(f"{source.source}:1-31")
    assert at > 10


def server(executed: GtidSet) -> Server:
    variables = {"gtid_mode": "ON", "server_uuid": ELSEWHERE}
    return Server("b:1", ELSEWHERE, 7, "9.7.0", variables, executed, GtidSet())


def test_another_server_goes_on_by_gtid(tmp_path: Path) -> None:
    """Scenario 111: its files have other names and places; one that lacks what was received is not
    followed, which may pass."""
    a, b = LogWriter(tmp_path / "a"), LogWriter(tmp_path / "b", stem="other")
    folder = tmp_path / "relay"
    for made in (a, b):
        made.ddl(A.create)
        for key in range(6):
            made.transaction(insert(A, (key, "x")))
            if made is b and key == 1:
                made.rotate()
        if made is a:
            with RelayWriter(folder, 4711) as writer:
                receive(writer, [made.path])
    b.transaction(insert(A, (9, "behind")))
    with RelayWriter(folder, 4711) as writer:
        receive(writer, sorted(b.folder.iterdir()))
        assert writer.source_file == "other.000002"
    assert gtids(folder) == GtidSet.parse(f"{a.source}:1-8")

    config = Config.from_mapping({"relay": {"path": str(folder)}, "source": {"hosts": ["b:1"]}})
    receiver = Receiver(config)
    one = SimpleNamespace(replicas=list)
    with receiver.writer:
        receiver._check(one, server(GtidSet.parse(f"{a.source}:1-8")))  # type: ignore[arg-type]
        with pytest.raises(SourceLostError, match=f"b:1 lacks {a.source}:8") as caught:
            receiver._check(one, server(GtidSet.parse(f"{a.source}:1-7")))  # type: ignore[arg-type]
    assert "source.hosts" in str(caught.value.hint)


def test_a_huge_gtid_set_is_requested_and_stored(tmp_path: Path, source: LogWriter) -> None:
    """Scenario 112: it is asked for, stands in the head of each file, and a start has it again."""
    holes = ":".join(str(number) for number in range(1, 40_000, 2))
    start = GtidSet.parse(f"{ELSEWHERE}:{holes}")
    folder = tmp_path / "relay"
    with RelayWriter(folder, 9, Limits(500_000)) as writer:
        writer.renew(start)
        receive(writer, [source.path])
        writer.rotate()
        have = writer.received
    assert have == start.union(GtidSet.parse(f"{source.source}:1-31"))
    with RelayWriter(folder, 9) as writer:
        assert writer.received == have and len(numbers(folder)) == 2
    log = open_log(str(folder))
    assert log.previous_gtids() == start and log.head(2).previous_gtids == have
    request = dump_gtid(9, have)
    assert len(request) > 320_000
    assert GtidSet.decode(request[23:]) == have


def test_tagged_transactions_are_asked_for_and_left_out(tmp_path: Path) -> None:
    """Scenario 113: a receiver that is stopped behind any transaction goes on by tag and number,
    and what it has already is not sent to it again."""
    files = sorted(TAGGED.glob("binlog.0*"))
    whole, folder = tmp_path / "whole", tmp_path / "relay"
    with RelayWriter(whole, 9) as writer:
        receive(writer, files)
        want = writer.received
    assert gtids(whole) == want and "other:9000000000" in str(want)
    events, starts = list(dump(files)), list[int]()
    starts = [i for i, one in enumerate(events) if one[4] in (33, 42)]
    for stop in starts[1:]:
        with RelayWriter(folder, 9) as writer:
            have = writer.received
            assert GtidSet.decode(dump_gtid(9, have)[23:]) == have
            fresh = list(dump(files, have))
            known = sum(one[4] in (33, 42) for one in events[:stop])
            cut = [i for i, one in enumerate(fresh) if one[4] in (33, 42)]
            end = next((i for i in cut if sum(j < i for j in cut) + have.count() == known), None)
            feed(Intake(writer), packets(fresh[:end]))
            writer.sync()
            assert writer.received.count() == known
    with RelayWriter(folder, 9) as writer:
        receive(writer, files)
        assert writer.received == want
    assert len(build_index(open_log(str(folder)), f"{folder}-index")) == want.count()


def test_the_report_has_the_columns_of_a_connection(tmp_path: Path, source: LogWriter) -> None:
    """Scenario 164: what was received, heartbeats, and the last error, while it runs and after."""
    config = Config.from_mapping({"relay": {"path": str(tmp_path / "relay")}})
    receiver = Receiver(replace(config, channel="east"))
    with receiver.writer as writer:
        receiver.report.connected(server(GtidSet()))
        receive(writer, [source.path])
        beats = SimpleNamespace(heartbeats=3, last_heartbeat=1_700_000_000.5)
        receiver.report.heartbeats(beats)  # type: ignore[arg-type]
        receiver.report.write("ON", writer)
        said = read_report(receiver.folder)
        assert said is not None
        assert (said["CHANNEL_NAME"], said["SERVICE_STATE"]) == ("east", "ON")
        assert said["THREAD_ID"] == os.getpid() and said["SOURCE_UUID"] == ELSEWHERE
        assert said["RECEIVED_TRANSACTION_SET"] == f"{source.source}:1-31"
        assert said["COUNT_RECEIVED_HEARTBEATS"] == 3
        assert said["LAST_HEARTBEAT_TIMESTAMP"] == "2023-11-14T22:13:20.500000+00:00"
        assert (said["LAST_ERROR_NUMBER"], said["LAST_ERROR_MESSAGE"]) == (0, "")
        receiver.report.failed(SourceError("no more", number=1236))
        receiver.report.write("OFF", writer)
    said = read_report(receiver.folder)
    assert said is not None and said["SERVICE_STATE"] == "OFF" and said["THREAD_ID"] is None
    assert said["LAST_ERROR_NUMBER"] == 1236 and said["LAST_ERROR_TIMESTAMP"]

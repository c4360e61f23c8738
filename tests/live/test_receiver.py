"""The receiver against a real server that is killed, cut off, rotated, purged and replaced."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from spark_repl.config import Config
from spark_repl.control.records.channels import control_of
from spark_repl.control.records.operator_decisions import skipped
from spark_repl.errors import PurgedError, SourceError, SparkReplError
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.receiver.purge import purge
from spark_repl.receiver.report import read_report
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.schedule.until import Until
from tests.support.live.receiving import (
    Process,
    Running,
    check_same,
    config_for,
    received,
    spans,
    wait_for,
)
from tests.support.live.server import Load, Proxy, Server
from tests.support.local_delta import cuts, run
from tests.support.wait_until import wait_until

from .test_setup import as_root

MakeServer = Callable[..., Server]


def _kills(server: Server, tmp_path: Path, kills: int, clients: int) -> None:
    config = config_for(server, tmp_path, relay__segment_size_bytes=65536)
    receiver = Process(config, tmp_path)
    with Load(server, clients, pause_s=0.01 if kills < 10 else 0) as load:
        for i in range(kills):
            receiver.start()
            time.sleep(1.2 + i * 0.137 % 1)  # kills at spread moments after the start
            receiver.kill()
    receiver.start()
    wait_for(config, server.executed)
    assert receiver.stop() == 0
    assert check_same(config, server, tmp_path) > load.transactions // 2 > 0


@pytest.mark.soak
def test_a_receiver_killed_again_and_again_loses_nothing(
    make_server: MakeServer, tmp_path: Path
) -> None:
    _kills(make_server(), tmp_path, 3, 4)


@pytest.mark.slow
def test_a_receiver_killed_at_every_point_loses_nothing(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """Scenario 105: of the relay log's writing, rotation and purge: nothing is missing, nothing
    twice."""
    server = make_server()
    config = config_for(server, tmp_path, relay__segment_size_bytes=100_000)
    receiver = Process(config, tmp_path)
    with Load(server, 2):
        for point in ("relay_written", "relay_synced", "relay_ended", "relay_begun"):
            receiver.start(f"{point}:3")
            receiver.wait_for_crash()
    receiver.start()
    wait_for(config, server.executed)
    assert receiver.stop() == 0
    check_same(config, server, tmp_path)
    files = [file.name for file in open_log(config.relay.path).files]
    command = "from spark_repl.receiver.purge import purge; from pathlib import Path; "
    command += f"purge(Path({config.relay.path!r}), 3)"
    environment = {**os.environ, "SPARK_REPL_CRASH": "relay_purged:1"}
    ran = subprocess.run([sys.executable, "-c", command], env=environment, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert [file.name for file in open_log(config.relay.path).files] == files[2:]
    assert (Path(config.relay.path) / files[0]).exists(), "it was killed before"
    receiver.start()
    with Load(server, 1) as load:
        load.wait_for(20)
    wait_for(config, server.executed)
    assert receiver.stop() == 0
    assert not (Path(config.relay.path) / files[0]).exists()


@pytest.mark.soak
def test_a_receiver_killed_50_times_loses_nothing(make_server: MakeServer, tmp_path: Path) -> None:
    _kills(make_server(), tmp_path, 50, 8)


@pytest.mark.slow
def test_source_is_killed_and_rotates(
    make_server: MakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Scenario 61: the source's crash: what it lost is not there, the rest is, once. That it is
    # connected again is the last that is said of the connection.
    server = make_server()
    config = config_for(server, tmp_path)
    with Running(config) as running:
        with Load(server) as load:
            for _ in range(2):
                load.wait_for(50)
                for _ in range(20):
                    server.query("FLUSH BINARY LOGS")
                server.kill()
                server.start()
            load.wait_for(10)  # which only a new connection brings
        running.wait_for(server.executed)
    said = [one for one in caplog.messages if one.startswith("source 127.0.0.1:")]
    assert "next attempt in" in said[0] and said[-1].endswith(": connected again")
    check_same(config, server, tmp_path)
    _check_until(config, server, tmp_path)


def _check_until(config: Config, server: Server, tmp_path: Path) -> None:
    """--until with places of the source: found in the relay log as in the source's own."""
    logs = open_log(config.relay.path), open_log(str(server.data / "binlog.index"))
    records = [build_index(log, str(tmp_path / f"until-{i}")).records for i, log in enumerate(logs)]
    names = {file.number: file.name for file in logs[1].files}
    for number in range(0, len(records[1]), 17):
        at = RelayPosition.unpack(int(records[1]["end"][number]))
        for offset in (at.offset - 1, at.offset, at.offset + 1, 4, 1 << 30):
            until = Until.parse(f"source:{names[at.file_no]}:{offset}")
            until.check_file(logs[0])
            mine, theirs = (
                until.count_before(found, GtidSet(), log, 0)
                for found, log in zip(records, logs, strict=True)
            )
            assert mine == theirs, until
    assert (
        Until.parse("source:other.000001:4").count_before(records[0], GtidSet(), logs[0], 0) is None
    )


def _cuts(server: Server, tmp_path: Path, cuts: int, tls: str, clients: int = 2) -> None:
    with Proxy(server.port, bytes_max=60_000) as proxy:
        config = config_for(server, tmp_path, port=proxy.port, tls=tls, connect_retry_s=1)
        with Running(config) as running:
            with Load(server, clients, pause_s=0.01 if cuts < 10 else 0):
                wait_until(lambda: proxy.cuts >= cuts, 300, each_s=0.05)
            proxy.bytes_max = 0
            running.wait_for(server.executed)
        assert proxy.cuts >= cuts
    check_same(config, server, tmp_path)


@pytest.mark.parametrize("tls", ["disabled", "required"])
def test_a_receiver_whose_connection_is_cut_loses_nothing(
    make_server: MakeServer, tmp_path: Path, tls: str
) -> None:
    server = make_server()
    server.connect("planted").close()  # from then on the server knows the password without TLS too
    _cuts(server, tmp_path, 6, tls)


@pytest.mark.soak
def test_connection_is_cut_100_times(make_server: MakeServer, tmp_path: Path) -> None:
    _cuts(make_server(), tmp_path, 100, "required", clients=8)


def test_purged_reset_and_diverged_sources_are_refused(
    make_server: MakeServer, tmp_path: Path
) -> None:
    # Scenarios 108, 109: 1789 and 1885 of a real server.
    server = make_server()
    config = config_for(server, tmp_path)
    with Load(server, 1) as load:
        load.wait_for(20)
    with Running(config) as running:
        running.wait_for(server.executed)
    with Load(server, 1) as load:
        load.wait_for(10)
    server.query("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    last = server.query("SHOW BINARY LOGS")[-1][0]
    server.query(f"PURGE BINARY LOGS TO '{last}'")
    with pytest.raises(PurgedError, match="is missing here") as caught, Running(config) as running:
        running.wait_for(server.executed)
    assert "snapshot" in str(caught.value.hint)
    server.query("RESET BINARY LOGS AND GTIDS", "CREATE DATABASE x")
    more = pytest.raises(SourceError, match="more GTIDs than the source")
    with more as diverged, Running(config) as running:
        running.wait_for(server.executed)
    assert "RESET" in str(diverged.value)


def test_errant_transactions_that_are_purged_are_left_out(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """The hint is followed as it stands; what it records is not asked for again."""
    server = make_server()
    server.query("CREATE DATABASE earlier")
    config = config_for(server, tmp_path)
    with Running(config) as running:
        running.wait_for(server.executed)
    errant = "eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee"
    for number in (1, 2, 3):
        server.query(f"SET gtid_next = '{errant}:{number}'", "BEGIN", "COMMIT")
    server.query("FLUSH BINARY LOGS", "CREATE DATABASE later")
    last = server.query("SHOW BINARY LOGS")[-1][0]
    server.query(f"PURGE BINARY LOGS TO '{last}'")
    run(Path(config.relay.path), config.target.path)
    with pytest.raises(PurgedError) as caught, Running(config) as running:
        running.wait_for(server.executed)
    hint = str(caught.value.hint)
    command = shlex.split(hint[hint.index("spark-repl skip") :])
    assert command[-1] == f"{errant}:1-3"
    assert main(command[1:]) == 0
    skip = partial(skipped, control_of(config))
    with Running(config, skipped=skip) as running:
        running.wait_for(str(GtidSet.parse(server.executed).subtract(GtidSet.parse(command[-1]))))
    run(Path(config.relay.path), config.target.path)
    assert str(GtidSet.parse(cuts(config.target.path)[-1].gtid_executed)) == server.executed


def test_a_password_that_is_changed_on_the_source_first(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server, file = make_server(), tmp_path / "password"
    file.write_text("first")
    as_root(
        server,
        "CREATE USER rotated IDENTIFIED BY 'first'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO rotated",
    )
    config = config_for(
        server, tmp_path, user="rotated", password="", password_file=str(file), connect_retry_s=1
    )
    changes = {"IDENTIFIED BY 'second'": 1045, "ACCOUNT LOCK": 3118, "PASSWORD EXPIRE": 1862}
    with Running(config) as running:
        running.wait_for(server.executed)
        for change, number in changes.items():
            as_root(server, f"ALTER USER rotated {change}")
            server.cut_off("rotated")
            wait_for_error(config, number)
            file.write_text("second")
            as_root(server, "ALTER USER rotated IDENTIFIED BY 'second' ACCOUNT UNLOCK")
            server.query(f"CREATE DATABASE after_{number}")
            running.wait_for(server.executed)


def wait_for_error(config: Config, number: int) -> None:
    wait_until(
        lambda: (read_report(config.relay.path) or {}).get("LAST_ERROR_NUMBER") == number,
        each_s=0.05,
    )


def test_a_receiver_fails_over_by_gtid(make_server: MakeServer, tmp_path: Path) -> None:
    # Scenario 111: a real server is failed over to by GTID.
    first, second = make_server(), make_server()
    second.query(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={first.port},"
        " SOURCE_USER='repl', SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1",
        "START REPLICA",
    )
    config = config_for(first, tmp_path, hosts=[f"127.0.0.1:{second.port}"])
    with Running(config) as running:
        with Load(first, 2) as load:
            load.wait_for(20)
        at_first = first.executed
        second.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{at_first}', 300)")
        first.kill()
        with Load(second, 2) as load:
            load.wait_for(20)
        running.wait_for(second.executed)
        report = read_report(config.relay.path)
        assert report and report["SOURCE_HOST"].endswith(str(second.port))
    assert str(received(config)) == second.executed
    assert at_first.split(":")[0] in second.executed


def test_the_receiver_acknowledges_semi_synchronous_transactions(
    make_server: MakeServer, tmp_path: Path
) -> None:
    # Scenario 119: a real source has its answers.
    server = make_server()
    server.query(
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
        "SET GLOBAL rpl_semi_sync_source_enabled = 1",
        "SET GLOBAL rpl_semi_sync_source_timeout = 20000",
    )
    config = config_for(server, tmp_path, semi_sync=True)
    with Running(config) as running:
        running.wait_for(server.executed)
        with Load(server, 2) as load:
            load.wait_for(30)
        running.wait_for(server.executed)
        found = dict(server.query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source_%'"))
    assert int(found["Rpl_semi_sync_source_yes_tx"]) > 10
    assert found["Rpl_semi_sync_source_no_tx"] in ("0", "1", "2", "3")
    check_same(config, server, tmp_path)


def test_a_receiver_follows_by_file_and_position(make_server: MakeServer, tmp_path: Path) -> None:
    # Scenario 60: the receiver starts again from the applier's position.
    server = make_server("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    config = config_for(server, tmp_path, auto_position=False, relay__segment_size_bytes=20000)
    for _ in range(3):
        with Running(config) as running, Load(server, 2) as load:
            load.wait_for(20)
            server.query("FLUSH BINARY LOGS")
        assert not running.error
    with Running(config) as running:
        # The receiver's place is behind a transaction: one stands in the newest file.
        server.query("CREATE DATABASE behind_all")
        end = server.query("SHOW BINARY LOG STATUS")[0][:2]
        running.wait_for_end(server)
        writer = running.receiver.writer
        assert (writer.source_file, writer.source_position) == end
    have = spans(config.relay.path, tmp_path / "relay-index")
    assert have == spans(server.data / "binlog.index", tmp_path / "source-index")


def test_the_relay_log_stays_within_its_space_limit(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server()
    limit = 400_000
    config = config_for(server, tmp_path, relay__space_limit_bytes=limit)
    with Load(server, 1):
        pass
    server.query(
        "CREATE TABLE t.big (id INT PRIMARY KEY, v LONGBLOB)",
        *(f"INSERT INTO t.big VALUES ({i}, REPEAT('x', 50000))" for i in range(60)),
    )
    want = server.executed
    with Running(config) as running:
        biggest, until = 0, time.monotonic() + 240
        while not running.error and time.monotonic() < until:
            space = running.receiver.writer.total_bytes()
            biggest = max(biggest, space)
            report = read_report(config.relay.path) or {}
            if report.get("SERVICE_DOING") == "waiting for space":
                purge(Path(config.relay.path), running.receiver.writer.number)
            if report.get("RECEIVED_TRANSACTION_SET") == want:
                break
            time.sleep(0.05)  # the receiver waits for space, or for the source
        assert str(running.receiver.writer.received) == want
        assert biggest < limit + (2 << 20)


@pytest.mark.parametrize(
    ("options", "values", "said", "hint"),
    [
        ((), {"password": "wrong"}, "Access denied", "password"),
        ((), {"user": "poor", "password": "poor"}, "REPLICATION SLAVE", "GRANT"),
        ((), {"tls": "verify_ca"}, "no TLS connection", "source.tls_ca"),
        ((), {"server_id": 100}, "server_id = 100", "source.server_id"),
        ((("binlog_format", "STATEMENT"),), {}, "binlog_format = STATEMENT", "ROW"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_can_not_work_is_said_first(
    shared_server: Server, tmp_path: Path, options: tuple[tuple[str, str], ...],
    values: dict[str, object], said: str, hint: str,
) -> None:  # fmt: skip
    before = [f"SET GLOBAL {name} = '{value}'" for name, value in options]
    good = {"binlog_format": "ROW"}
    after = [f"SET GLOBAL {name} = '{good.get(name, 'FULL')}'" for name, _ in options]
    shared_server.query(*before, "SELECT 1")
    try:
        with (
            pytest.raises(SparkReplError) as caught,
            Running(config_for(shared_server, tmp_path, **values)) as running,
        ):
            running.wait_for("11111111-2222-3333-4444-555555555555:1")
    finally:
        shared_server.query(*after, "SELECT 1")
    assert said in str(caught.value) and hint in str(caught.value.hint)
    assert not list((tmp_path / "relay").glob("relay.0*"))


def test_a_second_receiver_with_the_same_server_id_is_refused(
    shared_server: Server, tmp_path: Path
) -> None:
    # Scenario 101: a second receiver of the same id is named.
    configs = [config_for(shared_server, tmp_path / name, server_id=77) for name in "ab"]
    with Running(configs[0]) as first:
        first.wait_until_connected()
        with pytest.raises(SourceError, match="has our server_id 77"), Running(configs[1]) as other:
            other.wait_for("11111111-2222-3333-4444-555555555555:1")


def test_a_second_receiver_in_the_folder_is_refused(shared_server: Server, tmp_path: Path) -> None:
    config = config_for(shared_server, tmp_path)
    with Running(config) as first:
        first.wait_until_connected()
        with pytest.raises(SparkReplError, match="another receiver"), Running(config) as other:
            other.wait_for("11111111-2222-3333-4444-555555555555:1")


def test_a_source_that_is_away(tmp_path: Path) -> None:
    server = Server(tmp_path, tmp_path, 1)
    config = config_for(server, tmp_path, connect_retry_count=2)
    with pytest.raises(SourceError, match="gave up after 2 attempts"), Running(config) as running:
        running.wait_for("11111111-2222-3333-4444-555555555555:1")

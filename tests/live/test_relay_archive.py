"""The relay log's archive with a real server: the disk of the driver is lost, and the source has
purged what was archived."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.control.records.copies import last_copy, standing
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_rows import ControlRows
from spark_repl.copy.recopy import ask
from spark_repl.position import RelayPosition
from spark_repl.receiver.report import read_report
from spark_repl.relay.published_end import read_end
from tests.support.live.receiving import Process, config_for, wait_for
from tests.support.live.server import Load, Server
from tests.support.s3_server import BUCKET, s3_server
from tests.support.wait_until import wait_until

from .test_run import Run, check_tables

_WAIT_S = 240.0
MakeServer = Callable[..., Server]


def wait_until_archived(config: Config) -> None:
    """Wait until everything published is archived, by the receiver's report."""
    end = read_end(config.relay.path)
    assert end is not None
    position = end.position

    def is_archived() -> bool:
        report = read_report(config.relay.path) or {}
        number, offset = report.get("ARCHIVED_LOG_FILE", 0), report.get("ARCHIVED_LOG_POS", 0)
        return RelayPosition(number, offset) >= position

    wait_until(is_archived)


def purge_source(server: Server) -> None:
    """Remove all that the source has logged so far."""
    server.query("FLUSH BINARY LOGS")
    last = server.query("SHOW BINARY LOGS")[-1][0]
    server.query(f"PURGE BINARY LOGS TO '{last}'")


def _has_nothing_left(control: ControlRows) -> bool:
    cut = control.last_cut()
    return cut is not None and not (cut.prepared or cut.quarantined)


def _lose_disk(config: Config) -> None:
    shutil.rmtree(config.relay.path)
    shutil.rmtree(config.target.state_path)


def _leave_work(server: Server, config: Config, folder: Path) -> None:
    """Apply a prepared XA branch and a faulty change of t.bad, and kill the run while it copies t.a
    again."""
    run = Run(config, folder)
    with Load(server, 2, seed=1) as load:
        wait_until(lambda: load.transactions > 50)
    run.wait_for(server.executed)  # the first copy has no table that comes later
    server.query(
        "CREATE TABLE t.bad (id INT PRIMARY KEY, n INT)", "INSERT INTO t.bad VALUES (1, 1)",
        "SET SESSION sql_log_bin = 0", "INSERT INTO t.bad VALUES (77, 0)",
        "SET SESSION sql_log_bin = 1", "UPDATE t.bad SET n = 1 WHERE id = 77",
    )  # fmt: skip
    server.query(
        "XA START 'left'", "INSERT INTO t.a VALUES (1000001, 7, 'branch')", "XA END 'left'",
        "XA PREPARE 'left'",
    )  # fmt: skip
    run.wait_for(server.executed)
    control = Control.existing(config.target.path)
    cut = control.last_cut()
    assert cut is not None and cut.prepared and cut.quarantined.keys() == {"t.bad"}
    request = ask(config, ("t.a",))
    wait_until(lambda: (copy := last_copy(control)) and copy.asked == request, _WAIT_S)
    run.process.kill()
    run.process.communicate()


def _check_lost_disk(server: Server, config: Config, folder: Path) -> None:
    """A target that is behind the archive loses nothing with the driver's disk."""
    config = config.override({"apply.on_error": "quarantine"})
    _leave_work(server, config, folder)
    receiver = Process(config, folder)
    receiver.start()
    with Load(server, 2, seed=2) as load:
        wait_until(lambda: load.transactions > 200)
    wait_for(config, server.executed)
    wait_until_archived(config)
    receiver.kill()
    purge_source(server)
    server.query("CREATE TABLE t.later (id INT PRIMARY KEY)", "INSERT INTO t.later VALUES (1)")
    _lose_disk(config)
    run = Run(config, folder)
    run.wait_for(server.executed)
    control = Control.existing(config.target.path)
    wait_until(lambda: standing(control).copy is None, _WAIT_S)
    server.query("XA COMMIT 'left'")
    ask(config, ("t.bad",))
    wait_until(lambda: _has_nothing_left(control), _WAIT_S)
    run.wait_for(server.executed)
    run.stop()
    check_tables(config, server, ["t.a", "t.b", "t.later", "t.bad"])
    assert (1000001, 7, "branch") in [tuple(row) for row in server.query("SELECT * FROM t.a")]


@pytest.mark.slow
def test_a_lost_disk_of_a_driver(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server()
    config = config_for(
        server, tmp_path, relay__archive=str(tmp_path / "archive"), relay__archive_after_s=1,
        relay__segment_size_bytes=100_000, target__state_path=str(tmp_path / "state"),
    )  # fmt: skip
    _check_lost_disk(server, config, tmp_path)


def test_a_reconnection_acknowledges_nothing_that_is_not_archived(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """A semi-synchronous source takes the request for a dump as an acknowledgement of what precedes
    it. Found: a client saw a commit that only the receiver's disk had."""
    server = make_server()
    server.query(
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
        "SET GLOBAL rpl_semi_sync_source_enabled = 1",
        "SET GLOBAL rpl_semi_sync_source_timeout = 600000",
    )
    archive, aside = tmp_path / "archive", tmp_path / "aside"
    config = config_for(
        server, tmp_path, semi_sync=True, auto_position=False, relay__archive=str(archive),
        relay__archive_before_ack=True,
    )  # fmt: skip
    receiver = Process(config, tmp_path)
    receiver.start()
    server.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY)")
    before = read_end(config.relay.path)
    assert before is not None
    archive.rename(aside)
    archive.write_text("a file, where a folder has to be")
    client = threading.Thread(target=server.query, args=("INSERT INTO t.a VALUES (1)",))
    client.start()
    wait_until(lambda: (read_end(config.relay.path) or before).position > before.position)
    receiver.kill()
    receiver = Process(config, tmp_path)
    receiver.start()
    wait_until(
        lambda: (
            (read_report(config.relay.path) or {})["SERVICE_DOING"] == "waiting for relay.archive"
        )
    )
    assert client.is_alive()
    archive.unlink()
    aside.rename(archive)
    client.join(_WAIT_S)
    assert not client.is_alive()
    receiver.kill()


@pytest.mark.soak
def test_a_lost_disk_with_a_target_on_s3(
    make_server: MakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``relay.archive``: it is below the target."""
    server = make_server()
    config = config_for(
        server, tmp_path, relay__archive_after_s=1, relay__segment_size_bytes=100_000,
        target__path=f"s3://{BUCKET}/lake", target__state_path=str(tmp_path / "state"),
    )  # fmt: skip
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        _check_lost_disk(server, config, tmp_path)

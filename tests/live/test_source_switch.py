"""An address that leads to another server from some moment on: a blue/green deployment, a promoted
replica behind one name. Both servers are of one version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.control.records.copies import last_copy
from spark_repl.control.table.control import Control
from spark_repl.errors import SourceError
from spark_repl.receiver.report import read_report
from tests.live.test_run import Run, check_tables
from tests.support.live.receiving import Running, config_for, received
from tests.support.live.server import Load, Proxy, Server
from tests.support.wait_until import wait_until

MakeServer = Callable[..., Server]
_CATCH_UP = "SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', 300)"


def replicate(source: Server, replica: Server) -> None:
    replica.query(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port},"
        " SOURCE_USER='repl', SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1",
        "START REPLICA",
    )


@pytest.mark.slow
def test_run_follows_a_switch_by_gtid_without_a_copy(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """The new server's binary logs have other names and positions."""
    blue, green = make_server(), make_server("--log-bin=green-bin")
    replicate(blue, green)
    with Proxy(blue.port) as endpoint:
        config = config_for(blue, tmp_path, port=endpoint.port)
        with Load(blue, 2) as load:
            load.wait_for(20)
            run = Run(config, tmp_path)
            wait_until(lambda: run.executed() or run.check(), 240, each_s=0.3)
            load.wait_for(20)
        copies = last_copy(Control.existing(config.target.path))
        green.query(_CATCH_UP.format(blue.executed), "STOP REPLICA", "RESET REPLICA ALL")
        endpoint.target = green.port
        blue.kill()
        with Load(green, 2) as load:
            load.wait_for(40)
        run.wait_for(green.executed)
        check_tables(config, green, ["t.a", "t.b"])
        run.stop()
        assert last_copy(Control.existing(config.target.path)) == copies
        report = read_report(config.relay.path)
        assert report and report["SOURCE_LOG_FILE"].startswith("green-bin.")
    assert len({one.split(":")[0] for one in green.executed.split(",")}) == 2


def test_a_server_behind_the_address_that_lacks_transactions_is_named(
    make_server: MakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be behind. If it never has them, they are changes that were lost."""
    blue, green = make_server(), make_server()
    replicate(blue, green)
    with Proxy(blue.port) as endpoint:
        config = config_for(blue, tmp_path, port=endpoint.port)
        with Running(config) as running:
            blue.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY)")
            green.query(_CATCH_UP.format(blue.executed), "STOP REPLICA")
            blue.query("INSERT INTO t.a VALUES (1)")
            lacking = blue.executed
            running.wait_for(lacking)
            endpoint.target = green.port
            blue.cut_off("planted")
            wait_until(lambda: " lacks " in caplog.text, each_s=0.05)
            assert f"lacks {lacking.split(':')[0]}:3, which was received" in caplog.text
            green.query("START REPLICA", _CATCH_UP.format(lacking), "STOP REPLICA")
            green.query("INSERT INTO t.a VALUES (2)")
            running.wait_for(green.executed)
    assert str(received(config)) == green.executed


def test_a_switch_without_gtids_is_refused_by_name(make_server: MakeServer, tmp_path: Path) -> None:
    """Both servers have a file of the name that the receiver would ask for."""
    options = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    blue, green = make_server(*options), make_server(*options)
    for server in (blue, green):
        server.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY)")
    with Proxy(blue.port) as endpoint:
        config = config_for(blue, tmp_path, port=endpoint.port, auto_position=False)
        with Running(config) as running:
            running.wait_for_end(blue)
        endpoint.target = green.port
        for _ in range(2):  # a start after the refusal also knows the former server
            refused = pytest.raises(SourceError, match="is another server now")
            with refused as caught, Running(config) as running:
                running.wait_for_end(green)
            assert "reset --all" in str(caught.value.hint)
        endpoint.target = blue.port
        blue.query("INSERT INTO t.a VALUES (1)")
        with Running(config) as running:
            running.wait_for_end(blue)

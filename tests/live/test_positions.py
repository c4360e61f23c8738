"""WL#3970 by file and position, with a real server: a source without GTIDs, whose relay log is lost
and whose gtid_mode is switched while it is followed. Applied without Spark."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.errors import SourceError
from spark_repl.observe.status.status import status
from spark_repl.service.receiving import executed_of, place_of
from tests.support.binlog_writer import Table
from tests.support.live.receiving import Running, config_for
from tests.support.live.server import Server
from tests.support.local_delta import cuts, rows, run

from .conftest import MakeServer

KEYED, BAG = Table("a"), Table("bag", key=())
_OFF = ("--gtid-mode=OFF", "--enforce-gtid-consistency=ON")
_ON = ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
_BACK = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")


class Followed:
    """A source that is followed by file and position, with a table without a key: what is applied
    twice shows."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.config = server, followed(server, folder)
        self.target, self.count = Path(self.config.target.path), 0
        server.query("CREATE DATABASE t", KEYED.create, BAG.create)

    def change(self, transactions: int = 6) -> None:
        for _ in range(transactions):
            self.count += 1
            self.server.query(
                "BEGIN",
                f"INSERT INTO t.a VALUES ({self.count}, 'x')",
                f"UPDATE t.a SET v = 'y' WHERE id = {self.count // 2}",
                f"INSERT INTO t.bag VALUES ({self.count % 3}, 'x')",
                "COMMIT",
            )

    def receive(self, modes: tuple[str, ...] = ()) -> None:
        """Receives from where the relay log ends, or the target stands; the source is changed
        meanwhile, and its gtid_mode."""
        start = Running(self.config, executed_of(self.config), place_of(self.config))
        with start as running:
            running.wait_until_connected()
            self.change(2)
            for mode in modes:
                self.server.query(f"SET GLOBAL gtid_mode = {mode}")
                self.change(2)
            running.wait_for_end(self.server)

    def lose(self) -> None:
        shutil.rmtree(self.config.relay.path)

    def apply(self, crash: int = 0, *, order: bool = True) -> None:
        run(Path(self.config.relay.path), self.target, crash=crash, group_max_transactions=3,
            preserve_commit_order=order)  # fmt: skip

    def check(self) -> None:
        for table in (KEYED, BAG):
            want = sorted(self.server.query(f"SELECT * FROM t.{table.name}"))
            assert rows(self.target, table) == want
        (end,) = self.server.query("SHOW BINARY LOG STATUS")
        place = cuts(self.target)[-1].source
        assert (place["file"], place["position"]) <= end[:2]
        (shown,) = status(str(self.target), self.config.relay.path)["replica_status"]
        assert (shown["Source_Log_File"], shown["Read_Source_Log_Pos"]) == end[:2]
        applied = shown["Relay_Source_Log_File"], shown["Exec_Source_Log_Pos"]
        assert applied == (place["file"], place["position"])
        assert shown["Source_Server_Id"] == self.server.server_id


def followed(server: Server, folder: Path) -> Config:
    return config_for(server, folder, auto_position=False, relay__segment_size_bytes=20000)


@pytest.mark.slow
def test_relay_log_without_gtids_is_lost(make_server: MakeServer, tmp_path: Path) -> None:
    """Scenarios 49, 50, 60: gtid_mode OFF, run, remove the relay folder, run: equal, nothing twice,
    also where the applier is killed before, and where nothing is new."""
    source = Followed(make_server(*_OFF), tmp_path)
    for crash, order in ((0, True), (25, True), (31, False), (0, True)):
        source.change()
        source.receive()
        source.apply(crash, order=order)
        source.lose()
        source.server.query("FLUSH BINARY LOGS")
        source.receive()
        source.apply()
        source.check()
    place = place_of(source.config)
    source.lose()
    with Running(source.config, None, place) as running:
        running.wait_until_connected()
        running.wait_for_end(source.server)
    source.apply()
    source.check()
    assert place_of(source.config) == place


@pytest.mark.slow
def test_gtid_mode_is_switched_while_it_is_followed(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """Scenario 121: oFF to ON and back through the permissive modes, one relay log over all of it,
    or one that is lost between and in the middle of a switch."""
    source = Followed(make_server(*_OFF), tmp_path)
    for modes, crash, lost in (
        (_ON, 0, False),
        (_BACK, 0, False),
        (_ON[:2], 40, True),
        (_ON[2:], 35, True),
        (_BACK[:1], 30, True),
        (_BACK[1:], 0, True),
        ((), 0, False),
    ):
        source.receive(modes)
        source.apply(crash)
        if lost:
            source.lose()
            source.receive()
        source.apply()
        source.check()
    assert cuts(source.target)[-1].gtid_executed


def test_transaction_that_is_rolled_back(make_server: MakeServer, tmp_path: Path) -> None:
    """What ROLLBACK leaves in the log (rows of an engine without transactions) is applied, and the
    position advances over it."""
    source = Followed(make_server("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"), tmp_path)
    source.server.query(
        "CREATE TABLE t.m (id INT) ENGINE = MyISAM",
        "BEGIN",
        "INSERT INTO t.bag VALUES (99, 'rolled back')",
        "INSERT INTO t.m VALUES (1)",
        "ROLLBACK",
    )
    with Running(source.config) as running:
        running.wait_for_end(source.server)
    source.apply()
    source.check()
    assert rows(source.target, Table("m", (("id", "int"),), key=())) == [(1,)]
    (end,) = source.server.query("SHOW BINARY LOG STATUS")
    assert place_of(source.config) == end[:2]


def test_file_of_the_same_name_is_another_one(make_server: MakeServer, tmp_path: Path) -> None:
    """Behind RESET the source's files have the old names: what was received before is not gone on
    with. A file is known by the second in which it was begun."""
    source = Followed(make_server(*_OFF), tmp_path)
    source.receive()
    time.sleep(1.1)  # the new file of that name is begun in another second
    (before,) = source.server.query("SHOW BINARY LOG STATUS")
    source.server.query("RESET BINARY LOGS AND GTIDS")
    while source.server.query("SHOW BINARY LOG STATUS")[0][0] < before[0]:
        source.server.query("FLUSH BINARY LOGS")
    source.change(20)
    running = Running(source.config)
    with pytest.raises(SourceError, match="another file than the one of that name"), running:
        running._thread.join(180)

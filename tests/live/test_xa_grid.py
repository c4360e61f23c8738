"""XA of a real server by {anonymous, GTID} x {FULL, MINIMAL, NOBLOB} x {plain, compressed}, over
rotations in mid-branch, with a fault at each step: every cut is a state of the server's."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from spark_repl.cli.main import main
from spark_repl.crash_points import listening
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.errors import SparkReplError
from spark_repl.observe.status.status import status
from tests.spark import lab
from tests.support.live.server import Server
from tests.support.local_delta import CRASHES, Crash, broken, cuts, run, stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]
State = tuple[Rows, Rows]
_TABLE = "(id INT PRIMARY KEY, v VARCHAR(300), b BLOB, n INT)"
_STRIDE = int(os.environ.get("SPARK_REPL_STRIDE", "127"))


class GridLoad:
    """``states``: the server's behind each transaction of its log, in its order."""

    def __init__(self, server: Server) -> None:
        self.server, self.states, self._key = server, list[State](), 0
        server.query("CREATE DATABASE x")
        self._note()
        for table in ("p", "q"):
            server.query(f"CREATE TABLE x.{table} {_TABLE}")
            self._note()
        self.do("INSERT INTO x.p VALUES (1, 'one', 'b', 0), (2, 'two', 'b', 0), (3, 'x', 'b', 0)",
                "INSERT INTO x.q VALUES (1, 'one', 'b', 0), (2, 'two', NULL, 0)")  # fmt: skip
        for image, compressed in itertools.product(("FULL", "MINIMAL", "NOBLOB"), ("OFF", "ON")):
            self._settings = (
                f"SET binlog_row_image = {image}",
                f"SET binlog_transaction_compression = {compressed}",
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            )
            self._round()

    def _round(self) -> None:
        """A branch that is committed and one that is rolled back, over a rotation; one phase; and
        one that the next round ends."""
        left = f"'left{self._key}'"
        self._key += 10
        key = self._key
        one, two, phase = (
            f"X'{key:04x}00{number}',X'27',{number}" for number in ("01", "02", "03")
        )
        rows = (f"INSERT INTO x.p VALUES ({key}, 'xa', 'blob', 1), ({key + 1}, 'xa', NULL, 1)",
                f"UPDATE x.p SET v = 'changed {key}' WHERE id = {key}",
                f"UPDATE x.q SET n = n + 1, b = 'b{key}' WHERE id = 1")  # fmt: skip
        self.do(*rows, begin=f"XA START {one}", end=(f"XA END {one}", f"XA PREPARE {one}"))
        self.do(f"INSERT INTO x.q VALUES ({key}, 'plain', 'b', 0)",
                f"UPDATE x.p SET n = {key} WHERE id = 2")  # fmt: skip
        gone = "DELETE FROM x.p WHERE id = 3", f"UPDATE x.p SET id = {key + 5} WHERE id = 1"
        self.do(*gone, begin=f"XA START {two}", end=(f"XA END {two}", f"XA PREPARE {two}"))
        self.server.query("FLUSH BINARY LOGS")
        if key > 10:
            self.do(end=(f"XA COMMIT {left}",))
        rows = f"DELETE FROM x.q WHERE id = {key}", f"UPDATE x.p SET b = '{key}' WHERE id = 2"
        ends = f"XA END {phase}", f"XA COMMIT {phase} ONE PHASE"
        self.do(*rows, begin=f"XA START {phase}", end=ends)
        with pytest.raises(pymysql.err.MySQLError, match="1397"):  # which no transaction tells of
            self.server.query(f"XA ROLLBACK X'{key:04x}',X'',1")
        self.do(end=(f"XA ROLLBACK {two}",))
        self.do(end=(f"XA COMMIT {one}",))
        left = f"'left{key}'"
        self.do(f"INSERT INTO x.q VALUES ({key + 2}, 'left', 'b', 0)", begin=f"XA START {left}",
                end=(f"XA END {left}", f"XA PREPARE {left}"))  # fmt: skip

    def do(
        self, *statements: str, begin: str = "BEGIN", end: tuple[str, ...] = ("COMMIT",)
    ) -> None:
        """One transaction of the log, from a connection of its own."""
        with self.server.connect() as link, link.cursor() as cursor:
            for statement in getattr(self, "_settings", ()):
                cursor.execute(statement)
            for statement in ((begin,) if statements else ()) + statements + end:
                cursor.execute(statement)
        self._note()

    def _note(self) -> None:
        tables = {row[0] for row in self.server.query("SHOW TABLES FROM x")}
        rows = [
            sorted(self.server.query(f"SELECT * FROM x.{table}")) if table in tables else []
            for table in ("p", "q")
        ]
        self.states.append((rows[0], rows[1]))


def at_cut(target: Path, tables: Any) -> State:
    p, q = (
        sorted(tuple(row.values()) for row in read(str(target / at.path), at.version).to_pylist())
        if (at := tables.get(f"x.{name}"))
        else []
        for name in ("p", "q")
    )
    return p, q


def copy_log(server: Server, log: Path) -> Path:
    log.mkdir()
    for path in server.data.glob("binlog.0*"):
        shutil.copy(path, log)
    return log


def fault_at(
    step: int, patched: pytest.MonkeyPatch, error: Callable[[], BaseException]
) -> list[int]:
    """Has the step-th step of the next run fail; returns, in a list, how many there were."""
    reached = [0]

    def reach(self: Any, name: str) -> None:
        if name not in ("compacted", "after_compaction"):  # upkeep's own thread
            reached[0] += 1
            if reached[0] == step:
                raise error()

    patched.setattr(type(CRASHES), "__call__", reach)
    return reached


def loaded(make_server: Callable[..., Server], folder: Path, gtid_mode: str) -> GridLoad:
    """A server's history, its log below ``folder``."""
    consistent = f"--enforce-gtid-consistency={gtid_mode}"
    load = GridLoad(make_server(f"--gtid-mode={gtid_mode}", consistent))
    copy_log(load.server, folder / "log")
    return load


@pytest.mark.slow
@pytest.mark.parametrize("gtid_mode", ["ON", pytest.param("OFF", marks=pytest.mark.slow)])
def test_every_cut_is_a_state_of_the_server(
    make_server: Callable[..., Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gtid_mode: str,
) -> None:
    """Scenarios 86, 90: the parts of a branch lie in different files; the end of an XID that is not
    there is no transaction."""
    load = loaded(make_server, tmp_path, gtid_mode)
    log, serial = tmp_path / "log", tmp_path / "serial"
    run(log, serial, group_max_transactions=1)
    assert [at_cut(serial, cut.tables) for cut in cuts(serial)] == load.states
    left = load.server.query("XA RECOVER")
    assert len(left) == 1 and len(status(str(serial))["xa_recover"]) == 1
    for number, step in enumerate(range(1, 10_000, _STRIDE)):
        target = tmp_path / f"lake{step}"
        order = {"preserve_commit_order": number % 4 < 2, "group_max_transactions": 3}
        with monkeypatch.context() as patched:
            reached = fault_at(step, patched, (Crash, broken)[number % 2])
            with suppress(Crash, SparkReplError, OSError):
                run(log, target, **order)
        if reached[0] < step:
            break
        run(log, target, **order)
        shown = cuts(target)
        assert at_cut(target, shown[-1].tables) == load.states[-1], step
        assert all(at_cut(target, cut.tables) in load.states for cut in shown), step
    assert step > 2 * _STRIDE


def test_a_branch_logged_as_statements_stops_and_can_be_skipped(
    shared_server: Server, tmp_path: Path
) -> None:
    """A branch that the source has logged as statements: it stops there by name, and nothing of it
    is prepared; left out, with its end, what follows is applied."""
    server, target = shared_server, tmp_path / "lake"
    server.query("RESET BINARY LOGS AND GTIDS", "CREATE DATABASE x", f"CREATE TABLE x.p {_TABLE}")
    inside = (
        "SET binlog_format = STATEMENT", "XA START 's'", "INSERT INTO x.p VALUES (1, 's', 'b', 0)",
        "XA END 's'", "XA PREPARE 's'", "XA COMMIT 's'",
    )  # fmt: skip
    server.query(*inside)
    server.query("INSERT INTO x.p VALUES (2, 'row', 'b', 0)")
    log = copy_log(server, tmp_path / "log")
    error = stopped(log, target)
    uuid = server.query("SELECT @@server_uuid")[0][0]
    assert "by statements" in error.message and error.gtid == f"{uuid}:3" and error.position
    assert status(str(target))["xa_recover"] == []
    skip = ["skip", "--target", str(target), "--gtid"]
    assert main([*skip, f"{uuid}:3"]) == 0 and stopped(log, target).number == 1397
    assert main([*skip, f"{uuid}:4"]) == 0 and run(log, target)
    assert at_cut(target, cuts(target)[-1].tables) == ([(2, "row", b"b", 0)], [])


@pytest.mark.soak
@pytest.mark.parametrize("gtid_mode", ["ON", "OFF"])
def test_each_cut_of_a_servers_xa_is_right_on_spark(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path, gtid_mode: str
) -> None:
    """Storage fails once before a commit."""
    states, target = loaded(make_server, tmp_path, gtid_mode).states, tmp_path / "lake"
    faults = [broken()]

    def fail(name: str) -> None:
        if name == "before_commit" and faults:
            raise faults.pop()

    with listening(fail):
        lab.run(spark, tmp_path / "log", target, group_max_transactions=12)
    assert not faults
    shown = cuts(target)
    assert any(cut.prepared for cut in shown[:-1])
    assert at_cut(target, shown[-1].tables) == states[-1]
    assert all(at_cut(target, cut.tables) in states for cut in shown)

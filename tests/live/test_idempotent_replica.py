"""What a replica with replica_exec_mode = IDEMPOTENT is left with when rows change their keys, and
the applier on the same log."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.binlog_writer import Table
from tests.support.idempotent import OUTCOMES, Outcome
from tests.support.live.server import Server
from tests.support.local_delta import rows, run


def test_ends_as_the_replica(make_server: Callable[..., Server], tmp_path: Path) -> None:
    source, replica = make_server(), make_server("--replica-exec-mode=IDEMPOTENT")
    source.query("RESET BINARY LOGS AND GTIDS")
    replica.query(
        "RESET BINARY LOGS AND GTIDS",
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port},"
        " SOURCE_USER='repl', SOURCE_PASSWORD='repl', GET_SOURCE_PUBLIC_KEY=1,"
        " SOURCE_AUTO_POSITION=1",
        "START REPLICA",
    )
    source.query("CREATE DATABASE t")
    wanted = {}
    for image in ("FULL", "MINIMAL"):
        for case in OUTCOMES:
            name = f"x{len(wanted)}"
            source.query(f"SET binlog_row_image = {image}", *_statements(name, case))
            wanted[name] = sorted(case.full if image == "FULL" else case.minimal)
    executed = source.executed
    assert replica.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 300)") == ((0,),)
    for name, want in wanted.items():
        assert sorted(replica.query(f"SELECT * FROM t.{name}")) == want, name
    log, target = tmp_path / "log", tmp_path / "lake"
    log.mkdir()
    for path in sorted(source.data.glob("binlog.0*")):
        shutil.copy(path, log)
    run(log, target, exec_mode="idempotent", workers=3)
    assert {name: rows(target, Table(name)) for name in wanted} == wanted


def _statements(name: str, case: Outcome) -> Iterator[str]:
    """The target's rows are logged; those of the source take their place unlogged."""
    yield f"CREATE TABLE t.{name} (id INT PRIMARY KEY, v INT)"
    yield from (f"INSERT INTO t.{name} VALUES {row}" for row in case.target)
    yield from ("SET sql_log_bin = 0", f"DELETE FROM t.{name}")
    yield from (f"INSERT INTO t.{name} VALUES {row}" for row in case.source)
    yield from ("SET sql_log_bin = 1", "BEGIN")
    state = dict(case.source)
    for kind, old, new in case.statements:
        if kind == "INSERT":
            yield f"INSERT INTO t.{name} VALUES {new}"
        elif kind == "DELETE":
            yield f"DELETE FROM t.{name} WHERE id = {old}"
        else:
            value = "" if state.pop(old) == new[1] else f", v = {new[1]}"
            yield f"UPDATE t.{name} SET id = {new[0]}{value} WHERE id = {old}"
        state[new[0]] = new[1]
    yield "COMMIT"

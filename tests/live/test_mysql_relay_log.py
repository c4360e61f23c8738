"""The relay log folder of a MySQL replica that was stopped inside of a transaction, applied.

Scenarios 10 (r/rpl_mts_execute_partial_trx), 58 (r/rpl_gtid_transaction_split_across_relay_logs).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.split_transactions import is_split
from tests.support.binlog_writer import Table
from tests.support.live.replica import RelayingReplica
from tests.support.live.server import Server, copy_of
from tests.support.local_delta import rows, run

T = Table("a", (("id", "int"), ("v", "varchar(4000)")))
_ROWS = 40  # of 1000 bytes, each an event of its own
_HELD = 20_000  # bytes of them that reach the replica before it is stopped


@pytest.fixture(scope="module", params=["ON", "OFF"])
def source(
    request: Any, template: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("source")
    made = copy_of(template, folder / "data", 800, *gtid_options(request.param)).start()
    made.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY, v VARCHAR(4000))")
    yield made
    made.stop()


def gtid_options(mode: str) -> list[str]:
    return [f"--gtid-mode={mode}", f"--enforce-gtid-consistency={mode}"]


def gtids_of(source: Server) -> tuple[bool, list[str]]:
    """(whether the source has GTIDs, the options that a replica of it needs)."""
    mode = str(source.query("SELECT @@gtid_mode")[0][0])
    return mode == "ON", gtid_options(mode)


def large(source: Server, first: int) -> None:
    with source.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        for number in range(first, first + _ROWS):
            cursor.execute("INSERT INTO t.a VALUES (%s, REPEAT('x', 1000))", (number,))
        cursor.execute("COMMIT")


def held_inside(replica: RelayingReplica, first: int) -> None:
    """A large transaction of which the replica has a part."""
    replica.wait_for_all()
    begun = replica.received()[1]
    replica.dam.let(_HELD)
    large(replica.source, first)
    replica.dam.wait_until_held()
    replica.wait_for_position(begun + _HELD // 2)


def equal(source: Server, log: Path, lake: Path, *, before: int | None = None) -> None:
    """The target has what the source has; of what is not whole (``before``), nothing."""
    assert run(log, lake)
    where = f"WHERE id < {before}" if before is not None else ""
    want = sorted(source.query(f"SELECT id, v FROM t.a {where}"))
    assert rows(lake, T) == want


def split_in(log: Path, store: Path) -> int:
    return int(is_split(build_index(open_log(str(log)), str(store)).records).sum())


def test_a_replicas_relay_log_stopped_inside_a_transaction_is_applied(
    source: Server, template: Server, tmp_path: Path
) -> None:
    """Scenario 58: stopped inside of two; applied at each stop, and at the end again as a whole."""
    auto, options = gtids_of(source)
    first = 10_000
    with RelayingReplica(template, source, tmp_path / "data", *options) as replica:
        replica.follow(auto_position=auto)
        replica.query("START REPLICA IO_THREAD")
        for number in (0, 1):
            begin = first + 1000 * number
            held_inside(replica, begin)
            replica.query("STOP REPLICA IO_THREAD")
            equal(
                source, replica.folder(tmp_path / f"stop{number}"), tmp_path / "lake", before=begin
            )
            replica.dam.let(1 << 62)
            replica.query("START REPLICA IO_THREAD")
            replica.wait_for_all()
            source.query(f"INSERT INTO t.a VALUES ({begin + 900}, 'behind')")
        replica.wait_for_all()
        log = replica.folder(tmp_path / "end")
    equal(source, log, tmp_path / "lake")
    equal(source, log, tmp_path / "fresh")
    assert split_in(log, tmp_path / "index") == (0 if auto else 2)


@pytest.mark.parametrize("recovery", [pytest.param("OFF", marks=pytest.mark.soak), "ON"])
def test_a_replicas_relay_log_killed_inside_a_transaction_is_applied(
    source: Server, template: Server, tmp_path: Path, recovery: str
) -> None:
    """What the replica then fetches again counts once."""
    auto, options = gtids_of(source)
    begin = 30_000 if recovery == "ON" else 20_000
    options.append(f"--relay-log-recovery={recovery}")
    with RelayingReplica(template, source, tmp_path / "data", *options) as replica:
        replica.follow(auto_position=auto)
        replica.query("START REPLICA IO_THREAD")
        held_inside(replica, begin)
        replica.server.kill()
        equal(source, replica.folder(tmp_path / "killed"), tmp_path / "lake", before=begin)
        replica.dam.let(1 << 62)
        replica.server.start()
        equal(source, replica.folder(tmp_path / "again"), tmp_path / "lake", before=begin)
        replica.query("START REPLICA IO_THREAD")
        replica.wait_for_all()
        source.query(f"INSERT INTO t.a VALUES ({begin + 900}, 'behind')")
        replica.wait_for_all()
        log = replica.folder(tmp_path / "end")
    equal(source, log, tmp_path / "lake")
    equal(source, log, tmp_path / "fresh")

"""A poisoned table beside others under load: these go on; mended and replayed it is equal to the
source's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_repl.cli.main import main
from spark_repl.config import Config
from spark_repl.control.table.layout import Layout
from spark_repl.delta.files.delta_columns import Columns, write_file
from spark_repl.gtid import GtidSet
from tests.support.live.receiving import Running, config_for
from tests.support.live.server import Load, Server
from tests.support.local_delta import LocalDelta, at_cut, cuts, put, run

KEYS = {"column_mapping": False, "on_foreign_change": "accept"}
ROUNDS = 2


def apply(config: Config) -> None:
    """What the relay log holds now; a table that a change doesn't fit stands still."""
    target = Path(config.target.path)
    assert run(Path(config.relay.path), target, keys=KEYS, on_error="quarantine")


def mend(config: Config, row: tuple[int, int]) -> None:
    """Put a row into t.bad, as a user's INSERT in Spark would."""
    folder = Layout(config.target.path).table("t/bad")
    snapshot = LocalDelta().snapshot(folder)
    assert snapshot is not None
    columns = Columns.of(snapshot.schema_string, snapshot.partition_columns)
    rows = pa.table({"id": pa.array([row[0]], pa.int32()), "n": pa.array([row[1]], pa.int32())})
    put(folder, snapshot.version + 1, [{"add": write_file(folder, columns, rows)}],
        operation="WRITE")  # fmt: skip


def check(config: Config, server: Server, *names: str) -> None:
    last = cuts(config.target.path)[-1]
    assert last.gtid_executed == server.executed and not last.quarantined
    shown: dict[str, Any] = at_cut(config.target.path, last)
    for name in names:
        want = server.query(f"SELECT * FROM {name} ORDER BY id")
        assert shown[name] == [tuple(row) for row in want], name


def test_a_table_in_quarantine_under_load_is_equal_after_its_replay(
    shared_server: Server, tmp_path: Path
) -> None:
    server = shared_server
    server.query("DROP DATABASE IF EXISTS t", "RESET BINARY LOGS AND GTIDS")
    config = config_for(server, tmp_path)
    with Running(config, GtidSet()) as receiver:
        receiver.wait_until_connected()
        with Load(server, clients=2, pause_s=0.05):
            server.query(
                "CREATE TABLE t.bad (id INT PRIMARY KEY, n INT)",
                "INSERT INTO t.bad VALUES (1, 1), (2, 2), (3, 3)",
                "SET SESSION sql_log_bin = 0", "INSERT INTO t.bad VALUES (77, 0)",
                "SET SESSION sql_log_bin = 1", "UPDATE t.bad SET n = 1 WHERE id = 77",
            )  # fmt: skip
            for number in range(ROUNDS):
                server.query(
                    f"UPDATE t.bad SET n = n + 1, id = id + 100 WHERE id = {number}",
                    f"INSERT INTO t.bad VALUES ({number + 200}, 1)",
                    f"DELETE FROM t.bad WHERE id = {number + 199}",
                )
                time.sleep(0.3)  # the receiver fetches what the load has committed
                apply(config)
        receiver.wait_for_end(server)
        apply(config)
        last = cuts(config.target.path)[-1]
        assert last.quarantined.keys() == {"t.bad"} and last.gtid_executed == server.executed
        assert at_cut(config.target.path, last)["t.bad"] == [(1, 1), (2, 2), (3, 3)]
        mend(config, (77, 0))
        ask = ["quarantine", "replay", "--table", "t.bad", "--target", config.target.path]
        assert main(ask) == 0
        apply(config)
        check(config, server, "t.a", "t.bad")
        server.query("INSERT INTO t.bad VALUES (300, 1)", "DELETE FROM t.bad WHERE id = 77")
        receiver.wait_for_end(server)
        apply(config)
        check(config, server, "t.a", "t.bad")

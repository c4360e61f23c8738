"""extra_columns beside a live server: each row tells the transaction that changed it last, and
verify takes what is deleted for what it is."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.live.following import Following
from tests.support.live.server import Server
from tests.support.local_delta import at_cut, cuts

EXTRA = ["source_table", "gtid", "commit_time", "operation", "deleted"]


def test_what_the_server_did(shared_server: Server, tmp_path: Path) -> None:
    server, chance = shared_server, random.Random(3)
    server.query("DROP DATABASE IF EXISTS t", "RESET BINARY LOGS AND GTIDS", "CREATE DATABASE t")
    server.query("CREATE TABLE t.a (id INT PRIMARY KEY, v VARCHAR(20), n INT DEFAULT 5)")
    want: dict[int, tuple[Any, ...]] = {}

    def done(sql: str, key: int, operation: str) -> None:
        image = chance.choice(["FULL", "MINIMAL", "NOBLOB"])
        server.query(f"SET SESSION binlog_row_image = {image}", sql)
        last = server.executed.rpartition("-")[2]
        (row,) = server.query(f"SELECT v, n FROM t.a WHERE id = {key}") or [want[key][:2]]
        want[key] = (*row, f"{server.executed.partition(':')[0]}:{last}", operation)

    before = datetime.now(UTC)
    tables = [{"match": "t.%", "extra_columns": EXTRA}]
    with Following(server, tmp_path, tables=tables) as following:
        for number in range(120):
            key = chance.randrange(20)
            there = server.query(f"SELECT 1 FROM t.a WHERE id = {key}")
            if not there:
                done(f"INSERT INTO t.a (id, v) VALUES ({key}, 'v{number}')", key, "INSERT")
            elif chance.random() < 0.4:
                done(f"DELETE FROM t.a WHERE id = {key}", key, "DELETE")
            else:
                done(f"UPDATE t.a SET v = 'w{number}' WHERE id = {key}", key, "UPDATE")
        server.query("ALTER TABLE t.a ADD w INT DEFAULT 7")
        following.catch_up()
        found = following.verify()
        shown = at_cut(tmp_path / "lake", cuts(tmp_path / "lake")[-1])["t.a"]
        (count,) = server.query("SELECT COUNT(*) FROM t.a")[0]
        server.query("SET sql_log_bin = 0", "DELETE FROM t.a ORDER BY id LIMIT 2")
        unlike = following.verify()
    assert found.tables["t.a"] == {"rows": count, "ranges": 1, "differing": 0, "undecided": 0}
    assert [one["kind"] for one in unlike.differences] == ["extra"] * 2
    assert {row[0]: (*row[1:3], row[5], row[7]) for row in shown} == want
    assert all(row[3] == 7 and row[4] == "t.a" for row in shown)
    assert all(row[8] == (row[7] == "DELETE") for row in shown)
    assert all(before <= row[6] <= datetime.now(UTC) for row in shown)
    assert 0 < count < len(shown) == 20

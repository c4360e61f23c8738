"""extra_columns beside a live server: each row tells the transaction that changed it last, and
verify takes what is deleted for what it is."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.live.following import Following
from tests.support.live.server import Server
from tests.support.local_delta import last_shown

EXTRA = ["source_table", "gtid", "commit_time", "operation", "deleted"]


def test_extra_columns_name_what_the_server_did(shared_server: Server, tmp_path: Path) -> None:
    server, chance = shared_server, random.Random(3)
    server.query("DROP DATABASE IF EXISTS t", "RESET BINARY LOGS AND GTIDS", "CREATE DATABASE t")
    server.query("CREATE TABLE t.a (id INT PRIMARY KEY, v VARCHAR(20), n INT DEFAULT 5)")
    source, before = server.executed.partition(":")[0], datetime.now(UTC)
    want: dict[int, tuple[Any, ...]] = {}
    statements = []
    for number in range(3, 300):
        key, value = chance.randrange(20), f"v{number}"
        there = key in want and want[key][-1] != "DELETE"
        if not there:
            operation, sql = "INSERT", f"INSERT INTO t.a (id, v) VALUES ({key}, '{value}')"
        elif chance.random() < 0.4:
            operation, sql = "DELETE", f"DELETE FROM t.a WHERE id = {key}"
            value = want[key][0]
        else:
            operation, sql = "UPDATE", f"UPDATE t.a SET v = '{value}' WHERE id = {key}"
        image = chance.choice(["FULL", "MINIMAL", "NOBLOB"])
        statements += [f"SET SESSION binlog_row_image = {image}", sql]
        want[key] = (value, 5, f"{source}:{number}", operation)
    tables = [{"match": "t.%", "extra_columns": EXTRA}]
    with Following(server, tmp_path, tables=tables) as following:
        server.query(*statements)
        server.query("ALTER TABLE t.a ADD w INT DEFAULT 7")
        following.catch_up()
        verified = following.verify()
    shown = last_shown(tmp_path / "lake")["t.a"]
    count = sum(row[-1] != "DELETE" for row in want.values())
    assert verified.tables["t.a"] == {"rows": count, "ranges": 1, "differing": 0, "undecided": 0}
    assert {row[0]: (*row[1:3], row[5], row[7]) for row in shown} == want
    assert all(row[3] == 7 and row[4] == "t.a" for row in shown)
    assert all(row[8] == (row[7] == "DELETE") for row in shown)
    assert all(before <= row[6] <= datetime.now(UTC) for row in shown)
    assert 0 < count < len(shown) == 20

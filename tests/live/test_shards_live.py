"""Many tables of a live source in one Delta table: rows of the log, a first copy that is killed, a
verify of each shard, statements that come shard by shard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_repl import cut
from spark_repl.config import Config
from spark_repl.copy.copy_chunk import copy_chunk
from spark_repl.copy.copy_plan import plan_copy
from spark_repl.copy.first_copy import FirstCopy
from spark_repl.errors import ConfigError, SourceError
from spark_repl.runtime.workers import Workers
from spark_repl.service.snapshot_run import snapshot
from tests.support.live.following import Following
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.local_delta import last_shown

from .test_copy import _catch_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULE = {"match": r"shop\_%.orders", "to": "lake.orders", "key_prefix": "shop"}
CREATE = "CREATE TABLE shop_{}.orders (id INT PRIMARY KEY, v VARCHAR(40), n INT NOT NULL DEFAULT 3)"
MANY = (
    "INSERT INTO shop_{}.orders (id, v) WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1"
    " FROM r WHERE i < 900) SELECT i, CONCAT('{} ', i) FROM r"
)


def test_shards_end_as_on_the_server(shared_server: Server, tmp_path: Path) -> None:
    server = shared_server
    for number in (1, 2):
        server.query(f"DROP DATABASE IF EXISTS shop_{number}")
    server.query("RESET BINARY LOGS AND GTIDS")
    with Following(server, tmp_path, tables=[RULE], column_mapping=True) as following:
        for number in (1, 2):
            server.query(f"CREATE DATABASE shop_{number}", CREATE.format(number))
        server.query(
            "INSERT INTO shop_1.orders VALUES (1, 'a', 1), (2, 'b', 2)",
            "INSERT INTO shop_2.orders VALUES (1, 'c', 1)",
            "ALTER TABLE shop_2.orders ADD w INT DEFAULT 5 FIRST, DROP n",
            "INSERT INTO shop_2.orders VALUES (9, 3, 'd')",
        )
        following.catch_up()
        found = following.verify()
        clean = {"rows": 2, "ranges": 1, "differing": 0, "undecided": 0}
        assert found.tables == {"lake.orders//1": clean, "lake.orders//2": clean}
        server.query(
            "ALTER TABLE shop_1.orders ADD w INT, DROP n", "DELETE FROM shop_1.orders WHERE id = 1",
            "TRUNCATE TABLE shop_2.orders", "INSERT INTO shop_2.orders VALUES (1, 7, 'e')",
        )  # fmt: skip
        following.catch_up()
        found = following.verify("lake.orders//2")
        assert found.tables == {"lake.orders//2": {**clean, "rows": 1}}
        shown = last_shown(Path(following.config.target.path))
        assert shown == {"lake.orders": [(2, "b", "1", None), (7, "e", "2", 1)]}
        for number in (1, 2):
            server.query(f"ALTER TABLE shop_{number}.orders ADD d DATE DEFAULT '2020-02-29'")
        for number in (2, 1):
            server.query(
                f"ALTER TABLE shop_{number}.orders MODIFY d DATETIME(3)",
                f"ALTER TABLE shop_{number}.orders MODIFY w DECIMAL(9, 2), CHANGE id no BIGINT,"
                " RENAME COLUMN v TO u",
                f"UPDATE shop_{number}.orders SET w = 1.25, u = '{number}'",
            )
            following.catch_up()
            found = following.verify()
            one = {**clean, "rows": 1}
            assert found.tables == {"lake.orders//1": one, "lake.orders//2": one}
        shown = last_shown(Path(following.config.target.path))
        last = [
            (str(number), Decimal("1.25"), datetime(2020, 2, 29), key, str(number))
            for number, key in ((1, 2), (2, 7))
        ]
        assert shown == {"lake.orders": last}
        server.query("DROP DATABASE shop_1")
        following.catch_up()
        assert last_shown(Path(following.config.target.path)) == {"lake.orders": last[1:]}
    server.query("DROP DATABASE shop_2")


@pytest.mark.slow
def test_a_first_copy_that_is_killed(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    chunk_rows: Callable[[int], None],
) -> None:  # fmt: skip
    chunk_rows(200)
    server = make_server()
    plain = config_for(server, tmp_path)
    config = Config.from_mapping({**plain.to_mapping(), "tables": [RULE]})
    for number in (1, 2, 3):
        server.query(f"CREATE DATABASE shop_{number}", CREATE.format(number))
        server.query(MANY.format(number, number))
    server.query(
        "ALTER TABLE shop_3.orders ADD w INT DEFAULT 8, MODIFY n DECIMAL(9, 4)",
        "ALTER TABLE shop_2.orders MODIFY id BIGINT, MODIFY n BIGINT",
    )
    plan_copy(config)
    runs = list[int]()

    def run(function: Any, tasks: list[Any]) -> list[Any]:
        if function is copy_chunk:
            runs.append(len(tasks))
            if len(runs) == 4:
                raise SourceError("killed")
        return [function(task) for task in tasks]

    with pytest.raises(SourceError, match="killed"):
        FirstCopy(spark, config, run, lambda rows, expected: None).copy()
    server.query("UPDATE shop_2.orders SET v = 'between' WHERE id < 500")
    workers = Workers(spark, config.apply.workers)
    FirstCopy(spark, config, workers.run, lambda rows, expected: None).copy()
    server.query("DELETE FROM shop_1.orders WHERE id > 10", "ALTER TABLE shop_1.orders ADD w INT")
    server.query("INSERT INTO shop_1.orders VALUES (11, 'new', 1, 2)")
    _catch_up(spark, config, server.executed)
    check(server, spark, config)
    with pytest.raises(ConfigError, match="is not copied by itself"):
        snapshot(config, ("lake.orders//1",))
    server.query(
        "TRUNCATE TABLE shop_2.orders", "ALTER TABLE shop_3.orders DROP w",
        "CREATE DATABASE shop_4", "CREATE TABLE shop_4.orders (id INT PRIMARY KEY, x DOUBLE)",
        "INSERT INTO shop_4.orders VALUES (1, 0.5)", "DROP TABLE shop_3.orders",
    )  # fmt: skip
    _catch_up(spark, config, server.executed)
    check(server, spark, config)
    assert cut(spark, config.target.path).table("lake.orders").columns == [
        "id", "v", "n", "shop", "w", "x",
    ]  # fmt: skip


def check(server: Server, spark: SparkSession, config: Config) -> None:
    """The table at the newest cut is what the source's shards are."""
    shown = cut(spark, config.target.path)
    assert list(shown.tables) == ["lake.orders"]
    rows = [row.asDict() for row in shown.table("lake.orders").collect()]
    for number in (1, 2, 3, 4):
        there = server.query(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'orders'"
            f" AND table_schema = 'shop_{number}' ORDER BY ordinal_position"
        )
        names = [str(name) for (name,) in there]
        own = [row for row in rows if row["shop"] == str(number)]
        assert all(row[name] is None for row in own for name in {*row} - {*names, "shop"})
        want = server.query(f"SELECT * FROM shop_{number}.orders") if names else []
        assert sorted(tuple(row[name] for name in names) for row in own) == sorted(want)

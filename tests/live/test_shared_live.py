"""Two live sources feed one Delta table. ``run`` makes the first copies, then rows and columns
change at both sources at once. One process runs both channels and is killed; then two processes run
them, and one of the two is killed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.live.server import Server
from tests.support.live.shared_sources import CHANNELS, SharedSources, end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULE = {
    "match": r"shop\_%.orders", "to": "lake.orders", "key_prefix": "shop",
    "channels": list(CHANNELS),
}  # fmt: skip
CREATE = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(40))"
MANY = (
    "INSERT INTO orders WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1"
    " FROM r WHERE i < 500) SELECT i, CONCAT(DATABASE(), i) FROM r"
)


class Sources(SharedSources):
    """Each with two shards."""

    def rule(self, channel: str) -> dict[str, Any]:
        return RULE

    def tables(self, channel: str) -> list[str]:
        return [f"shop_{channel}{number}.orders" for number in (1, 2)]

    def fill(self, channel: str) -> None:
        for table in self.tables(channel):
            database = table.partition(".")[0]
            self.servers[channel].query(
                f"CREATE DATABASE {database}", f"USE {database}", CREATE, MANY
            )

    def changes(self, table: str, step: int) -> list[str]:
        key = 1000 + step
        return [
            f"INSERT INTO {table} (id, v) VALUES ({key}, 'load')",
            f"UPDATE {table} SET v = 'x{key}' WHERE id = {key % 400}",
            f"DELETE FROM {table} WHERE id = {key - 10} AND id % 3",
        ]

    def rows(self) -> list[tuple[Any, ...]]:
        """Of all shards: what tells them apart, and the columns that they are given."""
        found = []
        for channel in CHANNELS:
            other = {"eu": "id, v, w, NULL", "us": "id, v, w, u"}[channel]
            for table in self.tables(channel):
                rows = self.servers[channel].query(f"SELECT {other} FROM {table}")
                shard = table.partition(".")[0].removeprefix("shop_")
                found += [(shard, *row) for row in rows]
        return found


@pytest.mark.slow
def test_two_sources_shards_survive_kills_in_one_table(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    sources = Sources(tmp_path, make_server)
    assert subprocess.run(sources.command("config", "check"), check=False).returncode == 0
    both = sources.through_kills()
    sources.check_shown(spark, "lake.orders", ("shop", "id", "v", "w", "u"), sources.rows())
    sources.check_verified(2)
    end(both)

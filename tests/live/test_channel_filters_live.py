"""Two channels of one process whose ``[filters]`` are others: each keeps what its own say, of
copies, rows and statements, and says itself which they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_repl import joint_cut
from tests.support.live.server import Server
from tests.support.live.shared_sources import CHANNELS, SharedSources, end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("audit", "orders", "users")
FILTERS = {
    "eu": {"ignore_table": ["shop.audit"]},
    "us": {"do_db": ["shop"], "wild_ignore_table": ["shop.o%"]},
}
KEPT = {"eu": ("orders", "users"), "us": ("audit", "users")}


class Sources(SharedSources):
    """Each with the same tables, and one in another database."""

    def rule(self, channel: str) -> dict[str, Any]:
        return {"match": "shop.%", "to": f"{channel}.%"}

    def filters(self, channel: str) -> dict[str, Any]:
        return FILTERS[channel]

    def tables(self, channel: str) -> list[str]:
        return [f"shop.{name}" for name in TABLES]

    def fill(self, channel: str) -> None:
        server = self.servers[channel]
        server.query("CREATE DATABASE shop", "CREATE DATABASE other")
        server.query("CREATE TABLE other.t (id INT PRIMARY KEY, v INT, w INT)")
        for table in self.tables(channel):
            server.query(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(40))",
                f"INSERT INTO {table} VALUES (1, '{channel}'), (2, 'b')",
            )

    def changes(self, table: str, step: int) -> list[str]:
        return [
            "USE shop",
            f"INSERT INTO {table} (id, v) VALUES ({100 + step}, 'load')",
            f"UPDATE {table} SET v = 'x{step}' WHERE id = 1",
            f"DELETE FROM {table} WHERE id = {90 + step}",
        ]


@pytest.mark.slow
def test_each_channels_filters_are_its_own(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    sources = Sources(tmp_path, make_server)
    running = sources.run(*CHANNELS)
    sources.until_shown(running)
    added = [f"ALTER TABLE {name} ADD w INT DEFAULT 7" for name in TABLES]
    with sources.load():
        for server in sources.servers.values():
            server.query("USE shop", *added, "CREATE TABLE late (id INT PRIMARY KEY, v INT, w INT)")
            server.query(
                "INSERT INTO shop.late VALUES (1, 2, 3)", "INSERT INTO other.t VALUES (1, 2, 3)"
            )
            sources.until_shown(running)
    sources.until_shown(running)
    now = joint_cut(spark, sources.configs["eu"].target.path)
    kept = {
        there: (channel, f"shop.{name}")
        for channel, names in KEPT.items()
        for name in (*names, "late")
        for there in [f"{channel}.{name}"]
    }
    kept["other.t"] = ("eu", "other.t")
    assert sorted(now.tables) == sorted(kept)
    for there, (channel, name) in kept.items():
        rows = now.table(there).select("id", "v", "w").collect()
        want = sources.servers[channel].query(f"SELECT id, v, w FROM {name}")
        assert sorted(map(tuple, rows)) == sorted(map(tuple, want)), there
    for channel in CHANNELS:
        said = sources.says("status", channel=channel)["replication_applier_filters"]
        found = {row["FILTER_NAME"] for row in said}
        assert found == {f"REPLICATE_{key.upper()}" for key in FILTERS[channel]}, said
    end([running])

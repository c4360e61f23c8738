"""One Delta table that two live sources feed, told apart by row filters, where each source has rows
of both: first copies by ``run``, rows that go out of the filters and into them, columns, kills."""

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

FILTERS = {
    "eu": "region IN ('de', 'fr') AND v <> 'hidden'",
    "us": "NOT (region = 'FR' OR region = 'de') AND v <> 'hidden'",
}
CREATE = (
    "CREATE TABLE orders (region VARCHAR(9), id INT, v VARCHAR(40), PRIMARY KEY (id, region))"
    " DEFAULT CHARSET utf8mb4"
)
REGIONS = ("de", "FR", "ny", "ca")
MANY = (
    "INSERT INTO orders WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1"
    " FROM r WHERE i < 800) SELECT ELT(1 + i % 4, 'de', 'FR', 'ny', 'ca'), i,"
    " IF(i % 5, CONCAT('v', i), 'hidden') FROM r"
)


class Sources(SharedSources):
    """Each with the table, and rows of all regions."""

    def rule(self, channel: str) -> dict[str, Any]:
        return {
            "match": "shop.orders", "to": "shop.orders", "row_filter": FILTERS[channel],
            "channels": list(CHANNELS), "extra_columns": ["channel", "gtid"], "disjoint": True,
        }  # fmt: skip

    def tables(self, channel: str) -> list[str]:
        return ["shop.orders"]

    def fill(self, channel: str) -> None:
        self.servers[channel].query("CREATE DATABASE shop", "USE shop", CREATE, MANY)

    def changes(self, table: str, step: int) -> list[str]:
        key, region, other = 1000 + step, REGIONS[step % 4], REGIONS[step % 3]
        return [
            f"INSERT INTO {table} (region, id, v) VALUES ('{region}', {key}, 'load')",
            f"UPDATE {table} SET region = '{other}' WHERE id = {step % 700}",
            f"UPDATE {table} SET v = IF(v = 'hidden', 'x{step}', 'hidden') WHERE id = {step % 90}",
            f"DELETE FROM {table} WHERE id = {key - 10} AND id % 3",
        ]

    def rows(self) -> list[tuple[Any, ...]]:
        """What passes at either, with the columns that it is given."""
        found = []
        for channel in CHANNELS:
            other = {"eu": "id, v, w, NULL", "us": "id, v, w, u"}[channel]
            text = f"SELECT region, {other} FROM shop.orders WHERE {FILTERS[channel]}"
            found += [(channel, *row) for row in self.servers[channel].query(text)]
        return found


@pytest.mark.slow
def test_two_sources_rows_survive_kills_in_one_table(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    sources = Sources(tmp_path, make_server)
    assert subprocess.run(sources.command("config", "check"), check=False).returncode == 0
    both = sources.through_kills()
    sources.check_shown(
        spark, "shop.orders", ("_channel", "region", "id", "v", "w", "u"), sources.rows()
    )
    sources.check_verified(1)
    end(both)

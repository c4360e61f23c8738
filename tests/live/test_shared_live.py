"""One Delta table that two live sources feed: first copies by ``run``, rows and columns at both at
once, in one process that is killed and then in two, of which one is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from spark_repl import joint_cut
from spark_repl.config import Config
from spark_repl.control.channels import control_of
from spark_repl.control.copies import standing
from spark_repl.gtid import GtidSet
from tests.support.live.receiving import Command, config_for, processes, toml
from tests.support.live.server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_S = 240.0
CHANNELS = ("eu", "us")
RULE = {
    "match": r"shop\_%.orders", "to": "lake.orders", "key_prefix": "shop",
    "channels": list(CHANNELS),
}  # fmt: skip
CREATE = "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(40))"
MANY = (
    "INSERT INTO orders WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1"
    " FROM r WHERE i < 500) SELECT i, CONCAT(DATABASE(), i) FROM r"
)


class Sources:
    """Each channel's server, with two shards that have rows, and its file."""

    def __init__(self, folder: Path, make_server: Callable[..., Server]) -> None:
        self.servers = {channel: make_server() for channel in CHANNELS}
        self.configs, self.files = dict[str, Config](), dict[str, Path]()
        for channel, server in self.servers.items():
            (folder / channel).mkdir()
            plain = config_for(
                server, folder, relay__path=str(folder / channel / "log"), observe__listen=""
            )
            given = {**plain.to_mapping(), "channel": channel, "tables": [RULE]}
            self.configs[channel] = Config.from_mapping(given)
            self.files[channel] = folder / f"{channel}.toml"
            text = f'channel = "{channel}"\n' + toml(self.configs[channel])
            self.files[channel].write_text(text)
            for number in (1, 2):
                database = f"shop_{channel}{number}"
                server.query(f"CREATE DATABASE {database}", f"USE {database}", CREATE, MANY)

    def command(self, *named: str, channels: tuple[str, ...] = CHANNELS) -> list[str]:
        given = [one for name in channels for one in ("--config", str(self.files[name]))]
        return [sys.executable, "-m", "spark_repl", *named, *given]

    def run(self, *channels: str) -> Command:
        command = self.command("run", channels=channels)
        started = Command(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        processes.append(started)
        return started

    def says(self, *named: str, channel: str) -> Any:
        done = subprocess.run(
            [*self.command(*named, channels=(channel,)), "--json"], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def alter(self, channel: str, column: str) -> None:
        """Gives all shards of the channel a column."""
        for number in (1, 2):
            table = f"shop_{channel}{number}.orders"
            self.servers[channel].query(f"ALTER TABLE {table} ADD {column} INT DEFAULT 7")

    def until_shown(self, *running: Command, only: str = "") -> None:
        """Until each channel's cut has what its source has now; or that of ``only`` one."""
        until = time.monotonic() + _MOST_S
        for channel in [only] if only else CHANNELS:
            server = self.servers[channel]
            want = GtidSet.parse(server.executed)
            while True:
                stands = standing(control_of(self.configs[channel]))
                if stands.cut and want.issubset(GtidSet.parse(stands.cut.gtid_executed)):
                    break
                ended = [one for one in running if one.poll() is not None]
                assert not ended, ended[0].communicate()[1].decode()[-3000:]
                assert time.monotonic() < until, channel
                time.sleep(0.3)

    @contextmanager
    def load(self) -> Iterator[None]:
        """Rows of each shard all the time."""
        ended, threads = Event(), list[Thread]()

        def change(channel: str, number: int) -> None:
            key, shard = 1000, f"shop_{channel}{number}.orders"
            while not ended.wait(0.1):
                key += 1
                self.servers[channel].query(
                    f"INSERT INTO {shard} (id, v) VALUES ({key}, 'load')",
                    f"UPDATE {shard} SET v = 'x{key}' WHERE id = {key % 400}",
                    f"DELETE FROM {shard} WHERE id = {key - 10} AND id % 3",
                )  # fmt: skip

        for channel in CHANNELS:
            for number in (1, 2):
                threads.append(Thread(target=change, args=(channel, number)))
                threads[-1].start()
        try:
            yield
        finally:
            ended.set()
            for one in threads:
                one.join()

    def rows(self) -> list[tuple[Any, ...]]:
        """Of all shards: what tells them apart, and the columns that they are given."""
        found = []
        for channel in CHANNELS:
            for number in (1, 2):
                other = {"eu": "id, v, w, NULL", "us": "id, v, w, u"}[channel]
                name = f"shop_{channel}{number}.orders"
                rows = self.servers[channel].query(f"SELECT {other} FROM {name}")
                found += [(f"{channel}{number}", *row) for row in rows]
        return found


@pytest.mark.slow
def test_two_sources_in_one_table(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    sources = Sources(tmp_path, make_server)
    assert subprocess.run(sources.command("config", "check"), check=False).returncode == 0
    running = sources.run(*CHANNELS)
    sources.until_shown(running)
    with sources.load():
        sources.alter("eu", "w")
        sources.alter("us", "w")
        sources.until_shown(running)
        running.kill()
        running.communicate()
        both = [sources.run(channel) for channel in CHANNELS]
        sources.until_shown(*both)
        both[0].kill()
        both[0].communicate()
        sources.alter("us", "u")
        sources.until_shown(both[1], only="us")
        both[0] = sources.run("eu")
        sources.until_shown(*both)
    sources.until_shown(*both)
    check(sources, spark)
    for channel in CHANNELS:
        found = sources.says("verify", channel=channel)
        assert (found["tables"], found["differing"], found["undecided"]) == (2, 0, 0)
    for one in both:
        one.terminate()
        assert one.communicate(timeout=60) and one.returncode == 0


def check(sources: Sources, spark: SparkSession) -> None:
    """The joint cut, and the Delta table itself, are what the sources have."""
    want, target = sources.rows(), sources.configs["eu"].target.path
    now = joint_cut(spark, target)
    assert [*now.tables] == ["lake.orders"]
    for frame in (
        now.table("lake.orders"),
        spark.read.format("delta").load(f"{target}/lake/orders"),
    ):
        rows = frame.select("shop", "id", "v", "w", "u").collect()
        assert sorted(map(tuple, rows), key=str) == sorted(want, key=str)

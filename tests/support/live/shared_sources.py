"""Two servers: each feeds the same target by a channel of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from spark_repl import joint_cut
from spark_repl.config import Config
from spark_repl.control.records.channels import control_of
from spark_repl.control.records.copies import standing
from spark_repl.gtid import GtidSet
from tests.support.live.receiving import Command, config_for, processes, toml
from tests.support.live.server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_S = 240.0
CHANNELS = ("eu", "us")


class SharedSources:
    """Each channel's server, with tables that have rows, and its file."""

    def __init__(self, folder: Path, make_server: Callable[..., Server]) -> None:
        self.servers = {channel: make_server() for channel in CHANNELS}
        self.configs, self.files = dict[str, Config](), dict[str, Path]()
        for channel, server in self.servers.items():
            (folder / channel).mkdir()
            plain = config_for(
                server, folder, relay__path=str(folder / channel / "log"), observe__listen=""
            )
            own = {"tables": [self.rule(channel)], "filters": self.filters(channel)}
            given = {**plain.to_mapping(), "channel": channel, **own}
            self.configs[channel] = Config.from_mapping(given)
            self.files[channel] = folder / f"{channel}.toml"
            text = f'channel = "{channel}"\n' + toml(self.configs[channel])
            self.files[channel].write_text(text)
            self.fill(channel)

    @abstractmethod
    def rule(self, channel: str) -> dict[str, Any]:
        """The rule of the channel's tables."""

    def filters(self, channel: str) -> dict[str, Any]:
        """The channel's ``[filters]``."""
        return {}

    @abstractmethod
    def tables(self, channel: str) -> list[str]:
        """The channel's tables on its server."""

    @abstractmethod
    def fill(self, channel: str) -> None:
        """Makes the channel's tables, and their rows."""

    @abstractmethod
    def changes(self, table: str, step: int) -> list[str]:
        """Statements that change some rows of a table."""

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
        """Gives all tables of the channel a column."""
        for table in self.tables(channel):
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
                time.sleep(0.3)  # each look reads the control table

    @contextmanager
    def load(self) -> Iterator[None]:
        """Changes of each table all the time."""
        ended, threads = Event(), list[Thread]()

        def change(channel: str, table: str) -> None:
            step = 0
            while not ended.wait(0.1):
                step += 1
                self.servers[channel].query(*self.changes(table, step))

        for channel in CHANNELS:
            for table in self.tables(channel):
                threads.append(Thread(target=change, args=(channel, table)))
                threads[-1].start()
        try:
            yield
        finally:
            ended.set()
            for one in threads:
                one.join()

    def through_kills(self) -> list[Command]:
        """Run the channels under load, in one process that is killed, and then in two processes,
        one of which is killed. Both sources add columns at once. Returns the two, when all is
        shown."""
        running = self.run(*CHANNELS)
        self.until_shown(running)
        with self.load():
            self.alter("eu", "w")
            self.alter("us", "w")
            self.until_shown(running)
            running.kill()
            running.communicate()
            both = [self.run(channel) for channel in CHANNELS]
            self.until_shown(*both)
            both[0].kill()
            both[0].communicate()
            self.alter("us", "u")
            self.until_shown(both[1], only="us")
            both[0] = self.run("eu")
            self.until_shown(*both)
        self.until_shown(*both)
        return both

    def check_shown(
        self, spark: SparkSession, table: str, columns: Sequence[str], want: list[tuple[Any, ...]]
    ) -> None:
        """The joint cut, and the Delta table itself, have these rows and no others."""
        target = self.configs["eu"].target.path
        now = joint_cut(spark, target)
        assert [*now.tables] == [table]
        folder = f"{target}/{table.replace('.', '/')}"
        for frame in (now.table(table), spark.read.format("delta").load(folder)):
            rows = frame.select(*columns).collect()
            assert sorted(map(tuple, rows), key=str) == sorted(want, key=str)

    def check_verified(self, tables: int) -> None:
        """Check that ``verify`` of each channel finds no difference in ``tables`` tables."""
        for channel in CHANNELS:
            found = self.says("verify", channel=channel)
            assert (found["tables"], found["differing"], found["undecided"]) == (tables, 0, 0)


def end(running: list[Command]) -> None:
    """By SIGTERM, as a service does."""
    for one in running:
        one.terminate()
        assert one.communicate(timeout=_MOST_S) and one.returncode == 0

"""Everything is killed at random, over a bank whose money must be complete in every cut."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql

from spark_repl.config import Config
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.observe.status.status import status

from .receiving import toml
from .server import Clients, Server

ACCOUNTS, TILLS, SHARE = 200, 8, 1000
TOTAL = ACCOUNTS * SHARE
_WAIT_S, _WORK_S, _END_S = 600.0, 2.0, 240.0
# Without the bounds everything small is done in the driver; here executors and workers have to.
_RUN = """
import sys
import spark_repl.apply.group.stager, spark_repl.runtime.workers
spark_repl.runtime.workers.HERE_LOG_BYTES = spark_repl.runtime.workers.HERE_ROWS = 0
from spark_repl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
# What is killed, and how often in a hundred: the first two cost a start of Spark.
KINDS = {"applier": 3, "jvm": 2, "receiver": 33, "executor": 38, "source": 24}


class Bank(Clients):
    """Clients that move money between tables: plain, as XA branches, and now and then a CREATE."""

    def __init__(self, server: Server, clients: int = 2, seed: int = 1) -> None:
        super().__init__(server, clients, seed)

    def _make_tables(self) -> None:
        accounts = ", ".join(f"({i}, {SHARE}, 'new')" for i in range(1, ACCOUNTS + 1))
        self.server.query(
            "CREATE DATABASE bank",
            "CREATE TABLE bank.account (id INT PRIMARY KEY, balance INT, note VARCHAR(200))",
            "CREATE TABLE bank.till (id INT PRIMARY KEY, balance INT)",
            "CREATE TABLE bank.transfer (id BIGINT AUTO_INCREMENT PRIMARY KEY, account INT,"
            " till INT, amount INT, made DATETIME(6))",
            f"INSERT INTO bank.account VALUES {accounts}",
            "INSERT INTO bank.till VALUES " + ", ".join(f"({i}, 0)" for i in range(1, TILLS + 1)),
        )

    def _client(self, dice: random.Random, number: int) -> None:
        branch = 0
        while not self._stop.is_set():
            with suppress(pymysql.err.MySQLError, OSError), self.server.connect() as link:
                cursor = link.cursor()
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
                while not self._stop.is_set():
                    branch += 1
                    self._transaction(cursor, dice, f"'{number}-{time.time_ns()}-{branch}'")
                    self.transactions += 1
                    time.sleep(0.03)  # the load leaves room for what is tested
            time.sleep(0.05)  # the server is gone for a while

    def _transaction(self, cursor: Any, dice: random.Random, xid: str) -> None:
        way = dice.random()
        if way < 0.0004:
            cursor.execute(f"CREATE TABLE bank.t{time.time_ns()} (id INT PRIMARY KEY)")
        elif way < 0.1:
            cursor.execute(f"XA START {xid}")
            self._transfer(cursor, dice)
            cursor.execute(f"XA END {xid}")
            cursor.execute(f"XA PREPARE {xid}")
            time.sleep(dice.choice([0, 0.05, 0.3]))  # other transactions come before its end
            cursor.execute(f"XA {dice.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} {xid}")
        else:
            cursor.execute("BEGIN")
            self._transfer(cursor, dice)
            cursor.execute("COMMIT")

    @staticmethod
    def _transfer(cursor: Any, dice: random.Random) -> None:
        for _ in range(dice.randint(1, 3)):
            account, till = dice.randint(1, ACCOUNTS), dice.randint(1, TILLS)
            amount, note = dice.randint(-20, 20), "n" * dice.randint(0, 200)
            cursor.execute(
                "UPDATE bank.account SET balance = balance - %s, note = %s WHERE id = %s",
                (amount, note, account),
            )
            cursor.execute("UPDATE bank.till SET balance = balance + %s WHERE id = %s",
                           (amount, till))  # fmt: skip
            cursor.execute(
                "INSERT INTO bank.transfer (account, till, amount, made)"
                " VALUES (%s, %s, %s, NOW(6))", (account, till, amount),
            )  # fmt: skip
        if dice.random() < 0.3:
            cursor.execute("DELETE FROM bank.transfer WHERE till = %s LIMIT 3", (till,))


def children(pid: int) -> dict[int, str]:
    """The processes below one: pid -> command line."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                stat = (entry / "stat").read_text(errors="replace")
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
                names[int(entry.name)] = line.decode(errors="replace")
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        below = [one for one, parent in parents.items() if parent == waiting[0]]
        found |= {one: names.get(one, "") for one in below}
        waiting = waiting[1:] + below
    return found


class Killer:
    """``spark-repl run`` beside a load, started again whenever it was killed. ``environment``: more
    variables of its processes."""

    def __init__(
        self,
        server: Server,
        config: Config,
        folder: Path,
        seed: int,
        environment: Mapping[str, str] = {},
    ) -> None:
        self.server, self.config, self.dice = server, config, random.Random(seed)
        self._environment = {**os.environ, **environment}
        self.kills: Counter[str] = Counter()
        self._end_at = time.monotonic() + float(os.environ.get("SPARK_REPL_SOAK_S", "inf"))
        self.master, self._file, self._out = "local[2]", folder / "run.toml", folder / "run.out"
        self._file.write_text(toml(config))
        self._control = Control(Layout(config.target.path).control)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *args: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self._end(self.process.pid)

    def start(self) -> None:
        command = [sys.executable, "-c", _RUN, "run", "--config", str(self._file)]
        with self._out.open("ab") as out:
            self.process = subprocess.Popen(
                [*command, "--master", self.master, "--json"],
                stdout=out, stderr=out, env=self._environment,
            )  # fmt: skip

    def run(self, kills: int) -> None:
        """So many kills, or fewer when SPARK_REPL_SOAK_S seconds are over."""
        for _ in range(kills):
            if time.monotonic() > self._end_at:
                return
            fresh = self.process is None or self.process.poll() is not None
            if fresh:
                self.start()
            self._wait_for_cut(_WAIT_S if fresh else _WORK_S)
            time.sleep(self.dice.uniform(0, 0.7))  # the kill comes at any moment
            while not self._kill(self.dice.choices([*KINDS], [*KINDS.values()])[0]):
                time.sleep(0.2)  # a process of that kind may start

    def _wait_for_cut(self, wait_s: float) -> None:
        """Until another cut has been published: behind a start each kill must meet work."""
        assert self.process is not None
        before, until = self.published(), time.monotonic() + wait_s
        while self.published() <= before and time.monotonic() < until:
            assert self.process.poll() is None, self._out.read_text()[-3000:]
            time.sleep(0.3)  # each look reads the control table
        if wait_s == _WAIT_S:
            assert self.published() > before, "no progress\n" + self._out.read_text()[-3000:]

    def _kill(self, kind: str) -> bool:
        """False when there is no such process just now."""
        assert self.process is not None
        if kind == "source":
            self.server.kill()
            self.server.start()
        elif kind == "applier":
            self._end(self.process.pid)
        else:
            said = {"jvm": "SparkSubmit", "receiver": " receive ", "executor": "worker_daemon"}
            if kind == "executor" and self.master.startswith("local-cluster"):
                said[kind] = "CoarseGrainedExecutorBackend"
            found = [
                pid
                for pid, name in children(self.process.pid).items()
                # The JVM's own command line names the executors' module, too.
                if said[kind] in name and ("SparkSubmit" in name) == (kind == "jvm")
            ]
            if not found:
                return False
            try:
                os.kill(self.dice.choice(found), signal.SIGKILL)
            except ProcessLookupError:  # it has ended since
                return False
            if kind == "jvm":  # the applier says so, and ends
                self.process.wait(_END_S)
                self.process = None
        self.kills[kind] += 1
        return True

    def _end(self, pid: int) -> None:
        assert self.process is not None
        below = children(pid)
        os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None
        until = time.monotonic() + 30
        while any(Path(f"/proc/{one}").exists() for one in below) and time.monotonic() < until:
            time.sleep(0.05)  # the JVM and the receiver see that it is gone, and end

    def catch_up(self) -> None:
        """Apply the rest and stop."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        assert self.process is not None
        want, until = self.server.executed, time.monotonic() + _WAIT_S
        while self.executed() != want:
            assert self.process.poll() is None, self._out.read_text()[-3000:]
            assert time.monotonic() < until, f"{self.executed()} is not {want}"
            time.sleep(0.2)  # each look reads the control table
        self.process.terminate()
        assert self.process.wait(_END_S) == 0, self._out.read_text()[-3000:]

    def use(self, master: str) -> None:
        """Goes on with another Spark master."""
        if self.process is not None and self.process.poll() is None:
            self._end(self.process.pid)
        self.master = master

    def executed(self) -> str:
        with suppress(Exception):
            return str(status(self.config.target.path)["gtid_executed"])
        return ""

    def published(self) -> int:
        return len(self._control.rows("cut"))


class Reader:
    """``cut_reader`` as a process; ``figures`` when it has ended."""

    def __init__(self, target: str, folder: Path) -> None:
        self._stop = folder / "reader.stop"
        command = [sys.executable, "-m", "tests.support.live.cut_reader", target, str(TOTAL)]
        self._process = subprocess.Popen(
            [*command, str(self._stop)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.figures: dict[str, int] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *args: object) -> None:
        self._stop.touch()
        out, err = self._process.communicate(timeout=_END_S)
        assert self._process.returncode == 0, err.decode()[-3000:]
        self.figures = json.loads(out)

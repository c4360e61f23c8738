"""``run`` for hours beside a source that never rests: does anything grow?

    python -m tests.bench.long_follow --mysql FOLDER --minutes 240 [--rate 500]

So many transactions a second move money, with XA branches; a statement of DDL each half minute;
a new copy of a table every ten minutes; a reader of the newest cut all the while; all retention at
its shortest, an hour, so that clean-up and VACUUM have their turn. Each five minutes a line of
JSON says what there is: memory (proportional set size, MB) and descriptors by kind of process,
files by folder, how far behind. At the end every cut that is promised has to have all the money,
and ``verify`` has to find the source's rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql

from spark_repl.config import Config
from spark_repl.control.records.channels import control_of
from spark_repl.control.records.copies import standing
from spark_repl.control.table.layout import Layout
from spark_repl.copy.recopy import ask
from tests.support.live.cut_reader import total
from tests.support.live.killing import TOTAL, Bank, Reader, children
from tests.support.live.receiving import config_for, toml
from tests.support.live.server import Server

from .many_channels import memory, wait_for
from .one_server import one_server

_LINE_S, _LOOK_S, _DDL_S, _COPY_S = 300, 15, 30, 600
_TRANSFERS = 50_000
"""rows of bank.transfer: as many are deleted as come, so that nothing has a reason to grow"""
_SHORTEST = dict.fromkeys(
    ("every_cut", "minute_cut", "cut_retention", "commit_retention", "vacuum"), 1
)
_DDL = (
    "CREATE TABLE IF NOT EXISTS bank.shape (id INT PRIMARY KEY, v INT)",
    "INSERT INTO bank.shape VALUES (1, 1), (2, 2)",
    "ALTER TABLE bank.shape ADD COLUMN w VARCHAR(20) DEFAULT 'w'",
    "ALTER TABLE bank.shape MODIFY v BIGINT, RENAME COLUMN w TO x",
    "RENAME TABLE bank.shape TO bank.form",
    "ALTER TABLE bank.form DROP COLUMN x",
    "TRUNCATE TABLE bank.form",
    "DROP TABLE bank.form",
)


class Load(Bank):
    """The first client is the bank's own, with XA; the others keep to a rate."""

    def __init__(self, server: Server, rate: float, clients: int = 4) -> None:
        super().__init__(server, clients)
        self._pause_s = (clients - 1) / rate

    def _client(self, dice: random.Random, number: int) -> None:
        if number == 0:
            super()._client(dice, number)
            return
        due = time.monotonic()
        while not self._stop.is_set():
            with suppress(pymysql.err.MySQLError), self.server.connect() as link:
                cursor = link.cursor()
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
                while not self._stop.is_set():
                    time.sleep(max(0.0, due - time.monotonic()))
                    due += self._pause_s
                    self._move(cursor, dice)
                    self.transactions += 1

    def _move(self, cursor: Any, dice: random.Random) -> None:
        amount, account, till = dice.randint(-20, 20), dice.randint(1, 200), dice.randint(1, 8)
        cursor.execute("BEGIN")
        for table, sign, key in (("account", -1, account), ("till", 1, till)):
            cursor.execute(f"UPDATE bank.{table} SET balance = balance + {sign * amount}"
                           f" WHERE id = {key}")  # fmt: skip
        cursor.execute("INSERT INTO bank.transfer (account, till, amount, made)"
                       f" VALUES ({account}, {till}, {amount}, NOW(6))")  # fmt: skip
        cursor.execute(f"DELETE FROM bank.transfer WHERE id = {cursor.lastrowid - _TRANSFERS}")
        cursor.execute("COMMIT")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mysql", required=True, type=Path)
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--rate", type=float, default=500)
    options = parser.parse_args()
    with one_server(options.mysql) as (server, folder):
        kept = {f"target__{name}_hours": hours for name, hours in _SHORTEST.items()}
        config = config_for(server, folder, **kept)
        (folder / "run.toml").write_text(toml(config))
        command = [sys.executable, "-m", "spark_repl"]
        given = ["--config", str(folder / "run.toml")]
        with (folder / "run.log").open("wb") as log:
            running = subprocess.Popen([*command, "run", *given], stderr=log, stdout=log)
        try:
            with Reader(config.target.path, folder) as reader, Load(server, options.rate) as load:
                follow(server, config, running.pid, load, options.minutes * 60)
            behind_s = lag_s(server, config)
            verified = subprocess.run([*command, "verify", *given], capture_output=True, text=True)
        finally:
            running.terminate()
            running.wait()
        found = {
            "transactions": load.transactions, "behind_at_end_s": round(behind_s, 1),
            "run": running.returncode, "verify": verified.returncode, **reader.figures,
            **promised(config),
        }  # fmt: skip
        print(json.dumps(found), flush=True)
        if verified.returncode:
            print(verified.stdout[-2000:], verified.stderr[-2000:])
            print((folder / "run.log").read_text()[-5000:])


def follow(server: Server, config: Config, pid: int, load: Load, seconds: float) -> None:
    """Statements, copies, looks and lines, each at its time."""
    began = time.monotonic()
    at = dict.fromkeys((_DDL_S, _COPY_S, _LINE_S), 1)
    looks, statement, behind = list[Counter[str]](), 0, Counter[str]()
    while (now := time.monotonic() - began) < seconds:
        time.sleep(_LOOK_S)
        looks.append(memory(pid))
        behind["lag_s_at_most"] = max(behind["lag_s_at_most"], round(lag_s(server, config)))
        if now > at[_DDL_S] * _DDL_S:
            at[_DDL_S] += 1
            server.query(_DDL[statement % len(_DDL)])
            statement += 1
        if now > at[_COPY_S] * _COPY_S and standing(control_of(config)).copy is None:
            at[_COPY_S] += 1
            ask(config, ("bank.till",))
        if now > at[_LINE_S] * _LINE_S:
            at[_LINE_S] += 1
            kinds = sorted({kind for look in looks for kind in look})
            middle = {kind: sorted(look[kind] for look in looks)[len(looks) // 2] for kind in kinds}
            line = {
                "minute": round(now / 60), "transactions": load.transactions, "ddl": statement,
                **behind, "mb": sum(middle.values()), **middle, "descriptors": descriptors(pid),
                "files": files(config),
            }  # fmt: skip
            print(json.dumps(line), flush=True)
            looks, behind = [], Counter()


def lag_s(server: Server, config: Config) -> float:
    """How long what is committed now takes to be in a cut; 0 before the first one."""
    began = time.monotonic()
    if standing(control_of(config)).cut:
        wait_for([config], server.executed)
    return time.monotonic() - began


def descriptors(pid: int) -> int:
    """Open ones of the process and all below it."""
    found = 0
    for one in (pid, *children(pid)):
        with suppress(OSError):
            found += len(os.listdir(f"/proc/{one}/fd"))
    return found


def files(config: Config) -> dict[str, int]:
    """How many there are in each folder of the target, the working state and the relay log."""
    found = Counter[str]()
    for name in (config.target.path, config.relay.path):
        for folder, _, inside in os.walk(name):
            short = os.path.relpath(folder, Path(config.target.path).parent).split("/")
            found["/".join(short[:4])] += len(inside)
    return dict(sorted(found.items()))


def promised(config: Config) -> dict[str, int]:
    """How many cuts are promised, and how many of them have not all the money."""
    layout = Layout(config.target.path)
    cuts = [cut for cut in control_of(config).cuts() if "bank.till" in cut.tables]
    return {"cuts": len(cuts), "torn": sum(total(layout, cut) != TOTAL for cut in cuts)}


if __name__ == "__main__":
    main()

"""How fast ``verify`` compares, and what it takes of the server's processor and of ours.

    python -m tests.bench.verify_rows --mysql FOLDER [--rows 1000000] [--passes 3] [--changed]
        [--rate 100]

One server, one table (a key, two numbers, a DOUBLE, a text of some 20 letters), which a target has.
``--changed``: rows are changed in the target's file by hand first, one byte of one row; each pass
then has to name it, and nothing else. ``--rate``: so many transactions a second update other rows
meanwhile, and are followed. Prints a line of JSON: rows a second of each pass, and
seconds of a core that the server and this process took for a million rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import threading
import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_repl.control.cuts.cut_reader import find_cut
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log.add_actions import live_files
from spark_repl.verify.verifier import VerifyLimits
from spark_repl.verify.verify_run import verify
from tests.support.live.following import Following
from tests.support.live.server import Server

from .one_server import one_server

_FILL = (
    "INSERT INTO t.a WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {0})"
    " SELECT i, i * 7, i % 1000, i / 7, CONCAT('a text of row ', i) FROM n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mysql", required=True, type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--rate", type=int, default=0)
    options = parser.parse_args()
    with one_server(options.mysql) as (server, folder):
        print(json.dumps(measured(server, folder, options)))


def measured(server: Server, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    server.query(
        "CREATE DATABASE t",
        "CREATE TABLE t.a (id INT PRIMARY KEY, n BIGINT, m INT, d DOUBLE, s VARCHAR(40))",
        f"SET SESSION cte_max_recursion_depth = {options.rows}",
        _FILL.format(options.rows),
    )
    with Following(server, folder, compact_files=0) as following:
        following.catch_up()
        if options.changed:
            change(following, options.rows // 2)
        if options.rate:
            with Updates(server, options.rows, options.rate) as updates:
                return passes(server, following, options) | {"transactions": updates.done}
    return passes(server, following, options)


class Updates(threading.Thread):
    """So many a second, of rows other than the one in the middle."""

    def __init__(self, server: Server, rows: int, rate: int) -> None:
        super().__init__()
        self._server, self._rows, self._rate = server, rows, rate
        self._stop_it, self.done = threading.Event(), 0

    def __enter__(self) -> Updates:
        self.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop_it.set()
        self.join()

    def run(self) -> None:
        began, numbers, middle = time.monotonic(), random.Random(1), self._rows // 2
        connection = self._server.connect()
        connection.autocommit(True)
        with connection.cursor() as cursor:
            while not self._stop_it.is_set():
                if (number := numbers.randrange(self._rows) + 1) != middle:
                    cursor.execute(f"UPDATE t.a SET n = n + 1 WHERE id = {number}")
                    self.done += 1
                self._stop_it.wait(max(0.0, began + self.done / self._rate - time.monotonic()))
        connection.close()


def passes(server: Server, following: Following, options: argparse.Namespace) -> dict[str, object]:
    speeds, ours, theirs, looks = list[int](), 0.0, 0.0, list[object]()
    for _ in range(options.passes):
        before, server_before = os.times(), processor_s(int((server.data / "pid").read_text()))
        limits = VerifyLimits(connections=options.connections)
        found = verify(following.config, (), limits, master=None, repair=None)
        after = os.times()
        ours += after.user + after.system - before.user - before.system
        theirs += processor_s(int((server.data / "pid").read_text())) - server_before
        speeds.append(found["rows_per_s"])
        looks.append((found["differing"], found["undecided"]))
    millions = options.rows * options.passes / 1e6
    return {
        "rows": options.rows, "rows_per_s": speeds, "found": looks,
        "our_s": round(ours / millions, 2), "server_s": round(theirs / millions, 2),
    }  # fmt: skip


def change(following: Following, number: int) -> None:
    """One letter of one row, in its data file."""
    layout = Layout.of(following.config.target)
    at = find_cut(Control(layout.control), "latest").tables["t.a"]
    for path in live_files(layout.table(at.path), at.version) or {}:
        whole = Path(layout.table(at.path)) / path
        rows = pq.read_table(whole)
        text = pc.if_else(pc.equal(rows["id"], number), "A text of row", rows["s"])
        pq.write_table(rows.set_column(4, rows.schema.field(4), text), whole)


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

"""XA clients beside ordinary ones: tables equal the server's, ``xa list`` equals XA RECOVER.

The source is not restarted here: MySQL 9.7.4 forgets some prepared branches when it is (measured,
also after an orderly shutdown), though its log never ends them.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_repl.observe.status.status import status
from tests.spark.lab import read, run
from tests.support.live.server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_XIDS = (b"plain", b"n\0ul", b"'quoted'", b"\xff\xfe")


def literal(xid: bytes, number: int) -> str:
    return f"X'{xid.hex()}',X'{number:02x}',{number}"


class XaClients:
    """Branches in random states; those that are ``open`` have been prepared and not ended."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.dice = server, random.Random(seed)
        self.open: list[str] = []
        self.key = seed * 100_000

    def work(self, steps: int) -> None:
        for _ in range(steps):
            self.dice.choice([self.begin, self.begin, self.plain, self.end])()

    def _rows(self, cursor: Any) -> None:
        for _ in range(self.dice.randint(1, 4)):
            self.key += 1
            text = "x" * self.dice.choice([3, 300])
            cursor.execute("INSERT INTO t.x VALUES (%s, %s, 1)", (self.key, text))
        cursor.execute("UPDATE t.x SET n = n + 1 WHERE id = %s", (self.key,))

    def plain(self) -> None:
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            self._rows(cursor)
            cursor.execute("COMMIT")

    def begin(self) -> None:
        """Prepares a branch, in one phase now and then."""
        self.key += 1
        xid = literal(self.dice.choice(_XIDS) + str(self.key).encode(), self.key % 200)
        with self.server.connect() as connection, connection.cursor() as cursor:
            compress = self.dice.choice(["ON", "OFF"])
            cursor.execute(f"SET binlog_transaction_compression = {compress}")
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute(f"XA START {xid}")
            self._rows(cursor)
            cursor.execute(f"XA END {xid}")
            if self.dice.random() < 0.2:
                cursor.execute(f"XA COMMIT {xid} ONE PHASE")
            else:
                cursor.execute(f"XA PREPARE {xid}")
                self.open.append(xid)

    def end(self) -> None:
        if self.open:
            xid = self.open.pop(self.dice.randrange(len(self.open)))
            action = self.dice.choice(["COMMIT", "COMMIT", "ROLLBACK"])
            self.server.query(f"XA {action} {xid}")


def branches_of(server: Server) -> list[tuple[int, str]]:
    """(format id, gtrid and bqual in hex) as XA RECOVER has them."""
    found = server.query("XA RECOVER CONVERT XID")
    return sorted((row[0], row[3].removeprefix("0x").lower()) for row in found)


def test_tables_and_prepared_branches_equal_those_of_a_server_under_xa(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path
) -> None:
    server = make_server()
    server.query(
        "CREATE DATABASE t", "CREATE TABLE t.x (id INT PRIMARY KEY, v VARCHAR(400), n INT)"
    )
    log, target = tmp_path / "log", tmp_path / "lake"
    seen = 0
    for seed, bound in ((1, 7), (2, 1000), (3, 2)):
        clients = XaClients(server, seed)
        clients.work(40)
        server.query("FLUSH BINARY LOGS")
        log.mkdir(exist_ok=True)
        for path in server.data.glob("binlog.0*"):
            shutil.copy(path, log)
        run(spark, log, target, group_max_transactions=bound)
        want = sorted(server.query("SELECT * FROM t.x"))
        assert sorted(tuple(row) for row in read(spark, target, "t.x").collect()) == want
        have = status(str(target))["xa_recover"]
        assert branches_of(server) == sorted(
            (one["format_id"], one["gtrid"] + one["bqual"]) for one in have
        )
        seen += len(have)
    assert seen > 5

"""mode = "history" and "changelog" beside a live server, whose triggers note each change."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark_repl.config import Config
from tests.support.live.following import Following
from tests.support.live.killing import Killer
from tests.support.live.receiving import config_for
from tests.support.live.server import Clients, Server
from tests.support.local_delta import last_shown
from tests.support.wait_until import wait_until

TABLES = [{"match": "t.h", "mode": "history"}, {"match": "t.c", "mode": "changelog"}]
_AUDIT = (
    "CREATE TABLE t.audit"
    " (seq INT AUTO_INCREMENT PRIMARY KEY, was INT, id INT, v VARCHAR(20), doc JSON)"
)
_SAME = "OLD.id <=> NEW.id AND OLD.v <=> NEW.v AND OLD.doc <=> NEW.doc"
_NOTED = {
    "INSERT": "SELECT NULL, NEW.id, NEW.v, NEW.doc",
    "DELETE": "SELECT OLD.id, NULL, NULL, NULL",
    "UPDATE": f"SELECT OLD.id, NEW.id, NEW.v, NEW.doc FROM DUAL WHERE NOT ({_SAME})",
}
"""what a trigger says of a change; the log has none where an UPDATE leaves a row as it was"""


def begin(server: Server) -> None:
    server.query("CREATE DATABASE t", _AUDIT)
    for name in ("h", "c"):
        server.query(f"CREATE TABLE t.{name} (id INT PRIMARY KEY, v VARCHAR(20), doc JSON)")
    for event, said in _NOTED.items():
        trigger = f"CREATE TRIGGER t.{event.lower()}s AFTER {event} ON t.h FOR EACH ROW"
        server.query(f"{trigger} INSERT INTO t.audit (was, id, v, doc) {said}")


def load(chance: random.Random, count: int, first: int = 0) -> list[str]:
    """Transactions of both tables, with numbers from ``first`` on; some of them are rolled back. A
    REPLACE with equal values is a change only in the table with triggers."""
    made = ["SET SESSION binlog_row_value_options = PARTIAL_JSON"]
    for number in range(first, first + count):
        made.append("BEGIN")
        for _ in range(chance.randint(1, 4)):
            key, other = chance.randrange(8), chance.randrange(8)
            long = "x" * chance.randrange(100)
            text = chance.choice([
                f"REPLACE INTO t.? VALUES ({key}, 'v{number}', '[{number}, \"{long}\"]')",
                f"INSERT IGNORE INTO t.? VALUES ({key}, 'i', NULL)",
                f"UPDATE t.? SET doc = JSON_SET(doc, '$[0]', {number}) WHERE id <= {key}",
                f"UPDATE IGNORE t.? SET id = {other}, v = 'moved' WHERE id = {key}",
                f"DELETE FROM t.? WHERE id = {key}",
            ])  # fmt: skip
            made += [text.replace("?", name) for name in ("h", "c")]
        made.append("ROLLBACK" if chance.random() < 0.2 else "COMMIT")
    return made


def loaded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def test_a_history_has_every_version_that_triggers_saw(
    shared_server: Server, tmp_path: Path
) -> None:
    server, chance = shared_server, random.Random(11)
    begin(server)
    with Following(server, tmp_path, tables=TABLES) as following:
        server.query(*load(chance, 60))
        following.catch_up()
        server.query(*load(chance, 60))
        following.catch_up()
        verified = following.verify()
    assert check(server, tmp_path / "lake") > 100
    assert verified.not_compared == {
        "t.h": "its mode is history", "t.c": "its mode is changelog"
    }  # fmt: skip


def test_a_truncate_is_a_row_of_a_changelog(shared_server: Server, tmp_path: Path) -> None:
    """With the GTID of the source, between the images around it, where all columns are NOT NULL."""
    server, tables = shared_server, [{"match": "emptied.c", "mode": "changelog"}]
    server.query(
        "CREATE DATABASE emptied", "CREATE TABLE emptied.c (id INT PRIMARY KEY, v INT NOT NULL)"
    )
    with Following(
        server, tmp_path, tables=tables, filters={"wild_do_table": ["emptied.%"]}
    ) as following:
        server.query("INSERT INTO emptied.c VALUES (1, 1)", "TRUNCATE emptied.c")
        (gtids,) = server.query("SELECT @@gtid_executed")[0]
        server.query("TRUNCATE emptied.c", "INSERT INTO emptied.c VALUES (1, 2)")
        following.catch_up()
    rows = sorted(last_shown(tmp_path / "lake")["emptied.c"], key=lambda row: row[-2:])
    assert [(*row[:2], row[4]) for row in rows] == [
        (1, 1, "INSERT"), (None, None, "TRUNCATE"), (None, None, "TRUNCATE"), (1, 2, "INSERT")
    ]  # fmt: skip
    uuid, _, last = gtids.partition(":")
    first = int(last.rpartition("-")[2])
    assert [row[2] for row in rows] == [f"{uuid}:{first + step}" for step in range(-1, 3)]


def check(server: Server, target: Path) -> int:
    """That the newest cut has every version which the triggers saw, in their order; how many."""
    shown = last_shown(target)
    noted = server.query("SELECT was, id, v, doc FROM t.audit ORDER BY seq")
    begun = [(row[1], row[2], loaded(row[3])) for row in noted if row[1] is not None]
    found = sorted(shown["t.h"], key=lambda row: (row[5], row[6]))
    assert [(*row[:2], loaded(row[2])) for row in found] == begun
    there = server.query("SELECT id, v, doc FROM t.h ORDER BY id")
    now = sorted((row for row in found if row[-1]), key=lambda row: row[0])
    assert [(*row[:2], loaded(row[2])) for row in now] == [
        (*row[:2], loaded(row[2])) for row in there
    ]
    assert len(found) - len(now) == sum(row[0] is not None for row in noted)
    images = sorted(shown["t.c"], key=lambda row: row[-2:])
    after = [row for row in images if row[-3] in ("INSERT", "UPDATE_POSTIMAGE")]
    assert [(*row[:2], loaded(row[2])) for row in after] == begun
    gone = [row[0] for row in images if row[-3] in ("DELETE", "UPDATE_PREIMAGE")]
    assert gone == [row[0] for row in noted if row[0] is not None]
    return len(found)


class Changing(Clients):
    """One client, whose transactions the triggers see in the order in which they commit."""

    def __init__(self, server: Server, seed: int) -> None:
        super().__init__(server, 1, seed)

    def _make_tables(self) -> None:
        pass

    def _client(self, rng: random.Random, number: int) -> None:
        while not self._stop.is_set():
            with suppress(pymysql.err.MySQLError, OSError), self.server.connect() as link:
                cursor = link.cursor()
                while not self._stop.is_set():
                    self.transactions += 2
                    for statement in load(rng, 2, self.transactions):
                        cursor.execute(statement)
                    time.sleep(0.03)  # the load leaves room for what is tested
            time.sleep(0.05)  # the server is gone for a while


@pytest.mark.slow
def test_every_version_whatever_is_killed(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """Applier, JVM, receiver, Python workers and the source, over a load; then a restart."""
    server, seed = make_server(), int(os.environ.get("SPARK_REPL_SEED", "3"))
    begin(server)
    plain = config_for(server, tmp_path, relay__segment_size_bytes=200_000, target__compact_files=4)
    config = Config.from_mapping({**plain.to_mapping(), "tables": TABLES})
    with Killer(server, config, tmp_path, seed) as killer:
        killer.start()
        wait_until(killer.published, 240, each_s=0.2)  # the first copy has seen no row yet
        with Changing(server, seed) as changing:
            killer.run(int(os.environ.get("SPARK_REPL_KILLS", "3")))
            wait_until(lambda: changing.transactions > 50)
        killer.catch_up()
    assert check(server, tmp_path / "lake") > 50

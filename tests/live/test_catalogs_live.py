"""Tables of a live source in a Hive metastore: what Spark sees by name equals what MySQL has, also
after statements, and after the metastore was away.

``SPARK_REPL_SEED`` chooses the statements of the longer test.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from spark_repl.control.table.control import Control
from spark_repl.observe.status.status import status
from tests.support.catalog_reader import CatalogReader
from tests.support.hive_metastore import HiveMetastore, hive_metastore
from tests.support.live.receiving import config_for
from tests.support.live.schema_load import SchemaLoad, table_state
from tests.support.live.server import Load, Server
from tests.support.wait_until import wait_until

from .test_ddl_definitions import OPTIONS
from .test_run import Run

pytestmark = pytest.mark.slow

CREATED = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.orders (branch INT NOT NULL, id BIGINT UNSIGNED NOT NULL"
    " COMMENT 'the number, per branch', state ENUM('new','pa''id') NOT NULL DEFAULT 'new',"
    " price DECIMAL(10,2) COMMENT 'in EUR; \"net\"', amount INT UNSIGNED,"
    " total DECIMAL(12,2) AS (price * amount) STORED, PRIMARY KEY (branch, id))"
    " COMMENT = 'what customers order'",
    "CREATE TABLE shop.plain (a VARCHAR(40) CHARACTER SET latin1, b TINYTEXT COMMENT 'ü')",
    "CREATE TABLE shop.gone (id INT PRIMARY KEY)",
    "CREATE TABLE shop.old (id INT PRIMARY KEY, at DATETIME(3) NOT NULL) COMMENT 'old'",
    "INSERT INTO shop.orders (branch, id, price, amount) VALUES (1, 1, 2.50, 3), (1, 2, NULL, 1)",
    "INSERT INTO shop.plain VALUES ('a', 'b'), (NULL, 'ö')",
    "INSERT INTO shop.old VALUES (9, '2026-01-31 10:00:00.125')",
)
STATEMENTS = (
    (
        "RENAME TABLE shop.orders TO shop.x, shop.old TO shop.orders, shop.x TO shop.old",
        "DROP TABLE shop.gone",
        "CREATE TABLE shop.copied LIKE shop.old",
        "INSERT INTO shop.copied (branch, id, price, amount) VALUES (7, 7, 7, 7)",
        "ALTER TABLE shop.plain COMMENT 'now with one'",
        "ALTER TABLE shop.old MODIFY amount BIGINT COMMENT 'pieces', RENAME COLUMN state TO status",
        "UPDATE shop.old SET amount = 5 WHERE id = 1",
    ),
    (
        "ALTER TABLE shop.old DROP PRIMARY KEY, ADD PRIMARY KEY (id, branch), COMMENT ''",
        "ALTER TABLE shop.plain ADD c SET('x','y') COMMENT 'flags' FIRST, DROP a",
        "INSERT INTO shop.plain VALUES ('x,y', 'c')",
        "ALTER TABLE shop.orders RENAME TO shop.events, ADD note JSON COMMENT 'free'",
        "CREATE TABLE shop.later (y YEAR, v VARBINARY(3) COMMENT 'bytes') COMMENT 'later'",
    ),
)
WHILE_AWAY = (
    "CREATE TABLE shop.while_away (id INT PRIMARY KEY COMMENT 'k') COMMENT 'w'",
    "INSERT INTO shop.while_away VALUES (1)",
    "DROP TABLE shop.later",
    "RENAME TABLE shop.copied TO shop.moved",
    "ALTER TABLE shop.moved COMMENT 'moved'",
)
_WAIT_S = 240.0
"""seconds for which the test waits: Spark starts beside the first copy"""


def declared(server: Server, schema: str) -> dict[str, dict[str, Any]]:
    """Return what information_schema and the tables have, as ``CatalogReader.declared``."""
    tables = {}
    for name, comment in server.query(
        f"SELECT table_name, table_comment FROM information_schema.tables"
        f" WHERE table_schema = '{schema}'"
    ):
        where = f"WHERE table_schema = '{schema}' AND table_name = '{name}'"
        columns = [
            {"name": column, "type": kind, "comment": text, "nullable": nullable == "YES"
             or kind.startswith(("date", "timestamp")), "generated": bool(expression)}
            for column, kind, text, nullable, expression in server.query(
                "SELECT column_name, column_type, column_comment, is_nullable,"
                f" generation_expression FROM information_schema.columns {where}"
                " ORDER BY ordinal_position"
            )
        ]  # fmt: skip
        key = server.query(
            f"SELECT column_name FROM information_schema.statistics {where}"
            " AND index_name = 'PRIMARY' ORDER BY seq_in_index"
        )
        with server.connect() as connection, connection.cursor() as cursor:
            rows = table_state(cursor, schema, name)[1]
        tables[f"{schema}.{name}"] = {
            "comment": comment, "key": [column for (column,) in key], "columns": columns,
            "rows": sorted(rows, key=str), "database": schema, "has_state": True,
        }  # fmt: skip
    return tables


def shown(reader: CatalogReader, schema: str) -> dict[str, dict[str, Any]]:
    """Return the same of the catalog's tables."""
    tables = reader.declared(schema)
    for table in tables.values():
        for column in table["columns"]:
            column["generated"] = bool(column["generated"])
    return tables


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[HiveMetastore]:
    with hive_metastore(tmp_path) as process:
        yield process


class Catalog:
    """A source's schema that ``run`` registers in the catalog of ``reader``."""

    def __init__(self, server: Server, run: Run, reader: CatalogReader, schema: str) -> None:
        self.server, self.run, self.reader, self.schema = server, run, reader, schema

    def compare(self, most_s: float = _WAIT_S) -> dict[str, dict[str, Any]]:
        """Wait until the cut has all that the source has, then until the catalog has it. Return the
        tables."""
        wanted = declared(self.server, self.schema)
        self.run.wait_for(self.server.executed)
        wait_until(lambda: not self._cut().waiting, most_s, each_s=0.2)
        names = sorted(wanted)
        wait_until(lambda: self.reader.names(self.schema) == names, most_s, each_s=0.2)
        # Tables that swapped their names get their locations one after the other.
        with suppress(AssertionError):
            wait_until(lambda: shown(self.reader, self.schema) == wanted, most_s, each_s=0.5)
        assert shown(self.reader, self.schema) == wanted
        return wanted

    def compare_views(self) -> None:
        """Wait until the views of the newest published cut have the columns and rows of the
        tables."""
        names = [name.partition(".")[2] for name in self.reader.names(self.schema)]
        views = sorted(f"{self.schema}_cut.{name}" for name in [*names, "_cuts"])
        wait_until(lambda: self.reader.names(f"{self.schema}_cut") == views, _WAIT_S, each_s=0.5)
        query = " UNION ALL ".join(self._difference(name) for name in names)
        wait_until(
            lambda: "|0 " in self.reader.sql(f"SELECT count(*) AS n FROM ({query})")[0],
            _WAIT_S, each_s=0.5,
        )  # fmt: skip

    def _difference(self, name: str) -> str:
        """Return a query for the rows that only one of the view and the table has."""
        view = f"SELECT * EXCEPT (_cut) FROM {self.schema}_cut.{name}"
        table = f"SELECT * FROM {self.schema}.{name}"
        return (
            f"SELECT 1 FROM ({view} EXCEPT ALL {table})"
            f" UNION ALL SELECT 1 FROM ({table} EXCEPT ALL {view})"
        )

    def _cut(self) -> Any:
        return Control.existing(self.run.config.target.path).last_cut()


@contextmanager
def registered(
    metastore: HiveMetastore, server: Server, folder: Path, schema: str, **more: Any
) -> Iterator[Catalog]:
    """A ``run`` whose first cut is published, and another program's session."""
    keys = {"catalog__name": "spark_catalog", "catalog__metastore": metastore.uri, **more}
    run = Run(config_for(server, folder, **keys), folder)
    with CatalogReader(metastore.uri, folder / "warehouse") as reader:
        run.wait_for_cut()
        yield Catalog(server, run, reader, schema)
        run.stop()


def test_the_catalog_equals_mysql_after_each_cut(
    metastore: HiveMetastore, make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server()
    server.query(*CREATED)
    with registered(metastore, server, tmp_path, "shop") as catalog:
        target = catalog.run.config.target.path
        catalog.compare()
        for statements in STATEMENTS:
            server.query(*statements)
            catalog.compare()
        metastore.kill()
        server.query(*WHILE_AWAY)
        catalog.run.wait_for(server.executed)
        wait_until(lambda: _says(target, "catalog could not"), _WAIT_S, each_s=0.2)
        server.query("INSERT INTO shop.while_away VALUES (2)")
        catalog.run.wait_for(server.executed)
        metastore.start()
        catalog.compare()
        wait_until(lambda: not _says(target, "catalog could not"), _WAIT_S, each_s=0.2)


def _says(target: str, text: str) -> bool:
    return any(text in note["what"] for note in status(target)["notes"])


VIEWS = {"catalog__cut_views": True, "catalog__cut_view_every_s": 1}


@pytest.mark.soak
def test_the_banks_log_in_the_catalog_equals_mysql(
    metastore: HiveMetastore, make_server: Callable[..., Server], bank: Path, tmp_path: Path
) -> None:
    """The source executes the demo's log, file by file."""
    server = make_server(*OPTIONS)
    server.query("CREATE DATABASE other", "CREATE TABLE other.t (id INT PRIMARY KEY)")
    with registered(metastore, server, tmp_path, "bank", **VIEWS) as catalog:
        for file in sorted(bank.glob("bank-bin.0*")):
            execute(server, file)
            assert len(catalog.compare()) == 4
            catalog.compare_views()


def execute(server: Server, log: Path) -> None:
    """Execute a binary log on the server, as a user does with ``mysqlbinlog | mysql``."""
    programs, account = server.mysql / "bin", ["--host=127.0.0.1", f"--port={server.port}"]
    decode = [str(programs / "mysqlbinlog"), "--no-defaults", str(log)]
    statements = subprocess.run(decode, capture_output=True, check=True).stdout
    client = [str(programs / "mysql"), "--no-defaults", *account, "--user=app", "--password=app"]
    subprocess.run(client, input=statements, capture_output=True, check=True)


class CommentedLoad(SchemaLoad):
    """Statements that also set comments, of tables and of new or changed columns."""

    def _column(self, kind: str = "") -> tuple[str, str]:
        kind, text = super()._column(kind)
        if self.random.random() < 0.4:
            text += f" COMMENT 'it''s {self._fresh('n')}, \"ü\"'"
        return kind, text

    def _keys(self) -> None:
        if self.random.random() < 0.6:
            return super()._keys()
        comment = self.random.choice(("", self._fresh("of a table, ")))
        self._ddl(f"ALTER TABLE {self._any()} COMMENT '{comment}'")
        return None


_BATCHES, _OF_A_BATCH = 20, 6


@pytest.mark.soak
def test_random_statements_leave_the_catalog_equal_to_mysql(
    metastore: HiveMetastore, make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server(*OPTIONS)
    load = CommentedLoad(server, int(os.environ.get("SPARK_REPL_SEED", "1")))
    try:
        load.run(_OF_A_BATCH)
        with registered(metastore, server, tmp_path, "d", **VIEWS) as catalog:
            catalog.compare()
            for _ in range(_BATCHES):
                load.run(_OF_A_BATCH)
                catalog.compare()
            catalog.compare_views()
    finally:
        load.close()


_AWAY_S, _BESIDE_S = 60.0, 20.0
_LATE_S = 3.0
"""seconds that a cut may take longer than the slowest one before, on a busy machine"""


@pytest.mark.soak
def test_no_group_waits_for_a_metastore_that_is_away_for_a_minute(
    metastore: HiveMetastore, make_server: Callable[..., Server], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Clients change rows all the time. Tables are created, renamed and dropped meanwhile."""
    server = make_server()
    for statements in (CREATED, *STATEMENTS):
        server.query(*statements)
    with registered(metastore, server, tmp_path, "shop") as catalog:
        target, times = catalog.run.config.target.path, list[datetime]()
        with Load(server, clients=2, pause_s=0.05):
            wait_until(lambda: catalog.reader.names("t") == ["t.a", "t.b"], _WAIT_S, each_s=0.2)
            times.append(datetime.now(UTC))
            work_for(_BESIDE_S)
            times.append(datetime.now(UTC))
            metastore.kill()
            for statement in WHILE_AWAY:
                server.query(statement)
                work_for(_AWAY_S / len(WHILE_AWAY))
            times.append(datetime.now(UTC))
            metastore.start()
            began, names = time.monotonic(), sorted(declared(server, "shop"))
            wait_until(lambda: catalog.reader.names("shop") == names, 60, each_s=0.2)
            true_after_s = time.monotonic() - began
            wait_until(lambda: not _says(target, "catalog could not"), 60, each_s=0.2)
            work_for(_BESIDE_S)
            times.append(datetime.now(UTC))
        catalog.compare()
        before, away, after = (delays_s(target, *period) for period in pairwise(times))
    with capsys.disabled():
        print(summary("before", before), summary("away", away), summary("after", after))
        print(f"true after {true_after_s:.1f} s")
    assert len(away) > _AWAY_S and max(away) < max(before) + _LATE_S


def work_for(seconds: float) -> None:
    """Let the clients work."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, 2 * seconds, each_s=0.2)


def delays_s(target: str, begin: datetime, end: datetime) -> list[float]:
    """Return the seconds from the source's commit to the cut, of the cuts that were published in
    this time."""
    return [
        cut.at.timestamp() - cut.source["commit_time"] / 1e6
        for cut in Control.existing(target).cuts()
        if cut.at is not None and begin <= cut.at < end and cut.source.get("commit_time")
    ]


def summary(period: str, delays: Sequence[float]) -> str:
    return f"{period}: {len(delays)} cuts, median {median(delays):.3f} s, max {max(delays):.3f} s;"

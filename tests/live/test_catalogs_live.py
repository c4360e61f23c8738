"""Tables of a live source in a Hive metastore: what Spark sees by name equals what MySQL has, also
after statements, and after the metastore was away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl.observe.status.status import status
from tests.support.catalog_reader import CatalogReader
from tests.support.hive_metastore import HiveMetastore, hive_metastore
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.wait_until import wait_until

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
_WAIT_S = 150.0
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
             or kind.startswith("datetime"), "generated": bool(expression)}
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
        rows = [
            [None if v is None else str(v) for v in row]
            for row in server.query(f"SELECT * FROM {schema}.{name}")
        ]
        tables[f"{schema}.{name}"] = {
            "comment": comment, "key": [column for (column,) in key], "columns": columns,
            "rows": sorted(rows, key=str),
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


def test_the_catalog_equals_mysql_after_each_cut(
    metastore: HiveMetastore, make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server()
    server.query(*CREATED)
    config = config_for(
        server, tmp_path, catalog__name="spark_catalog", catalog__metastore=metastore.uri
    )
    run = Run(config, tmp_path)
    with CatalogReader(metastore.uri, tmp_path / "warehouse") as reader:

        def compare() -> None:
            """Wait until the cut has all that the source has, then until the catalog has it."""
            run.wait_for(server.executed)
            wanted = declared(server, "shop")
            wait_until(lambda: reader.names("shop") == sorted(wanted), _WAIT_S, each_s=0.2)
            assert shown(reader, "shop") == wanted

        run.wait_for_cut()
        compare()
        for statements in STATEMENTS:
            server.query(*statements)
            compare()
        metastore.kill()
        server.query(*WHILE_AWAY)
        run.wait_for(server.executed)
        wait_until(lambda: _says(config.target.path, "catalog could not"), _WAIT_S, each_s=0.2)
        server.query("INSERT INTO shop.while_away VALUES (2)")
        run.wait_for(server.executed)
        metastore.start()
        compare()
        wait_until(lambda: not _says(config.target.path, "catalog could not"), _WAIT_S, each_s=0.2)


def _says(target: str, text: str) -> bool:
    return any(text in note["what"] for note in status(target)["notes"])

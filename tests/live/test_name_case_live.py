"""A server with lower_case_table_names = 1: its statements, its rows, and a copy's plan."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl import Config
from spark_repl.control.records.copies import last_copy
from spark_repl.control.records.name_case import NameCase
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy.copy_plan import plan_copy
from spark_repl.copy.source_tables import list_tables
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.source.connection import DumpConnection
from tests.support.live.server import Server
from tests.support.local_delta import cuts, run

KEY = "lower_case_table_names"


@pytest.fixture(scope="module")
def folding(template: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("folding") / "data"
    found = Server(template.mysql, data, 140, f"--{KEY.replace('_', '-')}=1")
    found.initialise()
    yield found.start()
    found.stop()


def rows(lake: Path, name: str) -> list[tuple[Any, ...]]:
    path = f"{lake}/{cuts(lake)[-1].tables[name].path}"
    return sorted(tuple(row.values()) for row in read(path).to_pylist())


def recorded(server: Server, log: Path) -> Path:
    log.mkdir(exist_ok=True)
    server.query("FLUSH BINARY LOGS")
    for path in sorted(server.data.glob("binlog.0*"))[:-1]:
        shutil.copy(path, log)
    return log


@pytest.mark.parametrize("source", [{}, {KEY: 1}])
def test_a_log_of_a_server_that_folds_names_is_applied_to_one_name(
    folding: Server, tmp_path: Path, source: dict[str, Any]
) -> None:
    lake = tmp_path / "lake"
    folding.query("DROP DATABASE IF EXISTS shop", "RESET BINARY LOGS AND GTIDS")
    folding.query(
        "CREATE DATABASE Shop", "CREATE TABLE Shop.Orders (id INT PRIMARY KEY, p INT)",
        "CREATE TABLE sHop.ITEMS (id INT PRIMARY KEY, p INT)",
        "INSERT INTO SHOP.orders VALUES (1, 1)", "USE Shop", "INSERT INTO items VALUES (2, 2)",
        "ALTER TABLE ORDERS ALTER COLUMN p SET DEFAULT 7", "INSERT INTO Orders (id) VALUES (3)",
    )  # fmt: skip
    run(recorded(folding, tmp_path / "log"), lake, source=source)
    assert list(cuts(lake)[-1].tables) == ["shop.items", "shop.orders"]
    assert rows(lake, "shop.orders") == [(1, 1), (3, 7)]
    assert rows(lake, "shop.items") == [(2, 2)]
    folding.query("DROP DATABASE SHOP")
    run(recorded(folding, tmp_path / "log"), lake, source=source)
    assert not cuts(lake)[-1].tables


def test_a_copy_asks_the_source(folding: Server, tmp_path: Path) -> None:
    folding.query("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
    folding.query(
        "CREATE TABLE shop.Orders (id INT PRIMARY KEY)",
        "CREATE TABLE shop.Items (id INT PRIMARY KEY, o INT,"
        " FOREIGN KEY (o) REFERENCES Orders (id) ON DELETE CASCADE)",
    )
    account = {"host": "127.0.0.1", "port": folding.port, "user": "repl", "password": "repl"}
    config = Config.from_mapping({"source": account, "target": {"path": str(tmp_path / "lake")}})
    plan_copy(config, ("Shop.ORDERS", "shop.items"))
    control = Control(Layout(config.target.path).control)
    copy = last_copy(control)
    assert copy is not None and set(copy.bounds) == {"shop.orders", "shop.items"}
    names = NameCase(control)
    names.load()
    assert names.value == 1
    connection = DumpConnection(config.source)
    found = {t.definition.name: t.definition for t in list_tables(connection.rows)}
    connection.close()
    (key,) = found["shop.items"].foreign_keys or ()
    assert (key.parent, key.on_delete) == ("shop.orders", "CASCADE")

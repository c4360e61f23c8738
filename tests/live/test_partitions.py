"""DROP, TRUNCATE and REORGANIZE PARTITION on a real server: after each of them the target's tables
have the server's rows."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.records.definitions import Definitions
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy.source_tables import list_tables
from spark_repl.gtid import GtidSet
from spark_repl.tables.source_table import SourceTable
from tests.support.live.partition_load import WAYS, PartitionLoad, Way
from tests.support.live.server import Server
from tests.support.local_delta import cuts, run

from .test_schema_changes import assert_equal


def apply_random_partitions(
    server: Server, folder: Path, seed: int, statements: int, ways: Sequence[Way], **options: Any
) -> None:
    server.query("RESET BINARY LOGS AND GTIDS", "DROP DATABASE IF EXISTS d")
    load = PartitionLoad(server, seed, ways)
    try:
        load.run(statements)
    finally:
        load.close()
    assert sum("DROP PARTITION" in statement for statement in load.said) > statements // 10
    log, target = folder / "log", folder / "lake"
    log.mkdir()
    for path in server.data.glob("binlog.0*"):
        shutil.copy(path, log)
    assert run(log, target, group_max_transactions=3, **options)
    assert assert_equal(target, load.states) > statements
    assert_same_partitions(server, target)


def assert_same_partitions(server: Server, target: Path) -> None:
    """What a copy would read of the server now is what the log's statements have led to."""
    last = cuts(target)[-1]
    kept = Definitions(Control(Layout(str(target)).control))
    kept.load()
    with server.connect() as connection, connection.cursor() as cursor:

        def query(statement: str) -> list[tuple[Any, ...]]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        copied = {table.definition.name: table.definition for table in list_tables(query)}
    compared = 0
    for name, at in last.tables.items():
        mine = kept.at(at.path, last.position, GtidSet.parse(last.gtid_executed))
        if mine is not None and (mine.partitioning or copied[name].partitioning):
            assert partitions_of(mine.source) == partitions_of(copied[name]), name
            compared += 1
    assert compared


def partitions_of(definition: SourceTable) -> tuple[Any, ...]:
    """The server lists values of LIST in an order of its own."""
    found = definition.partitioning
    assert found is not None and not found.unknown, found
    partitions = [(one.name, sorted(one.values, key=repr)) for one in found.partitions]
    return found.kind, found.columns, found.function, partitions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "options"),
    [
        pytest.param(0, {}, marks=pytest.mark.slow),
        (1, {"vectors": False}),
        (2, {"feed": True, "keys": {"zero_dates": "string"}}),
    ],
    ids=["marked", "written again", "change data feed, dates as text"],
)
def test_random_partition_statements_end_as_on_the_server(
    shared_server: Server, tmp_path: Path, seed: int, options: dict[str, Any]
) -> None:
    """Each of the ways in one of the tests."""
    ways = list(WAYS.values())[seed::3]
    apply_random_partitions(shared_server, tmp_path, seed, 40, ways, **options)


@pytest.mark.soak
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("seed", range(11, 19))
def test_many_random_partition_statements_end_as_on_the_server(
    shared_server: Server, tmp_path: Path, seed: int, vectors: bool
) -> None:
    apply_random_partitions(
        shared_server, tmp_path, seed, 400, list(WAYS.values()), vectors=vectors
    )

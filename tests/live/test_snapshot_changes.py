"""``snapshot`` while statements change tables: all is copied again, and is as the source has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_repl import cut
from spark_repl.control.records.copies import last_copy
from spark_repl.control.table.control import Control
from spark_repl.copy.copy_chunk import Copied, CopyTask
from spark_repl.copy.first_copy import FirstCopy
from spark_repl.errors import SourceError
from spark_repl.service.snapshot_run import _COPIES, snapshot
from tests.support.live.receiving import config_for
from tests.support.live.server import Server

from .test_copy import _catch_up
from .test_run import check_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What is done behind the first chunk of t.b was read, and the tables that are there then.
_CHANGES = {
    "altered": (["ALTER TABLE t.b ADD COLUMN x INT DEFAULT 7, ALGORITHM=INSTANT"], "t.a t.b"),
    "dropped": (["DROP TABLE t.b"], "t.a"),
    "renamed": (["RENAME TABLE t.b TO t.c"], "t.a t.c"),
    "swapped": (["RENAME TABLE t.a TO t.x, t.b TO t.a, t.x TO t.b"], "t.a t.b"),
    "emptied": (["TRUNCATE t.b", "INSERT INTO t.b VALUES (1, 1)"], "t.a t.b"),
    "made again": (["DROP TABLE t.b", "CREATE TABLE t.b (v TEXT, id INT PRIMARY KEY)"], "t.a t.b"),
    "created": (["CREATE TABLE t.d (id INT PRIMARY KEY)", "INSERT INTO t.d VALUES (3)"], "t.a t.d"),
}


def _filled(server: Server) -> None:
    server.query(
        "DROP DATABASE IF EXISTS t", "CREATE DATABASE t",
        "CREATE TABLE t.a (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE t.b (id INT PRIMARY KEY, n INT)",
        "INSERT INTO t.a VALUES (1, 'a'), (2, 'b')", "INSERT INTO t.b VALUES (1, 10), (2, 20)",
        "DO SLEEP(1.1)",  # create_time has seconds
    )  # fmt: skip


def _at_reads(
    monkeypatch: pytest.MonkeyPatch, server: Server, changes: list[list[str]], *, before: bool
) -> None:
    """Each time that t.b is read, one of ``changes`` is made before it or behind it."""
    true = FirstCopy._copy_chunks

    def copy_chunks(copy: FirstCopy, tasks: list[CopyTask]) -> list[Copied]:
        hit = tasks[0].definition.name == "t.b"
        if hit and before and changes:
            server.query(*changes.pop())
        done = true(copy, tasks)
        if hit and not before and changes:
            server.query(*changes.pop())
        return done

    monkeypatch.setattr(FirstCopy, "_copy_chunks", copy_chunks)


@pytest.mark.parametrize(
    ("change", "before"),
    [
        pytest.param(change, before, marks=() if before == (at % 2 == 0) else pytest.mark.soak)
        for at, change in enumerate(_CHANGES)
        for before in (True, False)
    ],
)
def test_it_ends_as_the_source_has_it(
    shared_server: Server, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    change: str, before: bool,
) -> None:  # fmt: skip
    server = shared_server
    _filled(server)
    statements, tables = _CHANGES[change]
    config = config_for(server, tmp_path)
    changes = [statements]
    _at_reads(monkeypatch, server, changes, before=before)
    assert snapshot(config).until is not None
    assert changes == []
    copy = last_copy(Control.existing(config.target.path))
    assert copy is not None and not copy.unfinished
    server.query("UPDATE t.a SET v = 'z' LIMIT 1" if change != "swapped" else "DELETE FROM t.a")
    _catch_up(spark, config, server.executed)
    check_tables(config, server, tables.split())
    assert cut(spark, config.target.path).gtid_executed == server.executed


def test_statements_without_end_are_named(
    shared_server: Server, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a copy that begins when they have ended is right."""
    server = shared_server
    _filled(server)
    config = config_for(server, tmp_path)
    changes = [[f"ALTER TABLE t.b ADD COLUMN x{i} INT"] for i in range(_COPIES)]
    _at_reads(monkeypatch, server, changes, before=False)
    with pytest.raises(SourceError, match=r"changed tables during each of 4 copies: t\.b") as error:
        snapshot(config)
    assert changes == [] and "spark-repl run" in str(error.value.hint)
    assert snapshot(config).tables == 2
    _catch_up(spark, config, server.executed)
    check_tables(config, server, ["t.a", "t.b"])

"""EXCHANGE PARTITION: the applier stops, or copies both tables, unless neither has rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import cuts, last_shown, run, stopped

A, B, C = Table("a"), Table("b"), Table("c")
BY_ID = (
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN"
    " (20), PARTITION pm VALUES LESS THAN MAXVALUE)"
)
EXCHANGE = "ALTER TABLE t.{} EXCHANGE PARTITION {} WITH TABLE t.{}"


def numbered(*ids: int) -> list[tuple[int, str]]:
    return [(id_, f"v{id_}") for id_ in ids]


def exchanged(folder: Path, clause: str = BY_ID, last: str = "") -> LogWriter:
    """Return a log that ends with an exchange of p1."""
    log = LogWriter(folder / "log")
    log.ddl(f"{A.create} {clause}")
    log.ddl(B.create)
    log.transaction(insert(A, *numbered(1, 11, 12)))
    log.transaction(insert(B, *numbered(13)))
    log.ddl(EXCHANGE.format("a", "p1", "b") + last)
    return log


@pytest.mark.parametrize(
    ("clause", "last"),
    [(BY_ID, ""), (BY_ID, " WITHOUT VALIDATION"), ("PARTITION BY HASH (id) PARTITIONS 4", "")],
)
def test_without_copies_it_stops_before_it_changes_anything(
    tmp_path: Path, clause: str, last: str
) -> None:
    log, target = exchanged(tmp_path, clause, last), tmp_path / "lake"
    error = stopped(log.folder, target)
    assert "rows are exchanged with t.b is not in the log" in error.message
    assert (error.table, error.gtid) == ("t.a", log.gtid(4))
    assert last_shown(target) == {"t.a": numbered(1, 11, 12), "t.b": numbered(13)}


def test_with_copies_both_tables_wait_and_others_go_on(tmp_path: Path) -> None:
    log, target = exchanged(tmp_path), tmp_path / "lake"
    log.ddl(C.create)
    log.transaction(insert(A, *numbered(10)), insert(B, *numbered(14)), insert(C, *numbered(1)))
    assert run(log.folder, target, copies=True)
    assert last_shown(target) == {"t.c": numbered(1)}
    waiting = cuts(target)[-1].waiting
    assert waiting.keys() == {"t.a", "t.b"}
    assert all("exchanged with t.b" in why.reason for why in waiting.values())


@pytest.mark.parametrize("copies", [True, False])
def test_tables_without_rows_need_no_copy(tmp_path: Path, copies: bool) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} {BY_ID}")
    log.ddl(B.create)
    log.transaction(insert(A, *numbered(1)))
    log.ddl("TRUNCATE TABLE t.a")
    log.ddl(EXCHANGE.format("a", "p1", "b"))
    log.transaction(insert(A, *numbered(10)), insert(B, *numbered(14)))
    for _ in range(2):
        assert run(log.folder, target, copies=copies)
        assert last_shown(target) == {"t.a": numbered(10), "t.b": numbered(14)}


@pytest.mark.parametrize("known", ["a", "b"])
def test_a_table_that_was_there_before_the_log(tmp_path: Path, known: str) -> None:
    """Its rows are not known, though the other one has none."""
    log = LogWriter(tmp_path / "log")
    log.ddl(f"{Table(known).create} {BY_ID if known == 'a' else ''}")
    log.ddl(EXCHANGE.format("a", "p1", "b"))
    assert "exchanged with t.b" in stopped(log.folder, tmp_path / "lake").message


POLICIES: dict[str, tuple[list[str], str]] = {
    "stop": (["t.b: stop"], "policy stop"),
    "the other one stays": (["t.b: ignore_drop"], "the target keeps"),
    "the partition stays": (["t.a: ignore_drop"], "the target keeps"),
}


@pytest.mark.parametrize(("policy", "said"), POLICIES.values(), ids=list(POLICIES))
def test_exchange_partition_stops_with_each_policy(
    tmp_path: Path, policy: list[str], said: str
) -> None:
    log, target = exchanged(tmp_path), tmp_path / "lake"
    error = stopped(log.folder, target, ddl={"policy": policy}, copies=True)
    assert said in error.message and error.table == policy[0].partition(":")[0]


def test_a_table_that_keeps_emptied_rows_is_not_exchanged(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} {BY_ID}")
    log.ddl(B.create)
    log.transaction(insert(B, *numbered(13)))
    log.ddl("TRUNCATE TABLE t.b")
    assert run(log.folder, target, ddl={"policy": ["t.b: ignore_drop"]})
    log.ddl(EXCHANGE.format("a", "p1", "b"))
    assert "the target keeps" in stopped(log.folder, target, copies=True).message

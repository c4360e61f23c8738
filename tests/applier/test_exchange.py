"""EXCHANGE PARTITION: both tables change in one cut, whatever a crash leaves between the two."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.property.test_change_feed import changes
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import at_cut, cuts, last_shown, put, run, stopped

A, B, BAG, MORE = Table("a"), Table("b"), Table("bag", key=()), Table("more", key=())
BY_ID = (
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN"
    " (20), PARTITION pm VALUES LESS THAN MAXVALUE)"
)
BY_LIST = "PARTITION BY LIST (id) (PARTITION p VALUES IN (NULL, 1), PARTITION q VALUES IN (2, 3))"
EXCHANGE = "ALTER TABLE t.{} EXCHANGE PARTITION {} WITH TABLE t.{}"


def numbered(*ids: int | None, letter: str = "v") -> list[tuple[int | None, str]]:
    return [(one, f"{letter}{one}") for one in ids]


@pytest.fixture
def source(tmp_path: Path) -> Twice:
    made = Twice(tmp_path)
    made.ddl("CREATE DATABASE t", f"{A.create} {BY_ID}", B.create, f"{BAG.create} {BY_LIST}")
    made.ddl(MORE.create)
    made.transaction(insert(A, *numbered(1, 9)), insert(BAG, *numbered(None, 1, 1, 2)))
    made.transaction(insert(A, *numbered(10, 15, 20)))
    made.transaction(delete(A, (15, "v15")), insert(B, *numbered(11, 12, letter="b")))
    made.ddl(f"{EXCHANGE.format('a', 'p1', 'b')} WITH VALIDATION")
    made.transaction(insert(A, (10, "again")), update(B, ((10, "v10"), (10, "w"))))
    made.ddl(EXCHANGE.format("bag", "P", "more"))
    made.transaction(insert(BAG, *numbered(1)), insert(MORE, *numbered(1)))
    made.ddl("RENAME TABLE t.b TO t.c")
    made.transaction(update(Table("c"), ((10, "w"), (30, "w"))))
    made.ddl(f"{EXCHANGE.format('a', 'pm', 'c')} WITHOUT VALIDATION")
    made.transaction(insert(Table("c"), (30, "c")), delete(A, (30, "w")))
    return made


LETTERS = numbered(11, 12, letter="b")
FIRST = {
    "t.a": [*numbered(1, 9), *LETTERS, *numbered(20)],
    "t.b": numbered(10),
    "t.bag": numbered(None, 1, 1, 2),
    "t.more": [],
}
LAST = {
    "t.a": [*numbered(1, 9), (10, "again"), *LETTERS],
    "t.c": [(20, "v20"), (30, "c")],
    "t.bag": numbered(1, 2),
    "t.more": numbered(None, 1, 1, 1),
}


@pytest.mark.parametrize(
    ("vectors", "lost"),
    [(True, False), pytest.param(False, True, marks=pytest.mark.slow)],
    ids=["marked, the same log", "written anew, another log"],
)
def test_a_crash_at_any_step(source: Twice, tmp_path: Path, vectors: bool, lost: bool) -> None:
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, vectors=vectors)
    assert FIRST in want.values()
    assert list(want.values())[-1] == LAST
    assert step > 40


def exchanged(folder: Path, clause: str = BY_ID, last: str = "") -> LogWriter:
    """A log that ends with an exchange of p1."""
    log = LogWriter(folder / "log")
    log.ddl(f"{A.create} {clause}")
    log.ddl(B.create)
    log.transaction(insert(A, *numbered(1, 11, 12)))
    log.transaction(insert(B, *numbered(13)))
    log.ddl(EXCHANGE.format("a", "p1", "b") + last)
    return log


@pytest.mark.parametrize("vectors", [True, False])
def test_the_change_data_feed_has_what_comes_and_goes(tmp_path: Path, vectors: bool) -> None:
    log, target = exchanged(tmp_path), tmp_path / "lake"
    keys = {"compact_files": 0, "column_mapping": True}
    assert run(log.folder, target, group_max_transactions=1, vectors=vectors, feed=True, keys=keys)
    (state,) = [at_cut(target, cut) for cut in cuts(target)][-1:]
    assert state == {"t.a": numbered(1, 13), "t.b": numbered(11, 12)}
    assert len(changes(target, A, 2) or []) == 3


def test_a_target_that_is_partitioned_another_way(tmp_path: Path) -> None:
    """With columns that are called otherwise in the two tables' files."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"CREATE TABLE t.a (id INT PRIMARY KEY, x INT) {BY_ID}")
    log.ddl("ALTER TABLE t.a DROP x, ADD v VARCHAR(40)")
    log.ddl(B.create)
    log.transaction(insert(A, *numbered(1, 11)), insert(B, *numbered(12, 13)))
    log.ddl(EXCHANGE.format("a", "p1", "b"))
    keys = {"column_mapping": True}
    assert run(log.folder, target, keys=keys, partition_by=["t.b(v)"])
    assert last_shown(target) == {"t.a": numbered(1, 12, 13), "t.b": numbered(11)}


UNKNOWN: dict[str, tuple[str, str, str]] = {
    "by HASH": ("PARTITION BY HASH (id) PARTITIONS 4", "", "exchanged with t.b"),
    "another partition's": (BY_ID.replace("(20)", "(13)"), " WITHOUT VALIDATION", "VALIDATION"),
    "no partition's": ("PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (13))",
                       " WITHOUT VALIDATION", "none of the partitions"),
}  # fmt: skip


@pytest.mark.parametrize(("clause", "last", "said"), UNKNOWN.values(), ids=list(UNKNOWN))
def test_rows_that_are_not_known_stop(tmp_path: Path, clause: str, last: str, said: str) -> None:
    log, target = exchanged(tmp_path, clause, last), tmp_path / "lake"
    error = stopped(log.folder, target)
    assert said in error.message and error.gtid == log.gtid(4)
    assert last_shown(target) == {"t.a": numbered(1, 11, 12), "t.b": numbered(13)}


@pytest.mark.parametrize("known", ["a", "b"])
def test_a_table_that_was_there_before_the_log(tmp_path: Path, known: str) -> None:
    """Its rows are not known, though the other one has none."""
    log = LogWriter(tmp_path / "log")
    log.ddl(f"{Table(known).create} {BY_ID if known == 'a' else ''}")
    log.ddl(EXCHANGE.format("a", "p1", "b"))
    assert "exchanged with t.b" in stopped(log.folder, tmp_path / "lake").message


def test_tables_of_other_columns(tmp_path: Path) -> None:
    """The definition of one is wrong then, as the server would have refused it."""
    log = LogWriter(tmp_path / "log")
    log.ddl(f"{A.create} {BY_ID}")
    log.ddl(B.create.replace("(40)", "(50)"))
    log.transaction(insert(A, *numbered(1)))
    log.ddl(EXCHANGE.format("a", "p1", "b"))
    assert "other columns" in stopped(log.folder, tmp_path / "lake").message


POLICIES: dict[str, tuple[list[str], str]] = {
    "stop": (["t.b: stop"], "policy stop"),
    "the other one stays": (["t.b: ignore_drop"], "the target keeps"),
    "the partition stays": (["t.a: ignore_drop"], "the target keeps"),
}


@pytest.mark.parametrize(("policy", "said"), POLICIES.values(), ids=list(POLICIES))
def test_policies(tmp_path: Path, policy: list[str], said: str) -> None:
    log, target = exchanged(tmp_path), tmp_path / "lake"
    error = stopped(log.folder, target, ddl={"policy": policy})
    assert said in error.message and error.table == policy[0].partition(":")[0]


def test_a_table_that_keeps_emptied_rows_is_not_exchanged(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} {BY_ID}")
    log.ddl(B.create)
    log.transaction(insert(B, *numbered(13)))
    log.ddl("TRUNCATE TABLE t.b")
    assert run(log.folder, target, ddl={"policy": ["t.b: ignore_drop"]})
    log.ddl(EXCHANGE.format("a", "p1", "b"))
    assert "the target keeps" in stopped(log.folder, target).message


def test_a_table_whose_log_has_another_commit_there(tmp_path: Path) -> None:
    """One that was copied behind the statement: no version of it has the rows before."""
    log, target = exchanged(tmp_path), tmp_path
    for step in range(1, 1000):
        target = tmp_path / f"lake{step}"
        assert not run(log.folder, target, crash=step)
        if [len(commits(target, name)) for name in "ab"] == [3, 2]:
            break
    said = commits(target, "a")[-1]
    said.write_text(said.read_text().replace(r"\"group\": \"", r"\"group\": \"0"))
    assert "is not in the table's log" in stopped(log.folder, target).message
    assert last_shown(target)["t.b"] == numbered(13)


def test_rows_that_others_have_brought_go_along(tmp_path: Path) -> None:
    """So the table that gets them has keys which no log holds: an INSERT of one is found out, also
    behind a start."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    keys = {"on_foreign_change": "accept", "compact_files": 0}
    log.ddl(f"{A.create} {BY_ID}")
    log.ddl(B.create)
    log.transaction(insert(A, *numbered(1)), insert(B, *numbered(13)))
    assert run(log.folder, target, keys=keys)
    there = next((target / "t/b").glob("*.parquet"))
    rows = pa.table({"id": [15], "v": ["others"]}, pq.read_schema(there))
    pq.write_table(rows, there.with_name("others.parquet"))
    size = there.with_name("others.parquet").stat().st_size
    fields = {"partitionValues": {}, "modificationTime": 1, "dataChange": True}
    add = {"path": "others.parquet", "size": size, "stats": '{"numRecords": 1}', **fields}
    put(str(target / "t/b"), 2, [{"add": add}], operation="WRITE")
    log.ddl(EXCHANGE.format("a", "p1", "b"))
    assert run(log.folder, target, keys=keys)
    assert last_shown(target)["t.a"] == [*numbered(1, 13), (15, "others")]
    log.transaction(insert(A, (15, "again")))
    assert stopped(log.folder, target, keys=keys).number == 1062


def commits(target: Path, name: str) -> list[Path]:
    return sorted((target / "t" / name / "_delta_log").glob("*.json"))

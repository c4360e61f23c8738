"""DROP and TRUNCATE PARTITION in their place in the order: whatever a crash leaves, every cut shows
what it shows behind a run that nothing has cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_repl.control.table.layout import Layout
from spark_repl.errors import StatementError
from spark_repl.tables.target_table import TargetTable
from tests.property.test_change_feed import changes
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import last_shown, run, stopped

A, BAG = Table("a"), Table("bag", key=())
BY_ID = (
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN"
    " (20), PARTITION p2 VALUES LESS THAN (30), PARTITION pm VALUES LESS THAN MAXVALUE)"
)


def numbered(*ids: int | None) -> list[tuple[int | None, str]]:
    return [(one, f"v{one}") for one in ids]


@pytest.fixture
def source(tmp_path: Path) -> Twice:
    made = Twice(tmp_path)
    made.ddl("CREATE DATABASE t")
    made.ddl(f"{A.create} {BY_ID}")
    made.ddl(f"{BAG.create} /*!50100 {BY_ID} */")
    made.transaction(insert(A, *numbered(1, 2, 9)), insert(BAG, *numbered(None, 9, 9, 10, 35)))
    made.transaction(insert(A, *numbered(10, 19, 20, 29, 30)))
    made.ddl("ALTER TABLE t.a DROP PARTITION p1")
    made.transaction(insert(A, *numbered(11, 31)), delete(A, (20, "v20")))
    made.ddl("ALTER TABLE t.bag TRUNCATE PARTITION p0, p2")
    made.ddl("ALTER TABLE t.a REORGANIZE PARTITION pm INTO (PARTITION p3 VALUES LESS THAN (31),"
             " PARTITION pm VALUES LESS THAN MAXVALUE)")  # fmt: skip
    made.transaction(insert(BAG, *numbered(9)), update(A, ((2, "v2"), (2, "w"))))
    made.ddl("ALTER TABLE t.a DROP PARTITION p2, p3")
    made.ddl("RENAME TABLE t.a TO t.c")
    made.transaction(insert(Table("c"), *numbered(20, 30)))
    made.ddl("ALTER TABLE t.bag TRUNCATE PARTITION ALL")
    return made


WANT = [
    {"t.a": numbered(1, 2, 9, 20, 29, 30), "t.bag": numbered(None, 9, 9, 10, 35)},
    {"t.a": numbered(1, 2, 9, 11, 29, 30, 31), "t.bag": numbered(None, 9, 9, 10, 35)},
    {"t.a": numbered(1, 2, 9, 11, 29, 30, 31), "t.bag": numbered(10, 35)},
]
LAST = {"t.bag": [], "t.c": sorted([*numbered(1, 9, 20, 30, 31), (2, "w")])}


@pytest.mark.parametrize(
    ("vectors", "lost"),
    [(True, False), pytest.param(False, True, marks=pytest.mark.slow)],
    ids=["marked, the same log", "written again, another log"],
)
def test_a_crash_at_any_step_leaves_partitions_equal(
    source: Twice, tmp_path: Path, vectors: bool, lost: bool
) -> None:
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, vectors=vectors)
    assert list(want.values())[5:8] == WANT
    assert list(want.values())[-1] == LAST
    assert step > 40


def test_statistics_say_which_files_are_opened(tmp_path: Path) -> None:
    """A file with none of the rows, and one with no others, is not read."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} {BY_ID}")
    for ids in ((1, 9), (10, 12, 19), (20, 25)):
        log.transaction(insert(A, *((one, "x") for one in ids)))
    keys = {"compact_files": 0}
    assert run(log.folder, target, group_max_transactions=1, keys=keys)
    for file in (unread := list((target / "t/a").glob("*.parquet"))):
        file.rename(file.with_suffix(".hidden"))
    both = range(5, 16)
    log.transaction(insert(A, *((100 + one, "x") for one in both)))
    log.ddl("ALTER TABLE t.a REORGANIZE PARTITION pm INTO (PARTITION p3 VALUES LESS THAN (110),"
            " PARTITION pm VALUES LESS THAN MAXVALUE)")  # fmt: skip
    log.ddl("ALTER TABLE t.a DROP PARTITION p1, p3")
    assert run(log.folder, target, group_max_transactions=1, keys=keys)
    for file in unread:
        file.with_suffix(".hidden").rename(file)
    left = [1, 9, 20, 25, *(100 + one for one in both if one >= 10)]
    assert last_shown(target)["t.a"] == [(one, "x") for one in left]


@pytest.mark.parametrize("vectors", [True, False])
def test_the_change_data_feed_has_the_rows_that_go(tmp_path: Path, vectors: bool) -> None:
    """Also those of a file that has no others, and not those that were gone before."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} {BY_ID}")
    log.transaction(insert(A, *numbered(*range(5, 15))))
    log.transaction(insert(A, *numbered(16, 17)), delete(A, (13, "v13")))
    log.ddl("ALTER TABLE t.a DROP PARTITION p1")
    keys = {"compact_files": 0}
    assert run(log.folder, target, group_max_transactions=1, vectors=vectors, feed=True, keys=keys)
    assert last_shown(target)["t.a"] == numbered(*range(5, 10))
    found = changes(target, A, 3) or []
    gone = [10, 11, 12, 14, 16, 17]
    assert sorted((row["_change_type"], row["id"]) for row in found) == [
        ("delete", one) for one in gone
    ]


def test_mysqls_partitions_go_in_a_table_partitioned_otherwise(tmp_path: Path) -> None:
    """target.partition_by, column mapping and files that are older than a column."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    wide = Table("a", (("id", "int"), ("v", "varchar(40)"), ("n", "int")))
    log.ddl(A.create)
    log.transaction(insert(A, *numbered(1, 2)))
    log.ddl("ALTER TABLE t.a ADD COLUMN n INT")
    log.transaction(insert(wide, (3, "v1", 7), (4, "v1", 8)))
    log.ddl("ALTER TABLE t.a PARTITION BY LIST (n) (PARTITION p VALUES IN (NULL, 7), PARTITION q"
            " VALUES IN (8, 9))")  # fmt: skip
    log.ddl("ALTER TABLE t.a DROP PARTITION p")
    log.transaction(insert(wide, (1, "again", 9)))
    keys = {"column_mapping": True}
    assert run(log.folder, target, group_max_transactions=1, keys=keys, partition_by=["t.a(v)"])
    assert last_shown(target)["t.a"] == [(1, "again", 9), (4, "v1", 8)]


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("", "partitions are not known"),
        ("PARTITION BY KEY (id)", "by KEY"),
        ("PARTITION BY RANGE (id DIV 2) (PARTITION p1 VALUES LESS THAN (7))", "id DIV 2"),
        ("PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (1), PARTITION p2 VALUES LESS"
         " THAN (2))", "none of the partitions"),
    ],
)  # fmt: skip
def test_rows_that_are_not_known_stop(tmp_path: Path, clause: str, said: str) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} {clause}")
    log.transaction(insert(A, *numbered(1, 5)))
    log.ddl("ALTER TABLE t.a DROP PARTITION p1")
    error = stopped(log.folder, target)
    assert isinstance(error, StatementError) and said in error.message
    assert (error.gtid, error.table) == (log.gtid(2), "t.a")
    assert last_shown(target)["t.a"] == numbered(1, 5)


@pytest.mark.parametrize(("zone", "left"), [("UTC", 0), ("Europe/Berlin", 1), ("", 1)])
def test_moments_of_bounds_are_of_the_session_s_time_zone(
    tmp_path: Path, zone: str, left: int
) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    moment = "TIMESTAMP NOT NULL DEFAULT '2024-06-01 12:00:00'"
    log.ddl(f"ALTER TABLE t.a ADD m {moment}", status=b"\x05\x06+00:00")
    log.ddl(
        "ALTER TABLE t.a PARTITION BY RANGE (UNIX_TIMESTAMP(m)) (PARTITION p VALUES LESS THAN"
        " (UNIX_TIMESTAMP('2024-06-01 13:00:00')), PARTITION q VALUES LESS THAN MAXVALUE)",
        status=b"\x05\x06SYSTEM",
    )
    log.ddl("ALTER TABLE t.a DROP PARTITION p")
    if zone:
        assert run(log.folder, target, source={"system_time_zone": zone})
    else:
        assert "source.system_time_zone" in stopped(log.folder, target).message
    assert len(last_shown(target)["t.a"]) == left


def test_a_table_that_was_made_before_partitions_were_read(tmp_path: Path) -> None:
    """Its definition says nothing of them."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE DATABASE t CHARACTER SET utf8mb4")  # so that rows say nothing new
    log.ddl(f"{A.create} {BY_ID}")
    log.transaction(insert(A, *numbered(1, 15)))
    assert run(log.folder, target)
    first = Path(Layout(str(target)).table("t/a")) / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            properties = line["metaData"]["configuration"]
            kept = json.loads(properties["spark_repl.definition"])
            assert TargetTable.from_json(json.dumps(kept)).partitioning
            del kept["partitioning"]
            properties["spark_repl.definition"] = json.dumps(kept)
    first.write_text("\n".join(map(json.dumps, lines)))
    log.ddl("ALTER TABLE t.a DROP PARTITION p1")
    assert "partitions are not known" in stopped(log.folder, target).message
    assert last_shown(target)["t.a"] == numbered(1, 15)


def test_a_value_that_no_partition_has_is_named_where_it_comes(
    log: LogWriter, target: Path
) -> None:
    """Not where the row of its key came, which fits: that is in the tables."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "x")))
    log.transaction(update(A, ((1, "x"), (1, ""))))
    error = stopped(log.folder, target, partition_by=["t.a(v)"])
    assert (error.number, error.gtid) == (1526, log.gtid(5))
    assert last_shown(target)["t.a"] == [(1, "x"), (2, "x")]

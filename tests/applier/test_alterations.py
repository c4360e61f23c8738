"""ALTER TABLE in its place in the order: whatever a crash leaves, every cut shows what it shows
behind a run that nothing has cut off."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from spark_repl.control.records.definitions import Definitions
from spark_repl.control.records.system_time_zone import record_time_zone
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import StatementError
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import SOURCE, LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import last_shown, run, stopped

A, B = Table("a"), Table("b")
WIDER = Table("a", (("n", "int"), ("id", "int"), ("w", "varchar(40)")), (1,))
FILLED = Table("a", (("n", "double"), ("id", "int"), ("f", "int")), (1,), not_null=(2,))
KEYED = Table("c", (("n", "double"), ("id", "int"), ("f", "int")), (2, 1))


@pytest.fixture
def source(tmp_path: Path) -> Twice:
    made = Twice(tmp_path)
    for statement in ("CREATE DATABASE t", A.create, B.create):
        made.ddl(statement)
    made.transaction(insert(A, (1, "x"), (2, "y")), insert(B, (1, "b")))
    made.ddl("ALTER TABLE t.a ADD COLUMN n INT FIRST, RENAME COLUMN v TO w")
    made.transaction(update(WIDER, ((None, 1, "x"), (5, 1, "xx"))), insert(WIDER, (6, 3, "z")))
    made.ddl("ALTER TABLE t.a MODIFY n DOUBLE, DROP COLUMN w, ADD f INT NOT NULL DEFAULT 7")
    made.transaction(insert(FILLED, (0.5, 4, 8)), delete(FILLED, (None, 2, 7)))
    made.ddl("ALTER TABLE t.a DROP PRIMARY KEY, ADD PRIMARY KEY (f, id), RENAME TO t.c")
    made.transaction(update(KEYED, ((0.5, 4, 8), (0.5, 4, 9))), insert(B, (2, "b")))
    made.ddl("ALTER TABLE t.b ALTER COLUMN v SET DEFAULT 'd', ADD UNIQUE (v)")
    made.transaction(insert(B, (3, "c")))
    return made


@pytest.mark.parametrize(
    ("mapping", "lost"),
    [(True, False), pytest.param(False, True, marks=pytest.mark.slow)],
    ids=["mapped, the same log", "by name, another log"],
)
def test_a_crash_at_any_step_leaves_altered_tables_equal(
    source: Twice, tmp_path: Path, mapping: bool, lost: bool
) -> None:
    keys = {"column_mapping": mapping}
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, keys=keys)
    assert list(want.values())[-1] == {
        "t.b": [(1, "b"), (2, "b"), (3, "c")],
        "t.c": [(0.5, 4, 9), (5.0, 1, 7), (6.0, 3, 7)],
    }
    assert step > 40


def test_definitions_are_kept_with_their_places(source: Twice, tmp_path: Path) -> None:
    run(source.logs[0].folder, tmp_path / "lake")
    control = Control(Layout(str(tmp_path / "lake")).control)
    kept = Definitions(control)
    kept.load()
    executed = [GtidSet.parse(f"{SOURCE}:1-{number}") for number in range(15)]
    found = [kept.at("t/a", 0, one) for one in executed]
    names = [one and [column.name for column in one.columns] for one in found]
    assert names[:9] == [None] * 5 + [["n", "id", "w"]] * 2 + [["n", "id", "f"]] * 2
    assert [one and one.primary_key for one in found[7:]] == [(1,)] * 2 + [(2, 1)] * 6
    said = "no growth but by statements, and each table's first row"
    assert len(control.rows("definition")) == 4 + 2, said


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ADD COLUMN x INT AUTO_INCREMENT UNIQUE", "column x gives"),
        ("ADD COLUMN x INT DEFAULT (RAND())", "x"),
        ("ADD COLUMN x INT AS (ASCII(v)) STORED", "generated column x: ASCII()"),
        ("DROP PARTITION p1", "rows of a partition"),
        ("ADD COLUMN x TIMESTAMP NOT NULL", "what TIMESTAMP of column x means"),
    ],
)
def test_what_the_log_does_not_say_is_refused(tmp_path: Path, statement: str, said: str) -> None:
    """Before anything of it is done; in an empty table nothing is unknown."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl(B.create)
    log.transaction(insert(A, (1, "x")))
    log.ddl(f"ALTER TABLE t.b {statement}")
    log.ddl(f"ALTER TABLE t.a {statement}")
    error = stopped(log.folder, target)
    assert isinstance(error, StatementError) and said in error.message
    assert (error.gtid, error.table, bool(error.hint)) == (log.gtid(4), "t.a", True)
    assert last_shown(target)["t.a"] == [(1, "x")]


@pytest.mark.parametrize("statement", ["IMPORT TABLESPACE", "IMPORT PARTITION p1 TABLESPACE"])
def test_rows_that_come_from_a_file_are_unknown_in_an_empty_table_too(
    tmp_path: Path, statement: str
) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl(f"ALTER TABLE t.a {statement.replace('IMPORT', 'DISCARD')}")
    log.ddl(f"ALTER TABLE t.a {statement}")
    error = stopped(log.folder, target)
    assert (error.gtid, error.table) == (log.gtid(2), "t.a")
    assert "come from a file" in error.message


def test_a_zero_date_in_a_new_column_is_kept_as_asked(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    log.ddl("ALTER TABLE t.a ADD COLUMN d DATETIME NOT NULL")
    assert run(log.folder, target, keys={"zero_dates": "null"})
    assert last_shown(target)["t.a"] == [(1, "x", None)]
    assert run(log.folder, tmp_path / "text", keys={"zero_dates": "string"})
    assert last_shown(tmp_path / "text")["t.a"] == [(1, "x", "0000-00-00 00:00:00")]
    error = stopped(log.folder, tmp_path / "error")
    assert isinstance(error, StatementError) and "0000-00-00" in error.message


def test_a_null_in_a_marked_row_is_gone_where_none_may_be(tmp_path: Path) -> None:
    """Readers look at a file's values before they leave out the rows that are marked."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    real = Table("a", (("id", "int"), ("d", "double")))
    log.ddl(real.create)
    log.transaction(insert(real, (1, None), (2, 0.5), (3, 1.5)))
    log.transaction(delete(real, (1, None)))
    strict = b"\x01" + (1 << 22).to_bytes(8, "little")  # sql_mode: there is no NULL left
    log.ddl("ALTER TABLE t.a MODIFY d DOUBLE NOT NULL", status=strict)
    assert run(log.folder, target, group_max_transactions=1, keys={"compact_files": 0})
    assert last_shown(target)["t.a"] == [(2, 0.5), (3, 1.5)]


def test_the_key_that_the_log_names_is_taken(tmp_path: Path) -> None:
    """A table that rows have made: which of its indexes are unique is not known."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    bag, keyed = Table("bag", key=(), not_null=(0,)), Table("bag", key=(0,))
    log.transaction(insert(bag, (1, "x"), (2, "y")))
    log.ddl("CREATE UNIQUE INDEX u ON t.bag (id)")
    log.transaction(update(keyed, ((1, "other"), (1, "z"))))
    log.transaction(delete(keyed, (2, "other")))
    assert run(log.folder, target, group_max_transactions=1)
    assert last_shown(target)["t.bag"] == [(1, "z")]


@pytest.fixture
def zoned(tmp_path: Path) -> LogWriter:
    """TIMESTAMP becomes DATETIME, by a session whose time zone is SYSTEM."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    moment = "TIMESTAMP NOT NULL DEFAULT '2024-06-01 12:00:00'"
    log.ddl(f"ALTER TABLE t.a ADD m {moment}", status=b"\x05\x06+00:00")
    log.ddl("ALTER TABLE t.a MODIFY m DATETIME", status=b"\x05\x06SYSTEM")
    return log


@pytest.mark.parametrize(
    ("zone", "hour"), [("Europe/Berlin", 14), ("-03:00", 9), ("UTC", 12), ("asked", 12)]
)
def test_system_is_the_time_zone_that_the_source_has(
    zoned: LogWriter, tmp_path: Path, zone: str, hour: int
) -> None:
    target = tmp_path / "lake"
    assert "SYSTEM" in stopped(zoned.folder, target).message
    told = {} if zone == "asked" else {"system_time_zone": zone}
    if zone == "asked":
        control = Control(Layout(str(target)).control)
        control.claim()
        record_time_zone(control, "UTC")
        control.release()
    assert run(zoned.folder, target, source=told)
    assert last_shown(target)["t.a"] == [(1, "x", datetime(2024, 6, 1, hour))]


@pytest.mark.parametrize("asked", ["CEST", "SYSTEM", ""])
def test_an_abbreviation_is_no_time_zone(zoned: LogWriter, tmp_path: Path, asked: str) -> None:
    target = tmp_path / "lake"
    control = Control(Layout(str(target)).control)
    control.claim()
    record_time_zone(control, "UTC")
    record_time_zone(control, asked)  # of another source, that was asked later
    control.release()
    assert "SYSTEM" in stopped(zoned.folder, target).message


@pytest.mark.parametrize(
    ("alter", "refused"),
    [
        ("MODIFY v VARBINARY(40)", True),
        ("RENAME COLUMN v TO w, ADD n INT NOT NULL DEFAULT 5", True),
        ("DROP COLUMN v, ADD n INT NOT NULL DEFAULT 5", True),
        ("DROP COLUMN v, RENAME COLUMN id TO i", False),
        ("ADD n INT NOT NULL DEFAULT 5", False),
        ("MODIFY v VARCHAR(40) NOT NULL DEFAULT '' FIRST", False),
    ],
)
@pytest.mark.parametrize("mapping", [True, False])
def test_with_a_change_data_feed_alters_are_applied_or_refused(
    tmp_path: Path, alter: str, refused: bool, mapping: bool
) -> None:
    """Delta does not take new rows in the commit that lets a mapped column go: spark/ shows it."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(f"{A.create} CHARSET utf8mb4")
    log.transaction(insert(A, (1, "x"), (2, None)))
    log.ddl(f"ALTER TABLE t.a {alter}")
    if not (mapping and refused):
        run(log.folder, target, feed=True, keys={"column_mapping": mapping})
        return
    error = stopped(log.folder, target, feed=True, keys={"column_mapping": mapping})
    assert isinstance(error, StatementError) and error.table == "t.a"
    assert "change data feed" in error.message
    assert "snapshot --config F --table" in str(error.hint)
    assert last_shown(target)["t.a"] == [(1, "x"), (2, None)]

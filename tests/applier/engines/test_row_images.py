"""Row images without all columns and JSON diffs, end to end into the tables, for both writers."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import DecodeError
from tests.spark.lab import assert_rows, run, stopped
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

FOLDER = Path(__file__).parents[1] / "fixtures" / "row_images"
ABC = Table("abc", (("id", "int"), ("a", "int"), ("b", "varchar(20)"), ("c", "int")))
BAG = Table("bag", (("a", "int"), ("b", "varchar(20)")), key=())


@pytest.mark.parametrize("bound", [100, pytest.param(1, marks=pytest.mark.soak)])
def test_columns_come_from_where_they_are(engine, log, target, bound):
    # Scenario 158: MINIMAL images, their columns from the row that is there.
    log.ddl(ABC.create)
    log.transaction(insert(ABC, (1, 1, "x", 1), (2, 2, "y", 2), (3, 3, "z", 3)))
    run(engine, log.folder, target)
    log.transaction(update(ABC, ({0: 1}, {1: 10})))  # two updates of a row: column by column
    log.transaction(update(ABC, ({0: 1}, {3: 30})))
    log.transaction(update(ABC, ({0: 2}, {0: 20, 1: 200})))  # a new key takes the old row over
    log.transaction(update(ABC, ({0: 20}, {0: 21})))
    log.transaction(update(ABC, ({0: 21}, {3: None})))
    log.transaction(insert(ABC, (2, 5, "new", 5)))  # the key it left
    log.transaction(delete(ABC, {0: 3}))
    log.transaction(insert(ABC, {0: 3, 1: 33}))  # the others have their defaults
    log.transaction(insert(ABC, (4, 4, "gone", 4)), delete(ABC, {0: 4}))
    run(engine, log.folder, target, group_max_transactions=bound)
    want = [(1, 10, "x", 30), (21, 200, "y", None), (2, 5, "new", 5), (3, 33, None, None)]
    assert_rows(engine, target, ABC, want)


def test_keys_that_change_places(engine, log, target):
    log.ddl(ABC.create)
    log.transaction(insert(ABC, (1, 1, "x", 1), (2, 2, "y", 2)))
    run(engine, log.folder, target)
    swap = [({0: 1}, {0: 9}), ({0: 2}, {0: 1}), ({0: 9}, {0: 2})]
    log.transaction(*[update(ABC, pair) for pair in swap])
    run(engine, log.folder, target)
    assert_rows(engine, target, ABC, [(2, 1, "x", 1), (1, 2, "y", 2)])


def test_bag_rows_are_made_whole(engine, log, target):
    # Scenario 158: NOBLOB and MINIMAL images of a table without key.
    log.ddl(BAG.create)
    log.transaction(insert(BAG, (1, "x"), (1, "x"), (2, "y")), insert(BAG, {0: 2}))
    log.transaction(update(BAG, ({0: 1, 1: "x"}, {1: "z"})))
    log.transaction(update(BAG, ({0: 2, 1: None}, {0: 3})), delete(BAG, (2, "y")))
    run(engine, log.folder, target)
    assert_rows(engine, target, BAG, [(1, "x"), (1, "z"), (3, None)])


def test_a_partial_update_of_a_missing_row_stops_with_1032(engine, log, target):
    log.ddl(ABC.create)
    log.transaction(insert(ABC, (1, 1, "x", 1)))
    log.transaction(update(ABC, ({0: 7}, {1: 1})))
    error = stopped(engine, log.folder, target)
    assert (error.number, error.gtid) == (1032, log.gtid(len(log.spans) - 1))
    run(engine, log.folder, target, exec_mode="idempotent")
    assert_rows(engine, target, ABC, [(1, 1, "x", 1)])


def test_idempotent_ignores_a_missing_row_that_would_move(engine, log, target):
    log.ddl(ABC.create)
    log.transaction(insert(ABC, (1, 1, "x", 1)))
    log.transaction(update(ABC, ({0: 7}, {0: 8, 1: 1})), update(ABC, ({0: 1}, {3: 5})))
    run(engine, log.folder, target, exec_mode="idempotent")
    assert_rows(engine, target, ABC, [(1, 1, "x", 5)])


def test_a_new_default_holds_from_its_statement_on(engine, log, target):
    log.ddl(ABC.create)
    log.transaction(insert(ABC, {0: 1, 1: 1}))
    log.ddl("ALTER TABLE t.abc ALTER COLUMN B SET DEFAULT 'new', ALTER c SET DEFAULT 5")
    log.transaction(insert(ABC, {0: 2, 1: 2}))
    run(engine, log.folder, target)
    log.transaction(insert(ABC, {0: 3, 1: 3}))  # after a restart, too
    run(engine, log.folder, target)
    assert_rows(engine, target, ABC, [(1, 1, None, None), (2, 2, "new", 5), (3, 3, "new", 5)])
    log.ddl("ALTER TABLE t.abc ALTER c DROP DEFAULT")
    log.transaction(insert(ABC, {0: 4, 1: 4, 2: "x"}))
    run(engine, log.folder, target)
    rows = [(1, 1, None, None), (2, 2, "new", 5), (3, 3, "new", 5), (4, 4, "x", None)]
    assert_rows(engine, target, ABC, rows)


def test_what_no_image_holds_is_no_guess(engine, target, tmp_path):
    log = LogWriter(tmp_path / "log")  # without CREATE TABLE: the defaults are not known
    log.transaction(insert(ABC, {0: 1, 1: 1}))
    error = stopped(engine, log.folder, target)
    assert isinstance(error, DecodeError)
    assert error.gtid == log.gtid(0)
    assert "column b, whose default is not known" in str(error)
    assert "binlog_row_image=FULL" in str(error.hint)


def test_a_bag_needs_whole_before_images(engine, log, target):
    log.ddl(BAG.create)
    log.transaction(insert(BAG, (1, "x")))
    log.transaction(delete(BAG, {0: 1}))
    error = stopped(engine, log.folder, target)
    assert isinstance(error, DecodeError)
    assert error.gtid == log.gtid(len(log.spans) - 1)

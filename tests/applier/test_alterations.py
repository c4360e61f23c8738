"""ALTER TABLE in its place in the order: whatever a crash leaves, every cut shows what it shows
behind a run that nothing has cut off."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.control import Control
from spark_repl.control.definitions import Definitions
from spark_repl.control.layout import Layout
from spark_repl.errors import StatementError
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import SOURCE, LogWriter, Table, delete, insert, update
from tests.support.local_delta import at_cut, cuts, run, stopped

A, B = Table("a"), Table("b")
STRIDE = int(os.environ.get("SPARK_REPL_STRIDE", "4"))
"""of the steps that are tried; 1 takes minutes"""
WIDER = Table("a", (("n", "int"), ("id", "int"), ("w", "varchar(40)")), (1,))
FILLED = Table("a", (("n", "double"), ("id", "int"), ("f", "int")), (1,))
KEYED = Table("c", (("n", "double"), ("id", "int"), ("f", "int")), (2, 1))


class Twice:
    """Two logs of one source: the second as a relay log has it that was fetched again."""

    def __init__(self, folder: Path) -> None:
        self.logs = LogWriter(folder / "log"), LogWriter(folder / "again", created=1_800_000_000)

    def ddl(self, statement: str) -> None:
        for number, log in enumerate(self.logs):
            log.ddl(f"{'/* again */ ' * number}{statement}")

    def transaction(self, *changes: Any) -> None:
        for log in self.logs:
            log.transaction(*changes)


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


def shown(target: Path) -> dict[str, Any]:
    return {cut.gtid_executed: at_cut(target, cut) for cut in cuts(target)}


@pytest.mark.parametrize(
    ("mapping", "lost"),
    [(True, False), (False, True)],
    ids=["mapped, the same log", "by name, another log"],
)
def test_a_crash_at_any_step(source: Twice, tmp_path: Path, mapping: bool, lost: bool) -> None:
    log, keys = source.logs[0].folder, {"column_mapping": mapping}
    reference, then = tmp_path / "reference", source.logs[lost].folder
    assert run(log, reference, group_max_transactions=1, keys=keys)
    want = shown(reference)
    assert list(want.values())[-1] == {
        "t.b": [(1, "b"), (2, "b"), (3, "c")],
        "t.c": [(0.5, 4, 9), (5.0, 1, 7), (6.0, 3, 7)],
    }
    for step in range(1, 1000, STRIDE):
        target = tmp_path / f"lake{step}"
        if run(log, target, crash=step, keys=keys):
            break
        run(then, target, crash=step % 5 + 1, group_max_transactions=1, keys=keys)
        assert run(then, target, keys=keys)
        assert shown(target).items() <= want.items()
        assert list(shown(target).values())[-1] == list(want.values())[-1]
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
    assert len(control.rows("definition")) == 4, "no growth but by statements"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ADD COLUMN x INT AUTO_INCREMENT UNIQUE", "column x gives"),
        ("ADD COLUMN x INT DEFAULT (RAND())", "x"),
        ("ADD COLUMN x INT AS (id + 1) STORED", "generated column x"),
        ("DROP PARTITION p1", "rows of a partition"),
        ("ADD COLUMN x TIMESTAMP NOT NULL", "0000-00-00"),
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
    assert at_cut(target, cuts(target)[-1])["t.a"] == [(1, "x")]


def test_a_zero_date_in_a_new_column_is_kept_as_asked(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    log.ddl("ALTER TABLE t.a ADD COLUMN d DATETIME NOT NULL")
    assert run(log.folder, target, keys={"zero_dates": "null"})
    assert at_cut(target, cuts(target)[-1])["t.a"] == [(1, "x", None)]


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
    assert at_cut(target, cuts(target)[-1])["t.a"] == [(2, 0.5), (3, 1.5)]


def test_the_key_that_the_log_names_is_taken(tmp_path: Path) -> None:
    """A table that rows have made: which of its indexes are unique is not known."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    bag, keyed = Table("bag", key=()), Table("bag", key=(0,))
    log.transaction(insert(bag, (1, "x"), (2, "y")))
    log.ddl("CREATE UNIQUE INDEX u ON t.bag (id)")
    log.transaction(update(keyed, ((1, "other"), (1, "z"))))
    log.transaction(delete(keyed, (2, "other")))
    assert run(log.folder, target, group_max_transactions=1)
    assert at_cut(target, cuts(target)[-1])["t.bag"] == [(1, "z")]

"""Foreign keys whose cascades the source does not log: refused before any table goes wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from spark_repl.errors import DecodeError, SparkReplError
from tests.support import binlog_writer, local_delta
from tests.support.binlog_writer import Change, LogWriter, Row, Table, delete, insert, update
from tests.support.local_delta import cuts, rows

REFUSE = {"cascades": "refuse"}
run = partial(local_delta.run, ddl=REFUSE)
stopped = partial(local_delta.stopped, ddl=REFUSE)
REFERRED, NO_CHECKS, LOGGED = 2, 2, 16
COLUMNS = (("id", "int"), ("k", "int"), ("v", "varchar(40)"))
PARENT = Table("parent", COLUMNS, map_flags=REFERRED)
CHILD = Table("child", (("id", "int"), ("p", "int")))
DATABASE = "CREATE DATABASE t"


def child(key: str) -> str:
    return f"CREATE TABLE t.child (id int PRIMARY KEY, p int, {key})"


def key(actions: str, column: str = "id") -> str:
    return f"CONSTRAINT f FOREIGN KEY (p) REFERENCES parent ({column}) {actions}"


class Case:
    """A log with a parent and a child, and the target it is applied to."""

    def __init__(self, tmp_path: Path) -> None:
        self.log, self.target = LogWriter(tmp_path / "log"), tmp_path / "lake"

    def made(self, *statements: str) -> Case:
        for statement in (DATABASE, PARENT.create, *statements):
            self.log.ddl(statement)
        self.log.transaction(insert(PARENT, (1, 10, "x"), (2, 20, "y")))
        self.log.transaction(insert(CHILD, (10, 1), (11, 1), (12, 2)))
        return self

    def refused(self, change: Change, **apply: object) -> DecodeError:
        before = self.log.gno - 1
        self.log.transaction(change)
        error = stopped(self.log.folder, self.target, **apply)
        assert isinstance(error, DecodeError) and error.table == "t.parent", error
        assert error.gtid == self.log.gtid(before) and error.position and error.hint
        assert "innodb_native_foreign_keys=OFF" in error.hint
        # What stands before it has landed, of it nothing.
        assert cuts(self.target)[-1].gtid_executed == f"{self.log.source}:1-{before}"
        assert len(rows(self.target, CHILD)) == 3
        return error

    def passes(self, change: Change, **apply: object) -> None:
        self.log.transaction(change)
        assert run(self.log.folder, self.target, **apply)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_a_cascade_without_commit_order_is_refused(case: Case) -> None:
    """The state of the other tables at the change's place is unknown there."""
    case.made(child(key("ON DELETE CASCADE")))
    error = case.refused(
        delete(PARENT, (1, 10, "x")), preserve_commit_order=False, ddl={"cascades": "emulate"}
    )
    assert error.hint and "apply.preserve_commit_order = true" in error.hint


@pytest.mark.parametrize("apply", [{}, {"preserve_commit_order": False}, {"workers": 1}])
@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_a_delete_that_cascades_is_refused(case: Case, action: str, apply: dict) -> None:
    case.made(child(key(f"ON DELETE {action}")))
    error = case.refused(delete(PARENT, (1, 10, "x")), **apply)
    assert f"t.child with this change, by the foreign key f (ON DELETE {action})" in error.message


def test_one_in_a_branch_that_is_committed_by_hand_is_refused(case: Case) -> None:
    """Found: what is known of foreign keys did not come with a group that is in no log."""
    xid = (b"one", b"", 1)
    case.made(child(key("ON DELETE CASCADE")))
    case.log.xa_prepare(xid, delete(PARENT, (1, 10, "x")))
    assert run(case.log.folder, case.target)
    command = ["xa", "commit", "--xid", b"one".hex(), "--target", str(case.target)]
    assert main(command) == 0
    error = stopped(case.log.folder, case.target)
    assert isinstance(error, DecodeError) and error.table == "t.parent", error
    assert len(rows(case.target, PARENT)) == 2 and len(rows(case.target, CHILD)) == 3


def moved(before: Row, after: Row) -> Change:
    return update(PARENT, (before, after))


REFUSED_UPDATES = [
    ("id", moved((1, 10, "x"), (5, 10, "x"))),
    ("k", moved((1, 10, "x"), (1, 11, "x"))),
    ("k", moved((1, 10, "x"), (1, None, "x"))),
    ("v", moved((1, 10, "x"), (1, 10, "X"))),
    ("v", moved((1, 10, ""), (1, 10, None))),
    ("k", moved({0: 1}, {1: 11})),  # MINIMAL: what it was before nobody says
    ("id", moved({0: 1}, {0: 5})),
    ("id, k", moved((1, 10, "x"), (1, 11, "x"))),
    ("nowhere", moved((1, 10, "x"), (1, 10, "y"))),
]


@pytest.mark.parametrize(("column", "change"), REFUSED_UPDATES)
def test_an_update_of_referenced_columns_is_refused(
    case: Case, column: str, change: Change
) -> None:
    case.made(child(key("ON UPDATE CASCADE", column)))
    assert "ON UPDATE CASCADE" in case.refused(change).message


HARMLESS = [
    ("ON UPDATE CASCADE", moved((1, 10, "x"), (1, 11, "z"))),
    ("ON UPDATE CASCADE", moved({0: 1}, {2: "z"})),
    ("ON UPDATE CASCADE", delete(PARENT, (1, 10, "x"))),
    ("ON DELETE CASCADE", moved((1, 10, "x"), (5, 10, "x"))),
    ("ON DELETE CASCADE ON UPDATE CASCADE", insert(PARENT, (3, 30, "z"))),
    ("ON DELETE RESTRICT ON UPDATE NO ACTION", delete(PARENT, (1, 10, "x"))),
    ("", moved((1, 10, "x"), (5, 10, "x"))),
]


@pytest.mark.parametrize(("actions", "change"), HARMLESS)
def test_changes_that_do_not_cascade_are_applied(case: Case, actions: str, change: Change) -> None:
    case.made(child(key(actions))).passes(change)


@pytest.mark.parametrize("flags", [NO_CHECKS, LOGGED, LOGGED | NO_CHECKS])
def test_what_is_logged_or_not_done_goes_on(case: Case, flags: int) -> None:
    case.made(child(key("ON DELETE CASCADE")))
    case.passes(delete(replace(PARENT, row_flags=flags), (1, 10, "x")))
    assert rows(case.target, PARENT) == [(2, 20, "y")]


def test_the_keys_survive_a_restart_and_alterations(case: Case) -> None:
    case.made(child(key("ON DELETE CASCADE")))
    run(case.log.folder, case.target)
    case.log.ddl("ALTER TABLE t.child DROP FOREIGN KEY f")
    case.passes(delete(PARENT, (1, 10, "x")))
    case.log.ddl(
        "ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES t.parent (id) ON DELETE SET NULL"
    )
    run(case.log.folder, case.target)
    error = case.refused(delete(PARENT, (2, 20, "y")))
    assert "child_ibfk_1" in error.message
    # The statement that is applied behind the stop comes too late for this change.
    case.log.ddl("ALTER TABLE t.child DROP CONSTRAINT child_ibfk_1")
    assert stopped(case.log.folder, case.target).gtid == error.gtid


@pytest.mark.parametrize("crash", [2, 3, 4, 5])
def test_an_alteration_is_taken_in_once(case: Case, crash: int) -> None:
    """Cut off behind the control table's row it is read again: the key would have two names."""
    case.made(child(key("")))
    run(case.log.folder, case.target)
    case.log.ddl("ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES parent (k) ON DELETE CASCADE")
    assert not run(case.log.folder, case.target, crash=crash) or crash > 4
    case.log.ddl("ALTER TABLE child DROP FOREIGN KEY child_ibfk_1")
    case.passes(delete(PARENT, (1, 10, "x")))


def test_an_index_that_is_called_as_the_key_may_go(case: Case) -> None:
    case.made(child(key("ON DELETE CASCADE")))
    case.log.ddl("ALTER TABLE t.child DROP INDEX f, ADD INDEX g (p)")
    case.refused(delete(PARENT, (1, 10, "x")))


@pytest.mark.parametrize("version", ["8.4.6", "9.0.0"])
def test_a_foreign_key_in_a_columns_definition_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(binlog_writer, "SERVER", version)
    case = Case(tmp_path)
    text = "CREATE TABLE t.child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE)"
    case.made(text)
    if version < "9":
        case.passes(delete(PARENT, (1, 10, "x")))
    else:
        case.refused(delete(PARENT, (1, 10, "x")))


def test_an_engine_without_foreign_keys_does_not_cascade(case: Case) -> None:
    case.made(child(key("ON DELETE CASCADE")) + " ENGINE = MyISAM")
    case.passes(delete(PARENT, (1, 10, "x")))


def test_a_cascade_in_a_table_that_references_itself_is_refused(tmp_path: Path) -> None:
    log, itself = LogWriter(tmp_path / "log"), replace(CHILD, name="self", map_flags=REFERRED)
    log.ddl(
        "CREATE TABLE t.self (id int PRIMARY KEY, p int,"
        " FOREIGN KEY (p) REFERENCES self (id) ON DELETE CASCADE)"
    )
    log.transaction(insert(itself, (1, None), (2, 1)))
    log.transaction(delete(itself, (1, None)))
    error = stopped(log.folder, tmp_path / "lake")
    assert error.table == "t.self" and "rows of t.self" in error.message
    log = LogWriter(tmp_path / "other")
    log.ddl(itself.create)
    log.ddl("ALTER TABLE self ADD FOREIGN KEY (p) REFERENCES self (id) ON DELETE CASCADE")
    log.transaction(insert(itself, (1, None), (2, 1)))
    log.transaction(delete(replace(itself, row_flags=LOGGED), (2, 1), (1, None)))
    assert run(log.folder, tmp_path / "other_lake") and not rows(tmp_path / "other_lake", itself)


def test_only_the_first_of_several_cascades_is_refused(case: Case) -> None:
    """The first of them is refused, the last one not needlessly."""
    middle = replace(CHILD, name="middle", map_flags=REFERRED)
    case.log.ddl(
        "CREATE TABLE t.middle (id int PRIMARY KEY, p int,"
        " FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)"
    )
    case.made(
        "CREATE TABLE t.child (id int PRIMARY KEY, p int,"
        " FOREIGN KEY (p) REFERENCES middle (id) ON DELETE CASCADE)"
    )
    case.passes(delete(CHILD, (11, 1)))
    case.log.transaction(insert(middle, (1, 1)))
    case.log.transaction(insert(CHILD, (11, 1)))
    assert "t.middle" in case.refused(delete(PARENT, (1, 10, "x"))).message


# Where no statement has told a table's foreign keys.


@pytest.mark.parametrize("apply", [{}, {"group_max_transactions": 1}])
@pytest.mark.parametrize(
    "change", [delete(PARENT, (1, 10, "x")), moved((1, 10, "x"), (1, 10, "z"))]
)
def test_a_log_from_mid_history_goes_by_the_flag(case: Case, change: Change, apply: dict) -> None:
    case.log.transaction(insert(PARENT, (1, 10, "x"), (2, 20, "y")))
    case.log.transaction(insert(CHILD, (10, 1), (11, 1), (12, 2)))
    error = case.refused(change, **apply)
    assert "does not tell the foreign keys of t.child, t.parent" in error.message
    assert error.hint and "ddl.without_cascades" in error.hint


def test_a_log_from_mid_history_goes_on_where_nothing_is_referenced(case: Case) -> None:
    plain = replace(PARENT, map_flags=0)
    case.log.transaction(insert(plain, (1, 10, "x")), insert(CHILD, (10, 1)))
    case.passes(delete(plain, (1, 10, "x")))


def test_a_cascade_into_a_child_from_before_the_log_is_refused(case: Case) -> None:
    """The parent is known, the child only by its rows, which come later than the group's begin."""
    case.log.ddl(PARENT.create)
    case.log.transaction(insert(PARENT, (1, 10, "x"), (2, 20, "y")))
    case.log.transaction(insert(CHILD, (10, 1), (11, 1), (12, 2)))
    case.refused(delete(PARENT, (1, 10, "x")))


def test_without_cascades_declares_a_table_harmless(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.log.transaction(insert(PARENT, (1, 10, "x"), (2, 20, "y")))
    case.log.transaction(insert(CHILD, (10, 1), (11, 1), (12, 2)))
    case.refused(delete(PARENT, (1, 10, "x")))
    ddl = {"without_cascades": ["t.parent"], **REFUSE}
    assert run(case.log.folder, case.target, ddl=ddl)
    assert rows(case.target, PARENT) == [(2, 20, "y")]


def test_a_child_whose_definition_is_not_understood(case: Case) -> None:
    """It is made from its TABLE_MAP, and its foreign keys are known all the same."""
    case.made(child(key("ON DELETE CASCADE")).replace("p int", "p odd"))
    assert "foreign key f" in case.refused(delete(PARENT, (1, 10, "x"))).message


def test_a_child_whose_definition_is_not_understood_and_harmless(case: Case) -> None:
    case.made(child(key("")).replace("p int", "p odd"))
    case.passes(delete(PARENT, (1, 10, "x")))


@pytest.mark.parametrize("statement", ["DROP TABLE nothing, `o`.`odd`", "DROP DATABASE o"])
def test_a_child_that_is_gone_again(case: Case, statement: str) -> None:
    odd = child(key("ON DELETE CASCADE").replace("parent", "t.parent"))
    odd = odd.replace("p int", "p odd").replace("t.child", "o.odd")
    case.made(child(key("")), odd, statement).passes(delete(PARENT, (1, 10, "x")))


def test_cascades_in_compressed_and_xa_transactions_are_refused(case: Case) -> None:
    case.made(child(key("ON DELETE CASCADE")))
    xid = (b"x", b"", 1)
    case.log.xa_prepare(xid, delete(PARENT, (1, 10, "x")))
    assert run(case.log.folder, case.target)  # nothing is done yet
    case.log.xa_end("COMMIT", xid)
    error: SparkReplError = stopped(case.log.folder, case.target)
    assert error.table == "t.parent" and len(rows(case.target, PARENT)) == 2
    other = Case(case.target.parent / "packed").made(child(key("ON DELETE CASCADE")))
    other.log.transaction(delete(PARENT, (1, 10, "x")), compressed=True)
    assert "foreign key f" in stopped(other.log.folder, other.target).message

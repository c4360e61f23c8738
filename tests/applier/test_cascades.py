"""Changes that foreign keys carry on, which the source's log does not hold: emulated in their
place, whatever the groups, cut off anywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_repl.errors import DecodeError, RowError
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.cut_off import STRIDE
from tests.support.local_delta import at_cut, cuts, rows, run, stopped

PARENT = Table("parent", (("id", "int"), ("k", "int"), ("v", "varchar(40)")), map_flags=2)
CHILD = Table("child", (("id", "int"), ("p", "int")), map_flags=2)
LEAF = Table("leaf", (("id", "int"), ("p", "int")))
TREE = Table("tree", (("id", "int"), ("p", "int")), map_flags=2)
NAMED = Table("named", (("id", "int"), ("n", "varchar(40)")))
TABLES = (PARENT, CHILD, LEAF, TREE)
LAST = [[(3, 30, "z")], [(13, None)], [(103, None)], [(1, None), (2, 1), (3, 2)]]
"""What ``go_on`` leaves of them."""
CASCADE = "ON DELETE CASCADE"


def made(table: Table, *keys: str) -> str:
    return table.create.removesuffix(")") + "".join(f", {key}" for key in keys) + ")"


def key(columns: str, parent: str, actions: str) -> str:
    return f"FOREIGN KEY ({columns}) REFERENCES {parent} {actions}"


def make(log: LogWriter, *statements: str) -> None:
    for statement in ("CREATE DATABASE t", *statements):
        log.ddl(statement)


class History(LogWriter):
    """Three levels and a tree: ON DELETE CASCADE, or what ``actions`` says. ``again``: at other
    places, as in a relay log that was fetched again."""

    def __init__(
        self,
        folder: Path,
        actions: str = "ON DELETE CASCADE",
        on: str = "id",
        *,
        again: bool = False,
    ) -> None:
        super().__init__(folder, **({"server_id": 2, "created": 1_700_009_999} if again else {}))
        if again:
            self.rotate()
        self.ddl("CREATE DATABASE t")
        self.ddl(PARENT.create)
        self.ddl(made(CHILD, key("p", f"parent ({on})", actions)))
        self.ddl(made(LEAF, key("p", "child (id)", "ON DELETE CASCADE ON UPDATE CASCADE")))
        self.ddl(made(TREE, key("p", "tree (id)", "ON DELETE CASCADE")))
        self.transaction(insert(PARENT, (1, 10, "x"), (2, 20, "y"), (3, 30, "z")))
        self.transaction(insert(CHILD, (10, 1), (11, 1), (12, 2), (13, None)))
        self.transaction(insert(LEAF, (100, 10), (101, 11), (102, 12), (103, None)))
        self.transaction(insert(TREE, (1, None), (2, 1), (3, 2), (4, 3), (5, None), (6, 5)))


def ends(history: LogWriter, target: Path, **apply: object) -> list[list[tuple[object, ...]]]:
    assert run(history.folder, target, **apply)
    return [rows(target, table) for table in TABLES]


GROUPS = [{}, {"group_max_transactions": 1}, {"group_max_transactions": 3, "workers": 1}]


@pytest.mark.parametrize("apply", GROUPS)
def test_cascades_follow_several_levels_and_a_tree(tmp_path: Path, apply: dict) -> None:
    log = History(tmp_path / "log")
    log.transaction(delete(PARENT, (1, 10, "x")))
    log.transaction(delete(TREE, (1, None)))
    parents, children, leaves, tree = ends(log, tmp_path / "lake", **apply)
    assert [row[0] for row in parents] == [2, 3]
    assert children == [(12, 2), (13, None)] and leaves == [(102, 12), (103, None)]
    assert tree == [(5, None), (6, 5)]


@pytest.mark.parametrize("apply", GROUPS)
def test_cascades_take_only_rows_that_come_before(tmp_path: Path, apply: dict) -> None:
    """A child that was inserted before the delete is deleted, a later one stays, also within one
    transaction."""
    log = History(tmp_path / "log")
    log.transaction(insert(CHILD, (14, 1)), insert(LEAF, (104, 14)))
    log.transaction(delete(PARENT, (1, 10, "x")))
    log.transaction(insert(PARENT, (1, 10, "x")), insert(CHILD, (10, 1), (15, 1)))
    log.transaction(
        insert(PARENT, (4, 40, "w")), insert(CHILD, (16, 4)), delete(PARENT, (4, 40, "w")),
        insert(PARENT, (4, 40, "v")), insert(CHILD, (16, 4), (17, 4)), insert(LEAF, (105, 17)),
    )  # fmt: skip
    log.transaction(update(CHILD, ((12, 2), (12, 3))), delete(PARENT, (2, 20, "y")))
    _, children, leaves, _ = ends(log, tmp_path / "lake", **apply)
    assert children == [(10, 1), (12, 3), (13, None), (15, 1), (16, 4), (17, 4)]
    assert leaves == [(102, 12), (103, None), (105, 17)]


@pytest.mark.parametrize("apply", GROUPS)
def test_set_null_and_new_values_reach_the_children(tmp_path: Path, apply: dict) -> None:
    log = History(tmp_path / "log", "ON DELETE SET NULL ON UPDATE CASCADE")
    log.transaction(update(PARENT, ((1, 10, "x"), (7, 10, "x"))))
    log.transaction(update(PARENT, ((7, 10, "x"), (8, 10, "x")), ((3, 30, "z"), (3, 31, "z"))))
    log.transaction(delete(PARENT, (2, 20, "y")))
    _, children, leaves, _ = ends(log, tmp_path / "lake", **apply)
    assert children == [(10, 8), (11, 8), (12, None), (13, None)] and len(leaves) == 4


@pytest.mark.parametrize("vectors", [True, False])
def test_a_unique_key_is_referenced(tmp_path: Path, vectors: bool) -> None:
    """Of a row whose key stays the log has one entry with both images."""
    log = History(tmp_path / "log", "ON UPDATE CASCADE ON DELETE CASCADE", "k")
    log.transaction(update(CHILD, ((10, 1), (10, 10)), ((11, 1), (11, 20)), ((12, 2), (12, 30))))
    log.transaction(update(PARENT, ((1, 10, "x"), (1, 11, "x")), ((2, 20, "y"), (2, None, "y"))))
    log.transaction(delete(PARENT, (3, 30, "z")))
    _, children, leaves, _ = ends(log, tmp_path / "lake", vectors=vectors)
    assert children == [(10, 11), (11, None), (13, None)] and len(leaves) == 3


def test_a_key_that_is_moved_moves_its_own_children(tmp_path: Path) -> None:
    """The referencing column is the child's key, which others reference."""
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE t")
    log.ddl(PARENT.create)
    log.ddl(made(CHILD, key("id", "parent (id)", "ON UPDATE CASCADE ON DELETE CASCADE")))
    log.ddl(made(LEAF, key("p", "child (id)", "ON UPDATE CASCADE ON DELETE SET NULL")))
    log.transaction(insert(PARENT, (1, 1, "x"), (2, 2, "y")), insert(CHILD, (1, 0), (2, 0)))
    log.transaction(insert(LEAF, (10, 1), (11, 2), (12, 2)))
    log.transaction(update(PARENT, ((1, 1, "x"), (5, 1, "x"))), insert(LEAF, (13, 5)))
    log.transaction(update(PARENT, ((5, 1, "x"), (6, 1, "x"))))
    log.transaction(delete(PARENT, (2, 2, "y")))
    assert run(log.folder, tmp_path / "lake", group_max_transactions=2)
    assert rows(tmp_path / "lake", CHILD) == [(6, 0)]
    assert rows(tmp_path / "lake", LEAF) == [(10, 6), (11, None), (12, None), (13, 6)]


def test_cascades_find_their_rows_though_hashes_collide(tmp_path: Path) -> None:
    """So many of two columns' keys that hashes of some meet: each goes, or moves, by its own."""
    ints = [(name, "int") for name in "abcd"]
    parent = Table("parent", tuple(ints[:2]), (0, 1), map_flags=2)
    child = Table("child", tuple(ints), (0, 1))
    actions = "ON DELETE CASCADE ON UPDATE CASCADE"
    log = LogWriter(tmp_path / "log")
    make(log, parent.create, made(child, key("c, d", "parent (a, b)", actions)))
    parents = [(i % 8, i // 8) for i in range(800)]
    children = [(i % 8, i // 8, *parents[i]) for i in range(800)]
    log.transaction(*(insert(parent, row) for row in parents))
    log.transaction(*(insert(child, row) for row in children))
    gone, moved = parents[::3], {row: (row[0] + 50, row[1]) for row in parents[1::3]}
    there = [row for row in children if row[2:] not in gone]
    log.transaction(*(delete(parent, row) for row in gone))
    log.transaction(*(update(child, (row, (row[0], row[1] + 200, *row[2:]))) for row in there[::2]))
    log.transaction(*(update(parent, pair) for pair in moved.items()))
    assert run(log.folder, tmp_path / "lake")
    want = [(a, b + 200 * (n % 2 == 0), c, d) for n, (a, b, c, d) in enumerate(there)]
    want = sorted((a, b, *moved.get((c, d), (c, d))) for a, b, c, d in want)
    assert rows(tmp_path / "lake", child) == want


def test_cascades_reach_a_table_without_key(tmp_path: Path) -> None:
    bag = replace(CHILD, key=())
    log = LogWriter(tmp_path / "log")
    make(log, PARENT.create, made(bag, key("p", "parent (id)", f"{CASCADE} ON UPDATE SET NULL")))
    log.transaction(insert(PARENT, (1, 1, "x"), (2, 2, "y")))
    log.transaction(insert(bag, (1, 1), (1, 1), (1, 2), (1, 2), (3, None)))
    log.transaction(delete(bag, (1, 1)))
    log.transaction(delete(PARENT, (1, 1, "x")))
    log.transaction(update(PARENT, ((2, 2, "y"), (4, 2, "y"))))
    assert run(log.folder, tmp_path / "lake", group_max_transactions=1)
    assert rows(tmp_path / "lake", bag) == [(1, None), (1, None), (3, None)]


def test_cascades_follow_tables_that_reference_each_other(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    other = replace(CHILD, name="other")
    make(log, CHILD.create, made(other, key("p", "child (id)", CASCADE)))
    log.ddl(f"ALTER TABLE t.child ADD {key('p', 'other (id)', CASCADE)}")
    free = replace(CHILD, row_flags=2), replace(other, row_flags=2)  # foreign_key_checks=0
    log.transaction(
        insert(free[0], (1, 1), (2, 2), (3, 9)), insert(free[1], (1, 2), (2, 1), (9, 3))
    )
    log.transaction(delete(CHILD, (1, 1)))
    log.transaction(delete(free[0], (3, 9)))
    assert run(log.folder, tmp_path / "lake")
    assert rows(tmp_path / "lake", CHILD) == [] and rows(tmp_path / "lake", other) == [(9, 3)]


def test_cascades_compare_texts_by_their_collation(tmp_path: Path) -> None:
    """Of a group's changes, and of the target: case is one, spaces are not."""
    parent = Table("words", (("n", "varchar(40)"),), map_flags=2)
    log = LogWriter(tmp_path / "log")
    make(log, parent.create, made(NAMED, key("n", "words (n)", f"{CASCADE} ON UPDATE CASCADE")))
    log.transaction(insert(parent, ("A",), ("b",), ("b ",)))
    log.transaction(insert(NAMED, (1, "a"), (2, "B"), (3, "b "), (4, None)))
    log.transaction(delete(parent, ("b",)))
    log.transaction(insert(NAMED, (5, "a")), update(parent, (("A",), ("AA",))))
    target = tmp_path / "lake"
    assert run(log.folder, target, group_max_transactions=1)
    assert rows(target, NAMED) == [(1, "AA"), (3, "b "), (4, None), (5, "AA")]
    log.transaction(insert(parent, ("é",)), insert(NAMED, (6, "é")))
    log.transaction(delete(parent, ("AA",)))
    error = stopped(log.folder, target)
    assert isinstance(error, DecodeError) and error.table == "t.named" and error.gtid
    assert "utf8mb4_0900_ai_ci compares 'é' is not known" in error.message


def go_on(log: History) -> History:
    log.transaction(insert(CHILD, (14, 1)), insert(LEAF, (104, 14)))
    log.transaction(delete(PARENT, (1, 10, "x")), delete(TREE, (2, 1)))
    log.transaction(insert(PARENT, (1, 11, "x")), insert(CHILD, (10, 1)), insert(LEAF, (100, 10)))
    log.transaction(delete(CHILD, (12, 2)), insert(CHILD, (15, 2)), insert(LEAF, (105, 15)))
    log.transaction(delete(PARENT, (2, 20, "y")), delete(TREE, (5, None)))
    log.transaction(insert(TREE, (2, 1)), insert(TREE, (3, 2)), delete(PARENT, (1, 11, "x")))
    return log


def check(log: LogWriter, target: Path, reference: Path) -> None:
    """Every cut shows what one has that stands at the same place in groups of one transaction."""
    wanted = {cut.gtid_executed: at_cut(reference, cut) for cut in cuts(reference)}
    shown = cuts(target)
    assert shown[-1].gtid_executed == f"{log.source}:1-{log.gno - 1}"
    for cut in shown:
        assert at_cut(target, cut) == wanted[cut.gtid_executed], cut.gtid_executed


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[LogWriter, Path]:
    folder = tmp_path_factory.mktemp("reference")
    log = go_on(History(folder / "log"))
    assert run(log.folder, folder / "lake", group_max_transactions=1)
    assert [rows(folder / "lake", table) for table in TABLES] == LAST
    return log, folder / "lake"


@pytest.fixture
def begun(tmp_path: Path) -> tuple[History, Path]:
    """Applied up to the first cascade, which the log has already."""
    log, target = History(tmp_path / "log"), tmp_path / "lake"
    assert run(log.folder, target)
    return go_on(log), target


@pytest.mark.parametrize("then", [1, 2, 100])
@pytest.mark.parametrize("crash", range(1, 15, STRIDE))
def test_emulated_cascades_are_whole_after_a_crash_at_any_step(
    begun, reference, crash: int, then: int
) -> None:
    """Tables are apart then, and the next groups have other bounds: what was carried on is found by
    the tables that the last cut shows."""
    log, target = begun
    run(log.folder, target, crash=crash)
    run(log.folder, target, crash=crash // 2, group_max_transactions=then)
    assert run(log.folder, target, group_max_transactions=then)
    check(log, target, reference[1])


@pytest.mark.parametrize("tables", [("ild",), ("eaf", "ree"), ("ent",)])
def test_a_cascade_is_whole_after_an_attempt_that_failed(begun, reference, faults, tables) -> None:
    log, target = begun
    tried = faults(tables, 2)
    assert run(log.folder, target)
    assert set(tables) <= set(tried)
    check(log, target, reference[1])


@pytest.mark.parametrize("commits", range(6))
def test_the_log_is_lost_when_tables_are_apart(begun, tmp_path: Path, killed, commits: int) -> None:
    """A new log has the same transactions at other places. GTIDs show which of them the tables
    have."""
    log, target = begun
    done = iter(range(1000))
    killed(
        log, target, lambda name: name == "after_put" and next(done) == commits,
        group_max_transactions=4,
    )  # fmt: skip
    again = go_on(History(tmp_path / "other", again=True))
    assert run(again.folder, target, group_max_transactions=2)
    assert [rows(target, table) for table in TABLES] == LAST


def refused(log: LogWriter, target: Path, change: Change, **apply: object) -> DecodeError:
    log.transaction(change)
    error = stopped(log.folder, target, **apply)
    assert isinstance(error, DecodeError), error
    assert error.gtid == log.gtid(log.gno - 2) and error.position and error.hint
    return error


REFUSALS = [
    ("g int AS (p + 1) VIRTUAL", "ON DELETE SET NULL", {}, "generated column g"),
    ("", "ON DELETE SET DEFAULT", {}, "SET DEFAULT"),
    ("", "ON DELETE CASCADE", {"exec_mode": "idempotent"}, "idempotently"),
]


@pytest.mark.parametrize(("column", "actions", "apply", "why"), REFUSALS)
def test_cascades_that_can_not_be_followed_stop(
    tmp_path: Path, column: str, actions: str, apply: dict, why: str
) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    parts = [column] if column else []
    make(log, PARENT.create, made(CHILD, *parts, key("p", "parent (id)", actions)))
    log.transaction(insert(PARENT, (1, 10, "x")))
    assert why in refused(log, target, delete(PARENT, (1, 10, "x")), **apply).message
    assert rows(target, PARENT) == [(1, 10, "x")]


KEPT = [
    ("ALTER TABLE t.child DROP COLUMN v", "additive_only", "not the same rows and columns"),
    ("TRUNCATE TABLE t.child", "ignore_drop", "keeps rows that the source has removed"),
]


@pytest.mark.parametrize(("statement", "policy", "why"), KEPT)
def test_a_table_that_keeps_more_than_the_source_is_not_followed(
    tmp_path: Path, statement: str, policy: str, why: str
) -> None:
    """Which rows go there the source does not say."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    child = replace(CHILD, columns=(*CHILD.columns, ("v", "int")))
    make(log, PARENT.create, made(child, key("p", "parent (id)", CASCADE)))
    log.transaction(insert(PARENT, (1, 10, "x")), insert(child, (10, 1, 7)))
    log.ddl(statement)
    error = refused(
        log, target, delete(PARENT, (1, 10, "x")), ddl={"policy": [f"t.child: {policy}"]}
    )
    assert why in error.message and error.table == "t.child"
    assert rows(target, PARENT) == [(1, 10, "x")] and len(rows(target, child)) == 1


def test_more_keys_than_there_is_room_for_at_first(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    others = [replace(CHILD, name=f"child{number}") for number in range(4)]
    make(
        log,
        PARENT.create,
        *(made(other, key("p", "parent (id)", CASCADE)) for other in others),
    )
    parents = [(number, number, "x") for number in range(1200)]
    log.transaction(*(insert(PARENT, row) for row in parents))
    log.transaction(*(insert(other, (1, 3), (2, None)) for other in others))
    log.transaction(*(delete(PARENT, row) for row in parents[1:]))
    assert run(log.folder, tmp_path / "lake", group_max_transactions=1)
    assert [rows(tmp_path / "lake", other) for other in others] == [[(2, None)]] * 4


def test_cascades_refuse_images_without_all_columns(tmp_path: Path) -> None:
    log = History(tmp_path / "log")
    error = refused(log, tmp_path / "lake", delete(PARENT, {0: 1}))
    assert error.table == "t.parent" and "lacks columns" in error.message
    assert error.hint == "set binlog_row_image=FULL on the source"


def test_rows_that_are_not_the_sources(tmp_path: Path) -> None:
    """The log says of a row what no cascade has made of it: never passed over in silence."""
    log = History(tmp_path / "log", "ON DELETE SET NULL")
    log.transaction(delete(PARENT, (1, 10, "x")))
    assert "not those of the log" in refused(log, tmp_path / "lake", delete(CHILD, (10, 1))).message
    log = History(tmp_path / "other")
    log.transaction(delete(PARENT, (1, 10, "x")))
    log.transaction(update(CHILD, ((10, None), (10, 3))))
    error = stopped(log.folder, tmp_path / "other_lake")
    assert isinstance(error, RowError) and error.number == 1032 and error.table == "t.child"

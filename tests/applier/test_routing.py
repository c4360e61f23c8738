"""``to`` of ``[[tables]]``: tables under other databases and names, for rows and statements,
whatever a crash leaves; no two tables of the source share one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.errors import SchemaError, SettingError, SparkReplError, StatementError
from spark_repl.observe.metrics import metrics
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import cuts, last_shown, run, stopped

A, B = Table("a"), Table("b")
OTHER = Table("o", database="lake")
A_IS_O = {"match": "t.a", "to": "lake.o"}
ALL = {"match": "t.%", "to": "lake.%"}
BOTH: dict[str, Any] = {"tables": [A_IS_O, ALL]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    made.transaction(insert(A, (1, "x")))
    return made


def test_rows_and_statements_go_to_the_routed_table(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    log.ddl(B.create)
    log.transaction(insert(B, (7, "b")))
    log.ddl("ALTER TABLE a ADD w INT DEFAULT 7")
    wide = Table("a", (*A.columns, ("w", "int")))
    log.transaction(update(wide, ((1, "x", 7), (1, "y", 8))))
    log.ddl("CREATE TABLE t.c LIKE t.a", "u")
    log.ddl("CREATE TABLE u.a (id INT PRIMARY KEY)", "u")
    log.ddl("TRUNCATE TABLE b")
    assert run(log.folder, target, **BOTH)
    want = {"lake.o": [(1, "y", 8)], "lake.b": [], "lake.c": [], "u.a": []}
    assert last_shown(target) == want
    shown = status(str(target))
    assert shown["tables"].keys() == want.keys() and not shown["replication_applier_filters"]
    assert 'table="lake.o"' in metrics(shown) and "t.a" not in metrics(shown)
    assert (target / "lake" / "o" / "_delta_log").is_dir()


def test_renames_follow_the_routes(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    log.ddl("RENAME TABLE t.a TO t.c")  # from one rule's name to another's
    log.transaction(insert(Table("c"), (2, "c")))
    log.ddl("ALTER TABLE t.c RENAME TO u.d")  # out of all rules
    log.transaction(insert(Table("d", database="u"), (3, "d")))
    log.ddl(A.create)
    log.ddl("RENAME TABLE u.d TO t.b, t.a TO u.d, t.b TO t.a")
    log.transaction(insert(A, (4, "a")), insert(Table("d", database="u"), (9, "d")))
    assert run(log.folder, target, group_max_transactions=1, **BOTH)
    assert {name for cut in cuts(target) for name in cut.tables} == {"lake.o", "lake.c", "u.d"}
    assert last_shown(target) == {
        "lake.o": [(1, "x"), (2, "c"), (3, "d"), (4, "a")],
        "u.d": [(9, "d")],
    }
    assert run(log.folder, target, **BOTH)
    log.transaction(update(A, ((1, "x"), (1, "behind a start"))))
    assert run(log.folder, target, **BOTH)
    assert last_shown(target)["lake.o"][0] == (1, "behind a start")


def test_a_crash_at_any_step_leaves_routed_tables_equal(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", A.create, B.create)
    source.transaction(insert(A, (1, "x"), (2, "x")), insert(B, (1, "x")))
    source.ddl("ALTER TABLE t.b ADD w INT")
    source.transaction(delete(A, (1, "x")))
    source.ddl("RENAME TABLE t.a TO t.c", "DROP TABLE t.b")
    want, step = cut_off_anywhere(source, tmp_path, lost=False, **BOTH)
    assert step > 10 and list(want.values())[-1] == {"lake.c": [(2, "x")]}


def test_a_table_from_its_first_table_map(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(A, (1, "x")), insert(B, (2, "y")))
    assert run(log.folder, tmp_path / "lake", **BOTH)
    assert last_shown(tmp_path / "lake") == {"lake.o": [(1, "x")], "lake.b": [(2, "y")]}


def test_a_route_matches_the_name_after_rewrite_db(log: LogWriter, tmp_path: Path) -> None:
    given = {"filters": {"rewrite_db": ["t->v"]}, "tables": [{"match": "v.%", "to": "lake.v_%"}]}
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"lake.v_a": [(1, "x")]}
    log.ddl("DROP DATABASE t", "")  # as without ``to``: rewrite_db is not about it
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"lake.v_a": [(1, "x")]}


def test_what_else_the_rule_says_goes_with_the_table(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(A, (2, "secret"), (3, "z")))
    rule = {**A_IS_O, "mask": {"v": "constant:-"}, "row_filter": "id > 1"}
    assert run(log.folder, tmp_path / "lake", tables=[rule])
    assert last_shown(tmp_path / "lake") == {"lake.o": [(2, "-"), (3, "-")]}
    log.ddl("DROP TABLE t.a")
    assert isinstance(
        stopped(log.folder, tmp_path / "lake", tables=[{**rule, "on_ddl": "stop"}]), SettingError
    )
    # Policies by name, and what is no rule of tables, have the target's names.
    ddl = {"policy": ["lake.o: ignore_drop"]}
    assert run(log.folder, tmp_path / "lake", tables=[rule], ddl=ddl)
    assert last_shown(tmp_path / "lake") == {"lake.o": [(2, "-"), (3, "-")]}


def test_a_table_that_stays_when_its_name_is_used_again(log: LogWriter, tmp_path: Path) -> None:
    target, ddl = tmp_path / "lake", {"policy": "ignore_drop"}
    log.ddl("DROP TABLE t.a")
    log.ddl(A.create)
    given = {"tables": [A_IS_O], "filters": {"do_db": ["t"]}, "ddl": ddl}
    for number in range(3):  # a start has to know it, too
        assert run(log.folder, target, **given)
        assert last_shown(target)["lake.o@dropped"] == [(1, "x")]
        assert len(last_shown(target)["lake.o"]) == number
        log.transaction(insert(A, (number, "y")))


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"do_db": ["t"]}, True),
        ({"do_db": ["lake"]}, False),
        ({"ignore_table": ["lake.o"]}, True),
        ({"ignore_table": ["t.a"]}, False),
        ({"wild_do_table": ["t.%"]}, True),
        ({"wild_ignore_table": ["lake.%"]}, True),
    ],
)
def test_filters_see_the_names_before(
    log: LogWriter, tmp_path: Path, filters: dict[str, list[str]], kept: bool
) -> None:
    log.ddl("ALTER TABLE a ALTER COLUMN v SET DEFAULT 'y'")
    assert run(log.folder, tmp_path / "lake", filters=filters, **BOTH)
    assert last_shown(tmp_path / "lake") == ({"lake.o": [(1, "x")]} if kept else {})


def test_drop_database_ends_what_comes_from_it(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("CREATE TABLE lake.own (id INT PRIMARY KEY)", "lake")
    given = {"tables": [A_IS_O]}
    target = tmp_path / "lake"
    log.ddl("CREATE TABLE t.stays (id INT PRIMARY KEY)")
    assert run(log.folder, target, **given)
    log.ddl("DROP DATABASE lake", "")
    assert run(log.folder, target, **given)
    assert last_shown(target).keys() == {"lake.o", "t.stays"}
    log.ddl("DROP DATABASE t", "")
    assert run(log.folder, target, **given)
    assert last_shown(target) == {}


def test_the_other_table_of_a_name(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(A, (2, "x")), insert(OTHER, (1, "x")))
    error = stopped(log.folder, tmp_path / "lake", tables=[A_IS_O], group_max_transactions=1)
    assert isinstance(error, SchemaError) and error.table == "lake.o"
    assert "tables t.a and lake.o would share lake.o" in str(error) and error.position is not None
    assert last_shown(tmp_path / "lake") == {"lake.o": [(1, "x")]}
    # What the filters leave out shares nothing, and is asked about by its own name.
    filters = {"ignore_table": ["lake.o"]}
    assert run(log.folder, tmp_path / "lake", tables=[A_IS_O], filters=filters)
    assert last_shown(tmp_path / "lake") == {"lake.o": [(1, "x"), (2, "x")]}


def test_it_is_refused_also_where_it_is_alone(tmp_path: Path) -> None:
    """Which rule applies to it would depend on later tables."""
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(OTHER, (1, "x")))
    assert isinstance(stopped(log.folder, tmp_path / "lake", tables=[A_IS_O]), SchemaError)


@pytest.mark.parametrize(
    "statement",
    [
        OTHER.create, "CREATE TABLE lake.o LIKE u.b", "CREATE TABLE IF NOT EXISTS lake.o (i INT)",
        "RENAME TABLE u.b TO lake.o", "ALTER TABLE u.b RENAME TO lake.o", "DROP TABLE lake.o",
        "TRUNCATE TABLE lake.o", "ALTER TABLE lake.o ADD w INT", "RENAME TABLE lake.o TO u.c",
    ],
)  # fmt: skip
def test_a_statement_on_a_second_table_of_the_route_stops(
    log: LogWriter, tmp_path: Path, statement: str
) -> None:
    log.ddl("CREATE TABLE u.b (id INT PRIMARY KEY)", "u")
    log.ddl(statement, "u")
    error = stopped(log.folder, tmp_path / "lake", tables=[A_IS_O])
    assert isinstance(error, SchemaError) and "t.a and lake.o would share lake.o" in str(error)
    assert last_shown(tmp_path / "lake") == {"lake.o": [(1, "x")], "u.b": []}
    filters = {"ignore_table": ["lake.o"]}
    crossing = "RENAME" in statement
    if not crossing:
        assert run(log.folder, tmp_path / "lake", tables=[A_IS_O], filters=filters)
        assert last_shown(tmp_path / "lake") == {"lake.o": [(1, "x")], "u.b": []}


def test_other_routes_than_before_are_refused(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    assert run(log.folder, target, tables=[A_IS_O])
    for rules in ([], [{**A_IS_O, "to": "lake.p"}], [{"match": "t.b", "to": "lake.o"}]):
        error = stopped(log.folder, target, tables=rules)
        assert isinstance(error, SettingError) and error.table == "lake.o"
    # What means the same for the tables that are there is taken.
    assert run(log.folder, target, **BOTH)
    assert run(log.folder, target, tables=[{"match": "x.y"}, A_IS_O])


def test_a_map_for_a_table_that_is_there_is_refused(log: LogWriter, tmp_path: Path) -> None:
    assert run(log.folder, tmp_path / "lake")
    error = stopped(log.folder, tmp_path / "lake", tables=[A_IS_O])
    assert isinstance(error, SettingError) and error.table == "t.a"


def test_filters_of_another_time_were_about_the_names_before(
    log: LogWriter, tmp_path: Path
) -> None:
    """Rows of t.b were left out then, those of t.c never."""
    target, b, c = tmp_path / "lake", Table("b"), Table("c")
    rules = {"tables": [{"match": "t.a"}]}
    assert run(log.folder, target, filters={"do_table": ["t.a", "t.c"]}, **rules)
    rules = {"tables": [{"match": "t.a"}, ALL]}
    log.transaction(insert(c, (1, "c")))
    assert run(log.folder, target, **rules)
    assert last_shown(target) == {"t.a": [(1, "x")], "lake.c": [(1, "c")]}
    log.transaction(insert(b, (1, "b")))
    error = stopped(log.folder, target, **rules)
    assert isinstance(error, SchemaError) and error.table == "lake.b"


def test_foreign_keys_that_the_server_names(tmp_path: Path) -> None:
    """InnoDB calls them by the table's name on the source; their changes are carried on."""
    parent = Table("parent", (("id", "int"),), map_flags=2)
    child = Table("child", (("id", "int"), ("p", "int")))
    rules = {"tables": [{"match": "t.child", "to": "lake.kind"}, {"match": "t.%", "to": "u.%"}]}
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE t")
    log.ddl(parent.create)
    foreign = "FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE"
    log.ddl(f"{child.create.removesuffix(')')}, {foreign})")
    log.transaction(insert(parent, (1,), (2,), (3,)))
    log.transaction(insert(child, (1, 1), (2, 2), (3, 3)))
    log.transaction(delete(parent, (1,)))
    target = tmp_path / "lake"
    assert run(log.folder, target, **rules)
    assert last_shown(target) == {"u.parent": [(2,), (3,)], "lake.kind": [(2, 2), (3, 3)]}
    log.ddl("RENAME TABLE t.child TO t.c2, t.c2 TO t.child")
    log.ddl("ALTER TABLE t.child DROP FOREIGN KEY child_ibfk_1")
    log.transaction(delete(parent, (2,)))
    assert run(log.folder, target, **rules)
    assert last_shown(target) == {"u.parent": [(3,)], "lake.kind": [(2, 2), (3, 3)]}
    log.ddl(f"ALTER TABLE t.child ADD {foreign}")
    log.ddl("RENAME TABLE t.child TO t.c3")
    log.transaction(delete(parent, (3,)))
    assert run(log.folder, target, **rules)
    assert last_shown(target) == {"u.parent": [], "u.c3": [(2, 2)]}
    log.ddl("ALTER TABLE t.c3 DROP FOREIGN KEY c3_ibfk_1")
    assert run(log.folder, target, **rules)


def test_a_tools_tables_follow_the_route_of_their_table(log: LogWriter, tmp_path: Path) -> None:
    """gh-ost's, which it names after the table's name on the source."""
    log.ddl("CREATE TABLE t._a_gho LIKE t.a")
    log.ddl("ALTER TABLE t._a_gho ADD w INT")
    wide = Table("_a_gho", (*A.columns, ("w", "int")))
    log.transaction(insert(wide, (1, "x", None)))
    log.ddl("RENAME TABLE t.a TO t._a_del, t._a_gho TO t.a")
    log.transaction(insert(Table("a", wide.columns), (2, "y", 5)))
    for way, rules in itertools.product(("follow", "fold"), ([A_IS_O], [A_IS_O, ALL])):
        target = tmp_path / f"{way}{len(rules)}"
        assert run(log.folder, target, tables=rules, ddl={"online_tools": way})
        shown = last_shown(target)
        assert shown.pop("lake.o") == [(1, "x", None), (2, "y", 5)]
        old = "lake._a_del" if len(rules) == 2 else "t._a_del"
        assert shown == ({old: [(1, "x")]} if way == "follow" else {})


def test_a_quarantine_is_named_by_the_targets_table(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.transaction(delete(A, (77, "no such")), insert(A, (77, "y")))
    target, given = tmp_path / "lake", {"on_error": "quarantine", **BOTH}
    assert run(log.folder, target, **given)
    assert cuts(target)[-1].quarantined.keys() == {"lake.o"}
    words = ("--target", str(target), "--table", "lake.o")
    assert main(["quarantine", "show", *words, "--rows", "5"]) == 0
    assert "no such" in capsys.readouterr().out
    log.ddl("ALTER TABLE t.a ADD w INT")
    assert isinstance(stopped(log.folder, target, **given), StatementError)
    assert main(["quarantine", "replay", *words]) == 0


@pytest.mark.parametrize("value", [1, 2])
def test_a_source_that_folds_names(tmp_path: Path, value: int) -> None:
    """Statements have names as they were written, rows in lower case."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE DATABASE T")
    log.ddl("CREATE TABLE T.A (id INT PRIMARY KEY, v VARCHAR(40))", "T")
    log.transaction(insert(A, (1, "x")))
    log.ddl("ALTER TABLE T.A ADD w INT", "T")
    given: dict[str, Any] = {
        "tables": [{"match": "V.A", "to": "Lake.O"}], "filters": {"rewrite_db": ["T->V"]},
        "source": {"lower_case_table_names": value},
    }  # fmt: skip
    assert run(log.folder, target, **given)
    assert last_shown(target) == {"lake.o": [(1, "x", None)]}
    log.ddl("DROP TABLE t.a", "T")
    assert run(log.folder, target, **given)
    assert last_shown(target) == {}


def shared(log: LogWriter, target: Path, *rules: dict[str, str]) -> SparkReplError:
    return stopped(log.folder, target, tables=list(rules))


def test_a_rename_into_an_occupied_route_stops(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("CREATE TABLE t.x (id INT PRIMARY KEY)")
    log.ddl("RENAME TABLE t.x TO t.o")  # lake.o by the pattern
    error = shared(log, tmp_path / "lake", A_IS_O, ALL)
    assert isinstance(error, SchemaError) and "t.a and t.o would share lake.o" in str(error)
    assert last_shown(tmp_path / "lake") == {"lake.o": [(1, "x")], "lake.x": []}


def test_xa_compressed_and_created_rows_follow_the_route(log: LogWriter, tmp_path: Path) -> None:
    """XA branches, compressed transactions, CREATE TABLE ... SELECT."""
    xid = (b"g", b"b", 1)
    log.xa_prepare(xid, insert(A, (2, "xa")))
    log.transaction(insert(A, (3, "z")), compressed=True)
    log.xa_end("COMMIT", xid)
    log.transaction(
        insert(B, (9, "s")),
        statement="CREATE TABLE `b` (id INT PRIMARY KEY, v VARCHAR(40)) START TRANSACTION",
    )
    assert run(log.folder, tmp_path / "lake", **BOTH)
    want = {"lake.o": [(1, "x"), (2, "xa"), (3, "z")], "lake.b": [(9, "s")]}
    assert last_shown(tmp_path / "lake") == want


def test_renames_across_the_filters_follow_the_route(log: LogWriter, tmp_path: Path) -> None:
    given: dict[str, Any] = {"filters": {"ignore_table": ["t.hidden"]}, **BOTH}
    log.ddl("RENAME TABLE t.a TO t.hidden")
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {}
    log.ddl("RENAME TABLE t.hidden TO t.a")
    assert isinstance(stopped(log.folder, tmp_path / "lake", **given), StatementError)
    assert run(log.folder, tmp_path / "lake", copies=True, **given)
    assert cuts(tmp_path / "lake")[-1].waiting.keys() == {"lake.o"}

"""``[filters]``: what the rules leave out of target and cuts, whatever a crash leaves, and what
crosses their border."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import DecodeError, SchemaError, SettingError, StatementError
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import applier, cuts, last_shown, run, stopped
from tests.support.made_copy import finish, plan, read

A, B, C = Table("a"), Table("b"), Table("c", database="u")
ONLY_A = {"do_table": ["t.a"]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", "CREATE DATABASE u", A.create, B.create):
        made.ddl(statement)
    made.ddl(C.create, "u")
    made.transaction(insert(A, (1, "x")), insert(B, (1, "x")), insert(C, (1, "x")))
    return made


@pytest.mark.parametrize(
    ("filters", "kept", "counted"),
    [
        ({"do_db": ["t"]}, {"t.a", "t.b"}, 3),
        ({"ignore_db": ["t"]}, {"u.c"}, 2),
        (ONLY_A, {"t.a"}, 1),
        ({"ignore_table": ["t.a"]}, {"t.b", "u.c"}, 1),
        ({"wild_do_table": ["%.c"]}, {"u.c"}, 1),
        ({"wild_ignore_table": ["t.%"]}, {"u.c"}, 2),
        ({"do_db": ["v"]}, set(), 3),
    ],
)
def test_each_rule_lets_its_tables_through_and_all_gtids_count(
    log: LogWriter, tmp_path: Path, filters: dict[str, list[str]], kept: set[str], counted: int
) -> None:
    """Scenarios 15, 26: a transaction of which nothing is left takes its slot: the GTIDs of all are
    executed."""
    assert run(log.folder, tmp_path / "lake", filters=filters)
    assert last_shown(tmp_path / "lake") == {name: [(1, "x")] for name in kept}
    assert cuts(tmp_path / "lake")[-1].gtid_executed == f"{log.source}:1-6"
    (shown,) = status(str(tmp_path / "lake"))["replication_applier_filters"]
    ((kind, entries),) = filters.items()
    assert shown.pop("ACTIVE_SINCE")
    assert shown.pop("COUNTER") == counted
    assert shown == {
        "CHANNEL_NAME": "default", "FILTER_NAME": f"REPLICATE_{kind.upper()}",
        "FILTER_RULE": ",".join(entries), "CONFIGURED_BY": "CONFIGURATION_FILE",
    }  # fmt: skip


def test_a_crash_at_any_step_leaves_filtered_tables_out(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", A.create, B.create)
    source.transaction(insert(A, (1, "x")), insert(B, (1, "y")))
    source.transaction(insert(B, (2, "y")))
    source.ddl("ALTER TABLE t.b ADD n INT", "ALTER TABLE t.a RENAME TO t.x", "DROP TABLE t.b")
    filters = {"wild_ignore_table": ["t.b%", "t.x"]}
    for lost in (False, True):
        folder = tmp_path / str(lost)
        want, step = cut_off_anywhere(source, folder, lost=lost, filters=filters)
        assert step > 8 and [*want.values()][3:] == [{"t.a": [(1, "x")]}] * 3 + [{}, {}]


def test_rows_of_what_is_left_out_are_not_read(tmp_path: Path) -> None:
    """Values that this version can't decode do not stop the applier in tables that are left out."""
    odd = Table("odd", (("id", "int"), ("v", "int")), map_flags=0)
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE t")
    log.ddl("CREATE TABLE t.odd (id INT PRIMARY KEY)")
    log.transaction(insert(odd, (1, 2)))
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    assert isinstance(stopped(log.folder, tmp_path / "all"), SchemaError)
    assert run(log.folder, tmp_path / "lake", filters={"ignore_table": ["t.odd"]})
    assert last_shown(tmp_path / "lake") == {"t.a": [(1, "x")]}


def test_the_first_named_table_decides_about_a_drop(log: LogWriter, tmp_path: Path) -> None:
    """The first that a rule names decides about DROP, as on MySQL's replica."""
    log.ddl("DROP TABLE t.b, t.a")
    assert run(log.folder, tmp_path / "one", filters={"ignore_table": ["t.b"]})
    assert last_shown(tmp_path / "one").keys() == {"t.a", "u.c"}
    log.ddl("DROP TABLE u.c, t.x")
    assert run(log.folder, tmp_path / "two", filters={"do_table": ["u.c", "t.a", "t.b"]})
    assert last_shown(tmp_path / "two") == {}


def test_drop_database_drops_the_tables_that_the_rules_let_through(
    log: LogWriter, tmp_path: Path
) -> None:
    log.ddl("DROP DATABASE t")
    assert run(log.folder, tmp_path / "one", filters={"wild_do_table": ["t.a", "u.%"]})
    assert last_shown(tmp_path / "one").keys() == {"t.a", "u.c"}, "db.t. fits no rule"
    assert run(log.folder, tmp_path / "two", filters={"wild_do_table": ["t.%", "u.%"]})
    assert last_shown(tmp_path / "two").keys() == {"u.c"}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("drop", "database", "filters"),
    [
        ("DROP TABLE t.a", "u", {"do_db": ["t"]}),
        ("DROP DATABASE t", "t", {"wild_do_table": ["t.a"]}),
    ],
)
def test_a_table_that_is_made_again_behind_a_drop_that_is_left_out(
    log: LogWriter,
    tmp_path: Path,
    *,
    again: bool,
    drop: str,
    database: str,
    filters: dict[str, Any],
) -> None:
    """As MySQL's replica, which stops with 1050: the rows of before are not the new table's."""
    target = tmp_path / "lake"
    log.ddl(drop, database)
    if again:
        assert run(log.folder, target, filters=filters)
    log.ddl("CREATE DATABASE IF NOT EXISTS t")
    log.ddl(A.create)
    log.transaction(insert(A, (3, "new")))
    error = stopped(log.folder, target, filters=filters)
    assert isinstance(error, SchemaError) and error.table == "t.a"
    assert error.number == 1050 and "already exists" in str(error)
    assert last_shown(target)["t.a"] == [(1, "x")]


def test_a_statement_that_is_left_out_while_rows_are_not(log: LogWriter, tmp_path: Path) -> None:
    """Database rules ask for the session's default database, rows for their own."""
    log.ddl("ALTER TABLE t.a ADD n INT", "u")
    error = stopped(log.folder, tmp_path / "lake", filters={"do_db": ["t"]})
    assert isinstance(error, SettingError) and error.table == "t.a" and error.gtid
    assert "ALTER TABLE is left out by the filters, the rows of its table are not" in str(error)
    assert "database was u" in str(error)
    assert run(log.folder, tmp_path / "wild", filters={"wild_do_table": ["t.%"]})
    assert last_shown(tmp_path / "wild")["t.a"] == [(1, "x", None)]


@pytest.mark.parametrize(
    "statement", ["RENAME TABLE t.a TO t.b2", "ALTER TABLE t.a RENAME TO t.b2, ADD n INT"]
)
def test_a_table_renamed_out_of_the_rules_leaves_the_target(
    log: LogWriter, tmp_path: Path, statement: str
) -> None:
    log.ddl(statement)
    assert run(log.folder, tmp_path / "lake", filters=ONLY_A)
    assert last_shown(tmp_path / "lake") == {}


@pytest.mark.parametrize(
    "statement", ["RENAME TABLE t.a TO t.b2", "ALTER TABLE t.a RENAME TO t.b2, ADD n INT"]
)
@pytest.mark.parametrize("by", ["ddl", "tables"])
def test_policies_of_a_table_that_leaves(
    log: LogWriter, tmp_path: Path, statement: str, by: str
) -> None:
    """It ends as by DROP, so what its policy says of that holds."""

    def given(policy: str) -> dict[str, Any]:
        if by == "ddl":
            return {"filters": ONLY_A, "ddl": {"policy": policy}}
        return {"filters": ONLY_A, "tables": [{"match": "t.a", "on_ddl": policy}]}

    log.ddl(statement)
    error = stopped(log.folder, tmp_path / "stop", **given("stop"))
    assert isinstance(error, SettingError) and error.table == "t.a" and "policy stop" in str(error)
    assert last_shown(tmp_path / "stop") == {"t.a": [(1, "x")]}
    assert run(log.folder, tmp_path / "kept", **given("ignore_drop"))
    assert last_shown(tmp_path / "kept") == {"t.a": [(1, "x")]}
    log.ddl(A.create)
    log.transaction(insert(A, (7, "new")))
    assert run(log.folder, tmp_path / "kept", **given("ignore_drop"))
    assert last_shown(tmp_path / "kept") == {"t.a": [(7, "new")], "t.a@dropped": [(1, "x")]}


@pytest.mark.parametrize(("copy", "old"), [("_a_gho", "_a_del"), ("_a_new", "_a_old")])
def test_an_online_tool_s_tables_go_with_their_table(
    log: LogWriter, tmp_path: Path, copy: str, old: str
) -> None:
    """Where they are left out: the tool's ALTER is done to a table that the rules keep. Elsewhere
    they are tables like others, as on MySQL's replica, whose RENAME crosses the border."""
    wide = (*A.columns, ("n", "int"))
    log.ddl("CREATE TABLE t._a_ghc (id INT PRIMARY KEY)")
    log.ddl(f"CREATE TABLE t.{copy} LIKE t.a")
    log.ddl(f"ALTER TABLE t.{copy} ADD n INT DEFAULT 5")
    log.transaction(insert(A, (2, "y")), insert(Table(copy, wide), (1, "x", 5), (2, "y", 5)))
    log.ddl(f"CREATE TABLE t.{old} (id INT PRIMARY KEY)")
    log.ddl(f"DROP TABLE IF EXISTS t.{old}")
    log.ddl(f"RENAME TABLE t.a TO t.{old}, t.{copy} TO t.a")
    log.ddl(f"DROP TABLE IF EXISTS t._a_ghc, t.{old}")
    log.transaction(insert(Table("a", wide), (3, "z", 7)))
    for filters in (ONLY_A, {"wild_ignore_table": [r"t.\_a\_%", "t.b", "u.%"]}):
        target = tmp_path / f"fold{len(filters)}{min(filters)}"
        assert run(log.folder, target, filters=filters, ddl={"online_tools": "fold"})
        assert last_shown(target) == {"t.a": [(1, "x", 5), (2, "y", 5), (3, "z", 7)]}
    error = stopped(log.folder, tmp_path / "follow", filters=ONLY_A)
    assert isinstance(error, SettingError) and "across the border" in str(error)
    assert 'ddl.online_tools = "fold"' in (error.hint or "")
    left = {"wild_ignore_table": [r"t.a", r"t.\_a\_%"]}
    assert run(log.folder, tmp_path / "none", filters=left, ddl={"online_tools": "fold"})
    assert last_shown(tmp_path / "none").keys() == {"t.b", "u.c"}


@pytest.mark.parametrize("statement", ["RENAME TABLE t.{} TO t.z", "ALTER TABLE t.{} RENAME t.z"])
@pytest.mark.parametrize("name", ["_a_new", "_a_old"])
def test_an_online_tool_s_table_that_leaves(
    log: LogWriter, tmp_path: Path, name: str, statement: str
) -> None:
    """It has no rows here, so nothing comes in by its new name; its old one is free again."""
    for _ in range(2):
        log.ddl("CREATE TABLE t._a_new LIKE t.a")
        log.ddl("ALTER TABLE t._a_new ADD n INT")
        log.ddl("ALTER TABLE t._a_new DROP n")
        log.transaction(insert(Table("_a_new"), (1, "x")))
        if name == "_a_old":
            log.ddl("RENAME TABLE t.a TO t._a_old, t._a_new TO t.a")
        log.ddl(statement.format(name))
        log.transaction(insert(Table("z"), (2, "y")))
        log.ddl("DROP TABLE t.z")
    log.transaction(insert(A, (3, "z")))
    given = {"filters": ONLY_A, "ddl": {"online_tools": "fold"}}
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"t.a": [(1, "x"), (3, "z")]}


def test_a_table_that_comes_in_is_copied(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("RENAME TABLE t.b TO t.c")
    log.transaction(insert(Table("c"), (7, "c")))
    rules = {"ignore_table": ["t.b"]}
    error = stopped(log.folder, tmp_path / "stops", filters=rules)
    assert isinstance(error, StatementError) and error.table == "t.c"
    assert "it comes from t.b, whose rows the filters leave out" in str(error)
    assert run(log.folder, tmp_path / "lake", filters=rules, copies=True)
    assert last_shown(tmp_path / "lake").keys() == {"t.a", "u.c"}
    assert status(str(tmp_path / "lake"))["waiting"].keys() == {"t.c"}


def test_swaps_across_the_border_stop(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("RENAME TABLE t.a TO t.x, t.b TO t.a")
    error = stopped(log.folder, tmp_path / "lake", filters=ONLY_A, copies=True)
    assert isinstance(error, SettingError) and "across the border" in str(error)


def test_rules_change_between_runs(log: LogWriter, tmp_path: Path) -> None:
    """A table that the rules include again lacks rows, so it is not created from later rows. A
    table that the rules exclude is in no cut, because it would not change any more."""
    target = tmp_path / "lake"
    assert run(log.folder, target)
    log.transaction(update(B, ((1, "x"), (1, "y"))))
    assert run(log.folder, target, filters=ONLY_A)
    assert last_shown(target) == {"t.a": [(1, "x")]}
    log.transaction(insert(A, (2, "x")))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": [(1, "x"), (2, "x")]}
    log.transaction(insert(B, (2, "x")))
    error = stopped(log.folder, target)
    assert isinstance(error, SchemaError) and error.table == "t.b"
    assert "earlier filters have left rows of the table out" in str(error)
    assert run(log.folder, target, filters={"ignore_table": ["t.b", "u.c"]})
    log.ddl("CREATE TABLE t.d (id INT PRIMARY KEY, v VARCHAR(40))")
    log.transaction(insert(Table("d"), (1, "d")))
    assert run(log.folder, target, filters={"ignore_table": ["t.b"]})
    assert last_shown(target) == {"t.a": [(1, "x"), (2, "x")], "t.d": [(1, "d")]}


def test_run_copies_a_table_that_filters_leave_out_no_more(log: LogWriter, tmp_path: Path) -> None:
    """Its first change has it wait; the other tables go on meanwhile."""
    target = tmp_path / "lake"
    assert run(log.folder, target, filters=ONLY_A)
    log.transaction(insert(A, (2, "x")), insert(B, (2, "x")))
    log.transaction(insert(A, (3, "x")), update(B, ((1, "x"), (1, "y"))))
    for _ in range(2):
        assert run(log.folder, target, copies=True)
        last = cuts(target)[-1]
        assert last.gtid_executed == f"{log.source}:1-8"
        assert last.waiting["t.b"].since == log.gtid(6)
        assert last_shown(target) == {"t.a": [(1, "x"), (2, "x"), (3, "x")]}
    plan(target, "t.b")
    log.transaction(insert(B, (3, "x")))
    read(target, B, [(1, "y"), (2, "x"), (3, "x")])
    finish(target, f"{log.source}:1-9")
    assert run(log.folder, target, copies=True)
    assert last_shown(target)["t.b"] == [(1, "y"), (2, "x"), (3, "x")]


def test_apply_names_the_copy_of_a_table_that_filters_leave_out_no_more(
    log: LogWriter, tmp_path: Path
) -> None:
    """Also where the log's rows can't be read, as nothing says what their columns are."""
    target = tmp_path / "lake"
    assert run(log.folder, target, filters=ONLY_A)
    with applier(log.folder, target, copies=False) as replica:
        for error in (DecodeError("no names", table="t.b", gtid="G"), SchemaError("", table="t.b")):
            with pytest.raises(SchemaError, match="earlier filters have left rows") as raised:
                replica._pass_over(error)
            assert raised.value.gtid == error.gtid
            assert "snapshot --config F --table t.b" in str(raised.value.hint)
        with pytest.raises(DecodeError, match="no names"):
            replica._pass_over(DecodeError("no names", table="t.a"))


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("RENAME TABLE t.e TO t.f", "t.f"),
        ("ALTER TABLE t.e RENAME TO t.f", "t.f"),
        ("RENAME TABLE t.e TO t.x, t.b TO t.e, t.x TO t.b", "t.e, t.x, t.b"),
    ],
)
def test_another_name_of_what_earlier_filters_left_out(
    log: LogWriter, tmp_path: Path, statement: str, name: str
) -> None:
    """Its rows so far are not there, whatever it is called when the next ones come."""
    target = tmp_path / "lake"
    log.ddl("CREATE TABLE t.e (id INT PRIMARY KEY, v VARCHAR(40))")
    log.transaction(insert(Table("e"), (1, "x")))
    assert run(log.folder, target, filters={"ignore_table": ["t.e"]})
    log.ddl(statement)
    log.transaction(insert(Table("f" if name == "t.f" else "b"), (2, "x")))
    error = stopped(log.folder, target)
    assert isinstance(error, StatementError | SettingError)
    assert error.table and error.table.startswith(name)
    assert "t.f" not in last_shown(target) and last_shown(target)["t.b"] == [(1, "x")]


def test_a_foreign_key_from_what_is_kept(tmp_path: Path) -> None:
    """The source deletes the children without logging it, so the applier reads the parent's rows,
    although the target does not keep them."""
    log = LogWriter(tmp_path / "log")
    parent, child = Table("p"), Table("k", (("id", "int"), ("p", "int")))
    log.ddl("CREATE DATABASE t")
    log.ddl(parent.create)
    log.ddl(
        "CREATE TABLE t.k (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)"
        " ON DELETE CASCADE ON UPDATE CASCADE)"
    )
    log.transaction(insert(parent, (1, "x"), (2, "x")))
    log.transaction(insert(child, (1, 1)), update(parent, ((2, "x"), (2, "y"))))
    rules = {"ignore_table": ["t.p"]}
    assert run(log.folder, tmp_path / "lake", filters=rules)
    assert last_shown(tmp_path / "lake") == {"t.k": [(1, 1)]}
    log.transaction(delete(parent, (1, "x")))
    error = stopped(log.folder, tmp_path / "lake", filters=rules)
    assert isinstance(error, DecodeError) and "t.k" in str(error)


@pytest.mark.parametrize("action", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize(
    "filters", [ONLY_A, {"do_db": ["t"], "ignore_table": ["t.b"]}, {"ignore_db": ["u"]}]
)
def test_branches_of_filtered_rows_are_prepared_and_ended(
    log: LogWriter, tmp_path: Path, filters: dict[str, list[str]], action: str
) -> None:
    """Scenarios 70, 71: rows are left out, XA statements are not: a branch of filtered rows alone
    is prepared and ended as others are, and its XID is free then."""
    target, xids = tmp_path / "lake", [(b"both", b"", 1), (b"none", b"", 1)]
    log.xa_prepare(xids[0], insert(A, (5, "xa")), insert(B, (5, "xa")))
    log.xa_prepare(xids[1], insert(C, (5, "xa")))
    log.transaction(insert(B, (3, "x")))
    assert run(log.folder, target, filters=filters)
    assert len(cuts(target)[-1].prepared) == 2
    for xid in xids:
        log.xa_end(action, xid)
    log.xa_prepare(xids[1], insert(C, (6, "xa")))  # 1440 if the first had not ended
    assert run(log.folder, target, filters=filters)
    landed = [(5, "xa")] * (action == "COMMIT")
    want = {"t.a": [(1, "x"), *landed]}
    if filters == {"ignore_db": ["u"]}:
        want["t.b"] = [(1, "x"), (3, "x"), *landed]
    assert last_shown(target) == want
    assert len(cuts(target)[-1].prepared) == 1
    assert cuts(target)[-1].gtid_executed == f"{log.source}:1-{log.gno - 1}"

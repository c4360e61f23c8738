"""``ddl.policy``: what a table's policy leaves in the target, whatever a crash leaves."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.definitions import Definitions
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import SchemaError, StatementError
from spark_repl.gtid import GtidSet
from spark_repl.observe.metrics import metrics
from spark_repl.observe.reports.statement_status import StatementStatus, shown_statements
from spark_repl.observe.status.status import status
from spark_repl.write.alter import table_changes
from spark_repl.write.alter.altered_rows import alter_file
from tests.support.binlog_writer import Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere, shown
from tests.support.local_delta import HERE, Here, last_shown, run, stopped

A = Table("a", (("id", "int"), ("v", "varchar(40)"), ("d", "double")))
NARROW = Table("a", (("n", "int"), ("id", "int"), ("d", "int")), (1,))
AGAIN = Table("a", (("n", "int"), ("id", "int"), ("d", "int"), ("v", "varchar(20)")), (1,))
ADDITIVE = {"policy": ["t.*: additive_only"]}
STOP, IGNORE = {"policy": ["*.a: stop"]}, {"policy": ["t.x: stop", "t.?: ignore_drop"]}


@pytest.fixture
def source(tmp_path: Path) -> Twice:
    return Twice(tmp_path)


def narrowed(source: Twice) -> None:
    source.ddl("CREATE DATABASE t", A.create)
    source.transaction(insert(A, (1, "x", 1.5), (2, "y", 2.5)))
    source.ddl("ALTER TABLE t.a DROP COLUMN v, MODIFY d INT, ADD n INT FIRST")
    source.transaction(insert(NARROW, (7, 3, 9)), update(NARROW, ((None, 1, 2), (8, 1, 3))))


@pytest.mark.parametrize(
    ("mapping", "lost"),
    [(True, False), (False, True)],
    ids=["mapped, the same log", "by name, another log"],
)
def test_additive_only_keeps_columns(
    source: Twice, tmp_path: Path, mapping: bool, lost: bool
) -> None:
    narrowed(source)
    source.ddl("ALTER TABLE t.a ADD v VARCHAR(20) DEFAULT 'q', RENAME COLUMN n TO m")
    again = Table("a", (("m", "int"), *AGAIN.columns[1:]), (1,))
    source.transaction(update(again, ((None, 2, 3, "q"), (None, 2, 4, "z"))))
    source.transaction(delete(again, (7, 3, 9, "q")))
    keys = {"column_mapping": mapping}
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, keys=keys, ddl=ADDITIVE)
    assert step > 20
    assert list(want.values())[-1] == {"t.a": [(None, 2, 4.0, "z"), (8, 1, 3.0, "q")]}
    kept = list(want.values())[-4]
    assert kept == {"t.a": [(None, 2, "y", 2.5), (7, 3, None, 9.0), (8, 1, None, 3.0)]}


def test_a_rule_of_tables_goes_before(source: Twice, tmp_path: Path) -> None:
    source.ddl("CREATE DATABASE t", A.create)
    source.transaction(insert(A, (1, "x", 1.5)))
    source.ddl("TRUNCATE TABLE t.a")
    log, stop, keep = source.logs[0].folder, {"policy": "stop"}, "ignore_drop"
    tables = [{"match": "t.a", "on_ddl": keep}, {"match": "t._%", "on_ddl": "apply"}]
    assert run(log, tmp_path / "kept", ddl=stop, tables=tables)
    assert last_shown(tmp_path / "kept") == {"t.a": [(1, "x", 1.5)]}
    assert run(log, tmp_path / "gone", ddl=stop, tables=[{"match": "t._", "on_ddl": "apply"}])
    assert last_shown(tmp_path / "gone") == {"t.a": []}
    error = stopped(log, tmp_path / "stop", ddl=stop, tables=[{"match": "t.b", "on_ddl": "apply"}])
    assert "stop" in str(error)


def test_a_column_added_again_keeps_its_old_values(source: Twice, tmp_path: Path) -> None:
    narrowed(source)
    source.ddl("ALTER TABLE t.a ADD v VARCHAR(20) DEFAULT 'q'")
    log, target = source.logs[0].folder, tmp_path / "lake"
    assert run(log, target, ddl=ADDITIVE)
    assert last_shown(target) == {"t.a": [(None, 2, 2.5, "y"), (7, 3, 9.0, "q"), (8, 1, 3.0, "q")]}


def test_retained_columns_are_null_in_images_without_them(source: Twice, tmp_path: Path) -> None:
    """Of a row that is changed the target's column is NULL, whatever its image holds."""
    narrowed(source)
    source.transaction(update(NARROW, ({1: 2}, {2: 5})), insert(NARROW, {1: 4, 2: 1}))
    assert run(source.logs[0].folder, tmp_path / "lake", ddl=ADDITIVE)
    want = [(None, 2, None, 5.0), (None, 4, None, 1.0), (7, 3, None, 9.0), (8, 1, None, 3.0)]
    assert last_shown(tmp_path / "lake") == {"t.a": want}


@pytest.mark.parametrize("vectors", [True, False])
def test_a_kept_column_by_which_the_table_is_partitioned(
    source: Twice, tmp_path: Path, vectors: bool
) -> None:
    narrowed(source)
    options: dict[str, Any] = {"partition_by": ["t.a(v)"], "vectors": vectors, "ddl": ADDITIVE}
    assert run(source.logs[0].folder, tmp_path / "lake", group_max_transactions=1, **options)
    want = [(None, 2, "y", 2.5), (7, 3, None, 9.0), (8, 1, None, 3.0)]
    assert last_shown(tmp_path / "lake") == {"t.a": want}


def test_what_was_kept_stays_with_another_policy(source: Twice, tmp_path: Path) -> None:
    narrowed(source)
    log, target = source.logs[0], tmp_path / "lake"
    assert run(log.folder, target, ddl=ADDITIVE)
    log.ddl("ALTER TABLE t.a DROP COLUMN n, MODIFY d SMALLINT")
    log.ddl("ALTER TABLE t.a MODIFY d INT")
    after = Table("a", (("id", "int"), ("d", "int")))
    log.transaction(insert(after, (5, 6)))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": [(1, None, 3), (2, "y", 2), (3, None, 9), (5, None, 6)]}


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ALTER TABLE t.a MODIFY v INT", "neither type holds all values of the other"),
        ("ALTER TABLE t.a MODIFY d VARCHAR(40)", "column d becomes"),
        ("ALTER TABLE t.a MODIFY id SMALLINT", "rows are told apart by it"),
        ("ALTER TABLE t.a DROP v, DROP PRIMARY KEY", "has no key"),
        ("ALTER TABLE t.a DROP v, RENAME COLUMN d TO v", "keeps a column v"),
        ("ALTER TABLE t.bag DROP v", "has no key"),
    ],
)
def test_additive_only_stops_at_what_it_cannot_keep(
    source: Twice, tmp_path: Path, statement: str, said: str
) -> None:
    source.ddl(A.create, Table("bag", key=()).create)
    source.transaction(insert(A, (1, "x", 1.5)), insert(Table("bag", key=()), (1, "x")))
    source.ddl(statement)
    log, target = source.logs[0], tmp_path / "lake"
    error = stopped(log.folder, target, ddl=ADDITIVE)
    assert isinstance(error, StatementError) and said in error.message
    assert "additive_only" in error.message
    assert (error.gtid, bool(error.hint)) == (log.gtid(3), True)
    assert last_shown(target) == {"t.a": [(1, "x", 1.5)], "t.bag": [(1, "x")]}


def test_rows_of_another_shape_stop(source: Twice, tmp_path: Path) -> None:
    narrowed(source)
    source.transaction(insert(A, (9, "x", 1.5)))
    error = stopped(
        source.logs[0].folder, tmp_path / "lake", ddl=ADDITIVE, group_max_transactions=1
    )
    assert isinstance(error, SchemaError)
    theirs, _, ours = error.message.partition(", the table has ")
    assert "v VARCHAR" in theirs and "v VARCHAR" not in ours


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t.a ADD n INT",
        "ALTER TABLE t.a DROP COLUMN v",
        "ALTER TABLE t.a COMMENT 'c', RENAME TO t.c",
        "TRUNCATE t.a",
        "DROP TABLE t.b, t.a",
        "DROP DATABASE t",
        "RENAME TABLE t.b TO t.c, t.a TO t.b",
        "RENAME TABLE t.a TO t.c",
        "ALTER TABLE t.a RENAME TO t.c",
        "ALTER TABLE t.a ALTER COLUMN d SET DEFAULT 2, RENAME TO t.c",
    ],
)
def test_policy_stop_stops_at_the_first_changing_statement(
    source: Twice, tmp_path: Path, statement: str
) -> None:
    source.ddl(A.create, Table("b").create, "CREATE INDEX i ON t.a (d)")
    source.ddl("ALTER TABLE t.a ALTER COLUMN d SET DEFAULT 1", "ALTER TABLE t.b ADD c INT FIRST")
    source.transaction(insert(A, (1, "x", 1.5)))
    source.ddl(statement)
    log, target = source.logs[0], tmp_path / "lake"
    error = stopped(log.folder, target, ddl=STOP)
    assert isinstance(error, StatementError) and "policy stop" in error.message
    assert (error.gtid, error.table) == (log.gtid(6), "t.a")
    assert last_shown(target) == {"t.a": [(1, "x", 1.5)], "t.b": []}
    assert run(log.folder, target), "with another policy it goes on"


@pytest.mark.parametrize("lost", [False, True], ids=["the same log", "another log"])
def test_policy_ignore_drop_keeps_what_the_source_drops(
    source: Twice, tmp_path: Path, lost: bool
) -> None:
    """What is dropped stays; what has its name afterwards is another table."""
    old, new = Table("a"), Table("a", (("id", "int"), ("w", "int")))
    source.ddl("CREATE DATABASE t", old.create, Table("b").create, Table("x").create)
    source.transaction(insert(old, (1, "old")))
    source.ddl("DROP TABLE t.a, t.b", "DROP TABLE IF EXISTS t.a", new.create)
    source.transaction(insert(new, (1, 5)))
    source.ddl("RENAME TABLE t.a TO t.b", "DROP TABLE t.b")
    source.transaction(insert(old, (2, "made by its rows")))
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, ddl=IGNORE)
    assert step > 20
    end = list(want.values())[-1]
    assert end == {
        "t.a": [(2, "made by its rows")], "t.a@dropped": [(1, "old")], "t.b": [(1, 5)],
        "t.b@dropped": [], "t.x": [],
    }  # fmt: skip
    before = list(shown(tmp_path / "reference").values())[5]
    assert before == {"t.a": [(1, "old")], "t.b": [], "t.x": []}


@pytest.mark.parametrize("bound", [1, 100])
def test_rows_that_a_truncation_leaves(source: Twice, tmp_path: Path, bound: int) -> None:
    a, bag = Table("a"), Table("b", key=())
    source.ddl("CREATE DATABASE t", a.create, bag.create)
    source.transaction(insert(a, (1, "old"), (2, "old")), insert(bag, (1, "old")))
    source.ddl("TRUNCATE t.a", "TRUNCATE t.b")
    source.transaction(insert(a, (1, "new")), insert(bag, (1, "old")))
    source.transaction(update(a, ((1, "new"), (2, "moved"))), delete(bag, (1, "old")))
    log, target = source.logs[0], tmp_path / "lake"
    assert run(log.folder, target, group_max_transactions=bound, ddl=IGNORE)
    assert last_shown(target) == {"t.a": [(2, "moved")], "t.b": [(1, "old")]}
    log.transaction(delete(a, (3, "none")))
    assert "Can't find record" in stopped(log.folder, target, ddl=IGNORE).message


def test_a_truncation_that_counts_takes_all(source: Twice, tmp_path: Path) -> None:
    a = Table("a")
    source.ddl(a.create, "TRUNCATE t.a")
    source.transaction(insert(a, (1, "x")))
    log, target = source.logs[0], tmp_path / "lake"
    assert run(log.folder, target, ddl=IGNORE)
    log.ddl("TRUNCATE t.a")
    log.transaction(insert(a, (1, "y")))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": [(1, "y")]}
    kept = Definitions(Control(Layout(str(target)).control))
    kept.load()
    found = [kept.at("t/a", 0, GtidSet.parse(log.gtid(1)[:-1] + f"1-{n}")) for n in (2, 4)]
    assert [one and one.truncated for one in found] == [True, False]


def test_the_status_says_which_way_was_taken(
    source: Twice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    narrowed(source)
    source.ddl("TRUNCATE t.a", "CREATE INDEX i ON t.a (d)", "DROP TABLE IF EXISTS t.none")
    source.ddl("ALTER TABLE t.a MODIFY n DOUBLE NOT NULL DEFAULT 3", "RENAME TABLE t.a TO t.c")
    source.transaction(insert(Table("by_rows"), (1, "x")))
    log, target = source.logs[0], tmp_path / "lake"
    assert run(log.folder, target, ddl={"policy": ["t.a: ignore_drop"]})
    found = status(str(target))
    rows = found["statements"]["last"]
    ways = [(row["gtid"], row["way"]) for row in rows]
    names = ["names", "rewrite", "left out", "definition only", "nothing", "rewrite", "names"]
    numbers = [1, 3, 5, 6, 7, 8, 9]
    want = [(log.gtid(number), way) for number, way in zip(numbers, names, strict=True)]
    assert ways == [(log.gtid(0), "nothing"), *want]
    assert rows[2]["statement"].startswith("ALTER TABLE t.a DROP COLUMN v")
    assert rows[2]["tables"] == "t.a" and rows[2]["seconds"] > 0
    assert found["statements"]["counts"] == {
        "nothing": 2, "names": 2, "rewrite": 2, "left out": 1, "definition only": 1
    }  # fmt: skip
    assert [t["definition"] for t in found["tables"].values()] == ["TABLE_MAP", ""]
    assert 'spark_repl_statements{channel="default",way="left out"} 1.0' in metrics(found)
    assert run(log.folder, target)
    assert status(str(target))["statements"]["last"] == rows, "also after a run without any"
    main(["status", "--target", str(target)])
    said = capsys.readouterr().out
    assert f"statement: {log.gtid(5)}, t.a: left out, " in said


def test_the_status_says_how_far_a_rewrite_is(
    source: Twice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Table("a")
    source.ddl(a.create)
    for number in range(5):
        source.transaction(insert(a, (number, "x")))
    source.ddl("ALTER TABLE t.a MODIFY id DOUBLE")
    log, target = source.logs[0], tmp_path / "lake"
    seen = []

    class Looked(Here):
        def begins(self, function: Any, tasks: Any) -> None:
            if function is alter_file:
                seen.append(status(str(target))["statements"]["rewrite"])

    monkeypatch.setattr(table_changes, "_ROUND", 1)
    options: dict[str, Any] = {"workers": 1, "group_max_transactions": 1}
    parts = replace(HERE, workers=Looked)
    assert run(log.folder, target, keys={"compact_files": 0}, parts=parts, **options)
    assert seen == [
        {"table": "t.a", "done": number, "files": 5, "gtid": log.gtid(6)} for number in range(5)
    ]
    assert status(str(target))["statements"]["rewrite"] is None


def test_the_status_shows_no_account_statement(
    source: Twice, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Nor do the log and the dump show a password or its hash."""
    caplog.set_level(logging.INFO)
    source.ddl("CREATE TABLE t.a (id INT PRIMARY KEY)")
    source.ddl("ALTER USER a@b IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$s3cret'")
    source.ddl("SET PASSWORD FOR a = 's3cret'", "CREATE SERVER s OPTIONS (PASSWORD 's3cret')")
    log, target = source.logs[0], tmp_path / "lake"
    assert run(log.folder, target)
    found = status(str(target))
    rows = found["statements"]["last"]
    assert [row["statement"] for row in rows] == ["CREATE TABLE t.a (id INT PRIMARY KEY)"]
    assert "ALTER USER a @ b IDENTIFIED WITH ? AS ?" in caplog.text
    assert main(["relay", "dump", str(log.folder)]) == 0
    shown = [caplog.text, json.dumps(found), capsys.readouterr().out]
    assert not any("s3cret" in text for text in shown)


def test_an_account_statement_of_an_earlier_version_leaves_the_status() -> None:
    row = {"gtid": "a:1", "way": "nothing", "tables": "", "seconds": 0.1, "at": "2026"}
    kept = row | {"statement": "ALTER TABLE a ADD b INT DEFAULT 'x", "tables": "t.a"}
    rows = [row | {"statement": "ALTER USER a AS 's3cret'"}, kept]
    assert StatementStatus(rows).fields()["last"] == [kept]
    assert shown_statements({"last": rows, "counts": {"nothing": 2}, "rewrite": None}) == {
        "last": [kept], "counts": {"nothing": 2}, "rewrite": None,
    }  # fmt: skip

"""mask_keys of ``[[tables]]``: columns of the key that are masked, whatever the log has of their
rows. Of a value that is hidden nothing is in a file, not even in what workers hand on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SettingError, SparkReplError, StatementError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.extra_model import carried_on
from tests.support.kept_stage import kept_too
from tests.support.local_delta import last_shown, run, stopped
from tests.support.planted import hashed, holding

A = Table("a", (("mail", "varchar(40)"), ("id", "int"), ("v", "varchar(40)")), (0,))
B = Table("b", (("id", "int"), ("mail", "varchar(40)"), ("v", "varchar(40)")), (0, 1))
SECRET = "planted-secret-hunter2"
RULE = {"match": "t.%", "mask": {"mail": "sha256"}, "mask_keys": True}
Given = dict[str, Any]


@pytest.fixture(autouse=True)
def given(mask_key: str) -> Given:
    return {"tables": [RULE], "keys": {"mask_key_env": "MASK_KEY"}}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    for table in (A, B):
        made.ddl(table.create)
    made.transaction(
        insert(A, (f"{SECRET}1", 1, "x"), (f"{SECRET}2", 2, "y")),
        insert(B, (1, f"{SECRET}1", "x"), (1, f"{SECRET}2", "y")),
    )
    return made


def m(text: str) -> str | None:
    return hashed(SECRET + text)


@pytest.mark.parametrize("mode", ["strict", "idempotent"])
@pytest.mark.parametrize("group", [1, 100])
def test_rows_with_masked_keys_are_found_and_no_file_has_the_secret(
    log: LogWriter, tmp_path: Path, given: Given, caplog: Any, mode: str, group: int
) -> None:
    """Two keys that a collation takes for one are two, as everywhere."""
    caplog.set_level(logging.DEBUG)
    lake = tmp_path / "lake"
    log.transaction(update(A, ((f"{SECRET}1", 1, "x"), (f"{SECRET}1", 7, "z"))))
    log.transaction(update(A, ((f"{SECRET}2", 2, "y"), (f"{SECRET}2".upper(), 2, "y"))))
    log.transaction(update(B, ((1, f"{SECRET}1", "x"), (1, f"{SECRET}3", "x"))))
    log.transaction(delete(B, (1, f"{SECRET}2", "y")), insert(B, (2, f"{SECRET}2", "back")))
    options = {"exec_mode": mode, "group_max_transactions": group, "workers": 2}
    assert run(log.folder, lake, parts=kept_too(lake / "kept"), **options, **given)
    shown = last_shown(lake)
    assert {*shown["t.a"]} == {(m("1"), 7, "z"), (hashed(f"{SECRET}2".upper()), 2, "y")}
    assert shown["t.b"] == [(1, m("3"), "x"), (2, m("2"), "back")]
    assert list((lake / "kept").iterdir())
    assert holding(lake, SECRET, SECRET.upper()) == []
    assert SECRET not in caplog.text
    assert run(log.folder, lake, **options, **given)


@pytest.mark.parametrize("group", [1, 100])
def test_masked_keys_follow_images_without_all_columns(
    log: LogWriter, tmp_path: Path, given: Given, group: int
) -> None:
    log.transaction(update(A, ({0: f"{SECRET}1"}, {2: "z"})), delete(A, {0: f"{SECRET}2"}))
    log.transaction(update(A, ({0: f"{SECRET}1"}, {0: f"{SECRET}3"})))
    log.transaction(update(B, ({0: 1, 1: f"{SECRET}1"}, {0: 5})))
    lake = tmp_path / "lake"
    parts = kept_too(lake / "kept")
    assert run(log.folder, lake, group_max_transactions=group, parts=parts, **given)
    shown = last_shown(lake)
    assert shown["t.a"] == [(m("3"), 1, "z")]
    assert {*shown["t.b"]} == {(5, m("1"), "x"), (1, m("2"), "y")}
    assert holding(lake, SECRET) == []


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("append", {(m("1"), "INSERT"), (m("2"), "INSERT")}),
        ("changelog", {(m("1"), "INSERT"), (m("2"), "INSERT"), (m("1"), "UPDATE_PREIMAGE"),
                       (m("3"), "UPDATE_POSTIMAGE"), (m("2"), "DELETE")}),
        ("history", {(m("1"), False), (m("2"), False), (m("3"), True)}),
    ],
)  # fmt: skip
def test_each_mode_masks_the_keys_of_its_rows(
    log: LogWriter, tmp_path: Path, given: Given, mode: str, want: Any
) -> None:
    log.transaction(update(A, ((f"{SECRET}1", 1, "x"), (f"{SECRET}3", 1, "x"))))
    log.transaction(delete(A, (f"{SECRET}2", 2, "y")))
    more = {"extra_columns": ["operation"]} if mode == "append" else {}
    given["tables"] = [{**RULE, "match": "t.a", "mode": mode, **more}]
    lake = tmp_path / "lake"
    assert run(log.folder, lake, parts=kept_too(lake / "kept"), **given)
    number = {"append": -1, "changelog": -3, "history": -1}[mode]
    assert {(row[0], row[number]) for row in last_shown(lake)["t.a"]} == want
    rows = [path for path in holding(lake, SECRET) if "b" not in path.parts]
    assert [path for path in rows if "kept" not in path.parts] == []  # t.b is not masked


_DELETE, _INSERT = delete(A, (f"{SECRET}9", 1, "x")), insert(A, (f"{SECRET}1", 1, "x"))


@pytest.mark.parametrize(
    ("change", "number", "group"), [(_DELETE, 1032, 1), (_DELETE, 1032, 100), (_INSERT, 1062, 100)]
)
def test_errors_show_the_masked_value(
    log: LogWriter, tmp_path: Path, given: Given, caplog: Any, change: Any, number: int, group: int
) -> None:
    caplog.set_level(logging.DEBUG)
    log.transaction(change)
    error = stopped(log.folder, tmp_path / "lake", group_max_transactions=group, **given)
    key = m("1") if number == 1062 else m("9")
    assert error.number == number and str(key) in str(error)
    assert SECRET not in f"{error} {error.hint} {caplog.text}"
    assert holding(tmp_path / "lake", SECRET) == []


def test_a_crash_at_any_step_leaves_masked_keys_equal(tmp_path: Path, given: Given) -> None:
    source = Twice(tmp_path)
    source.ddl(A.create)
    source.transaction(insert(A, (f"{SECRET}1", 1, "x"), (f"{SECRET}2", 2, "y")))
    source.ddl("ALTER TABLE t.a ADD w INT DEFAULT 3 FIRST")
    wide = Table("a", (("w", "int"), *A.columns), (1,))
    row = (3, f"{SECRET}1", 1, "x")
    source.transaction(update(wide, (row, (4, f"{SECRET}3", 1, "x"))))
    source.transaction(delete(wide, (3, f"{SECRET}2", 2, "y")), insert(wide, row))
    want, step = cut_off_anywhere(source, tmp_path, lost=False, **given)
    assert step > 15
    assert {*list(want.values())[-1]["t.a"]} == {(4, m("3"), 1, "x"), (3, m("1"), 1, "x")}


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        ("null", "mask null may give two rows one value: of a key's columns sha256 alone may be"),
        ("truncate:9", "mask truncate:9 may give two rows one value"),
        ("keep_last:2", "mask keep_last:2 may give two rows one value"),
        ("constant:x", "mask constant:x may give two rows one value"),
    ],
)
@pytest.mark.parametrize("table", ["a", "b"])
def test_masks_by_which_two_rows_may_be_one(
    log: LogWriter, tmp_path: Path, given: Given, mask: str, says: str, table: str
) -> None:
    rule = {"match": f"t.{table}", "mask": {"mail": mask, "v": "sha256"}, "mask_keys": True}
    error = stopped(log.folder, tmp_path / "lake", **{**given, "tables": [rule]})
    assert isinstance(error, SettingError) and "column mail is of the key" in str(error)
    assert says in str(error)


def test_a_masked_key_needs_mask_keys(log: LogWriter, tmp_path: Path, given: Given) -> None:
    """Also of a target that was made by a rule which did, and of a column that is left out."""
    lake = tmp_path / "lake"
    plain = {**given, "tables": [{**RULE, "mask_keys": False}]}
    error = stopped(log.folder, lake, **plain)
    assert isinstance(error, SettingError) and "mask_keys = true says so" in str(error)
    less = {"match": "t.a", "exclude": ["mail"], "mask": {"v": "sha256"}, "mask_keys": True}
    error = stopped(log.folder, tmp_path / "other", **{**given, "tables": [less]})
    assert isinstance(error, SettingError) and "column mail is of the key" in str(error)
    assert run(log.folder, lake, **given)
    error = stopped(log.folder, lake, **plain)
    assert isinstance(error, SettingError) and "mask_keys = true says so" in str(error)


@pytest.mark.parametrize(
    ("statement", "error", "says"),
    [
        ("ALTER TABLE t.a MODIFY mail VARCHAR(80)", StatementError, "which is masked, becomes"),
        ("ALTER TABLE t.a MODIFY mail VARBINARY(40)", StatementError, "which is masked, becomes"),
        ("ALTER TABLE t.a CONVERT TO CHARACTER SET latin1", StatementError, "which is masked, bec"),
        ("ALTER TABLE t.a RENAME COLUMN mail TO post", SettingError, "under another name"),
        ("ALTER TABLE t.a DROP PRIMARY KEY", SettingError, "has no key"),
        ("ALTER TABLE t.a PARTITION BY RANGE COLUMNS (mail) (PARTITION p VALUES LESS THAN"
         f" ('{SECRET}'), PARTITION q VALUES LESS THAN (MAXVALUE))", SettingError, "partition"),
        ("ALTER TABLE t.a PARTITION BY KEY (mail) PARTITIONS 2", SettingError, "partition"),
    ],
)  # fmt: skip
def test_statements_that_a_masked_key_can_not_follow_stop(
    log: LogWriter,
    tmp_path: Path,
    given: Given,
    statement: str,
    error: type[SparkReplError],
    says: str,
) -> None:
    log.ddl(statement)
    said = stopped(log.folder, tmp_path / "lake", **given)
    assert type(said) is error and says in str(said) and SECRET not in str(said)
    assert {*last_shown(tmp_path / "lake")["t.a"]} == {(m("1"), 1, "x"), (m("2"), 2, "y")}
    assert holding(tmp_path / "lake", SECRET) == []


def test_statements_that_keep_to_the_rule(log: LogWriter, tmp_path: Path, given: Given) -> None:
    """A key that gets, or loses, a masked column, and one of another name that is masked alike."""
    given["tables"] = [{**RULE, "mask": {"mail": "sha256", "post": "sha256"}}]
    log.ddl("ALTER TABLE t.a DROP PRIMARY KEY, ADD PRIMARY KEY (id)")
    log.ddl("ALTER TABLE t.a RENAME COLUMN mail TO post")
    log.ddl("ALTER TABLE t.a DROP PRIMARY KEY, ADD PRIMARY KEY (id, post)")
    log.ddl("ALTER TABLE t.b MODIFY v VARCHAR(99), ADD w INT DEFAULT 5")
    renamed = Table("a", (("post", "varchar(40)"), *A.columns[1:]), (1, 0))
    log.transaction(update(renamed, ((f"{SECRET}1", 1, "x"), (f"{SECRET}4", 1, "x"))))
    lake = tmp_path / "lake"
    assert run(log.folder, lake, parts=kept_too(lake / "kept"), **given)
    shown = last_shown(lake)
    assert {*shown["t.a"]} == {(m("4"), 1, "x"), (m("2"), 2, "y")}
    assert {row[-1] for row in shown["t.b"]} == {5}
    assert holding(lake, SECRET) == []


def test_cascades_from_a_masked_key_stop(tmp_path: Path, given: Given) -> None:
    """From a table whose key is masked: its children have the values, which are looked for."""
    parent = Table("a", (("id", "int"), ("v", "varchar(9)")))
    log = carried_on(tmp_path / "log", parent, [(1, "x"), (2, "y"), (3, "z")])
    rule = {"match": "t.a", "mask": {"id": "sha256"}, "mask_keys": True}
    more = {"ddl": {"cascades": "emulate"}, **given, "tables": [rule]}
    error = stopped(log.folder, tmp_path / "lake", **more)
    assert error.gtid == log.gtid(3) and "not the same rows and columns" in str(error)

"""include, exclude and mask of ``[[tables]]``: what the target has instead, whatever a crash leaves
and statements change; a secret is in no byte of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SchemaError, SettingError, SparkReplError, StatementError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.kept_stage import kept_too
from tests.support.local_delta import last_shown, run, stopped
from tests.support.planted import hashed, holding

A = Table("a", (("id", "int"), ("mail", "varchar(40)"), ("card", "varchar(40)"), ("n", "int")))
SECRET = "planted-secret-hunter2"
RULE = {"match": "t.%", "exclude": ["n"], "mask": {"mail": "sha256", "card": "keep_last:4"}}
Given = dict[str, Any]


@pytest.fixture(autouse=True)
def given(mask_key: str) -> Given:
    return {"tables": [RULE], "keys": {"mask_key_env": "MASK_KEY"}}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    made.transaction(insert(A, (1, f"{SECRET}@x", f"{SECRET}0042", 7), (2, None, "12", 8)))
    return made


ROWS = [(1, hashed(f"{SECRET}@x"), "*" * len(SECRET) + "0042"), (2, None, "**")]


@pytest.mark.parametrize("made", [True, False], ids=["by CREATE", "by its first TABLE_MAP"])
def test_masked_and_excluded_values_are_in_no_file(
    tmp_path: Path, given: Given, made: bool, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    if made:
        log.ddl(A.create)
    log.transaction(insert(A, (1, f"{SECRET}@x", f"{SECRET}0042", 7), (2, None, "12", 8)))
    log.transaction(update(A, ((1, f"{SECRET}@x", f"{SECRET}0042", 7), (1, "b", SECRET, 9))))
    log.transaction(delete(A, (2, None, "12", 8)))
    assert run(log.folder, target, parts=kept_too(target / "kept"), **given)
    assert last_shown(target) == {"t.a": [(1, hashed("b"), "*" * (len(SECRET) - 4) + SECRET[-4:])]}
    assert list((target / "kept").iterdir())
    assert holding(target, SECRET[:-4]) == [] and SECRET not in caplog.text
    assert run(log.folder, target, **given)  # a second start finds what the first has made


def test_a_crash_at_any_step_leaves_rows_masked_and_equal(tmp_path: Path, given: Given) -> None:
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", A.create)
    source.transaction(insert(A, (1, SECRET, "1234567", 7), (2, SECRET, None, 8)))
    source.ddl("ALTER TABLE t.a ADD w INT DEFAULT 3 FIRST, MODIFY n DOUBLE")
    wide = Table("a", (("w", "int"), *A.columns[:3], ("n", "double")), (1,))
    source.transaction(update(wide, ((3, 1, SECRET, "1234567", 7.0), (4, 1, "b", "7654321", 7.0))))
    source.ddl("ALTER TABLE t.a DROP COLUMN card, DROP COLUMN n")
    less = Table("a", (("w", "int"), ("id", "int"), ("mail", "varchar(40)")), (1,))
    source.transaction(insert(less, (5, 9, SECRET)))
    want, step = cut_off_anywhere(source, tmp_path, lost=False, **given)
    assert step > 15
    assert last_of(want) == [(3, 2, hashed(SECRET)), (4, 1, hashed("b")), (5, 9, hashed(SECRET))]


def last_of(want: Any) -> Any:
    return list(want.values())[-1]["t.a"]


def test_images_without_all_columns_are_masked(
    log: LogWriter, tmp_path: Path, given: Given
) -> None:
    log.transaction(update(A, ({0: 1}, {1: "new"})), update(A, ({0: 2}, {3: 5})))
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"t.a": [(1, hashed("new"), ROWS[0][2]), ROWS[1]]}


def test_only_included_columns_are_in_the_target(log: LogWriter, tmp_path: Path) -> None:
    """Scenario 157: the source has columns that the target lacks, by its own rules."""
    rule = {"match": "t.a", "include": ["ID", "card"], "mask": {"Card": "truncate:2"}}
    assert run(log.folder, tmp_path / "lake", tables=[rule])
    assert last_shown(tmp_path / "lake") == {"t.a": [(1, "pl"), (2, "12")]}


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"mask": {"id": "null"}}, "column id is of the key"),
        ({"exclude": ["id"]}, "column id is of the key"),
        ({"exclude": ["mial"]}, "the table has no column mial"),
        ({"mask": {"n": "keep_last:2"}}, "no meaning for column n"),
        ({"mask": {"n": "constant:x"}}, "no meaning for column n"),
    ],
)
def test_rules_that_a_table_has_no_room_for(
    log: LogWriter, tmp_path: Path, rule: dict[str, Any], says: str
) -> None:
    error = stopped(log.folder, tmp_path / "lake", tables=[{"match": "t.a", **rule}])
    assert isinstance(error, SettingError) and says in str(error) and error.table == "t.a"


def test_masks_are_refused_for_a_table_without_key(tmp_path: Path, given: Given) -> None:
    log, b = LogWriter(tmp_path / "log"), Table("b", A.columns, ())
    log.transaction(insert(b, (1, SECRET, "x", 7)))
    error = stopped(log.folder, tmp_path / "lake", **given)
    assert isinstance(error, SettingError) and "no key" in str(error)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("ALTER TABLE t.a RENAME COLUMN mail TO post", SettingError),
        ("ALTER TABLE t.a RENAME COLUMN n TO m", SettingError),
        ("ALTER TABLE t.a MODIFY mail VARCHAR(80)", StatementError),
        ("ALTER TABLE t.a DROP COLUMN mail, ADD mail VARCHAR(9) DEFAULT 'x'", StatementError),
        ("ALTER TABLE t.a ADD g INT AS (n + 1)", StatementError),
    ],
)
def test_statements_that_would_break_a_rule_stop(
    log: LogWriter, tmp_path: Path, given: Given, statement: str, error: type[SparkReplError]
) -> None:
    log.ddl(statement)
    assert type(stopped(log.folder, tmp_path / "lake", **given)) is error
    assert last_shown(tmp_path / "lake") == {"t.a": ROWS}


def test_a_column_under_a_name_that_has_the_same_rule(
    log: LogWriter, tmp_path: Path, given: Given
) -> None:
    given["tables"] = [{**RULE, "mask": {**RULE["mask"], "post": "sha256"}}]  # type: ignore[dict-item]
    log.ddl("ALTER TABLE t.a RENAME COLUMN mail TO post")
    renamed = Table("a", (A.columns[0], ("post", "varchar(40)"), *A.columns[2:]))
    log.transaction(insert(renamed, (3, "c", "d", 1)))
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"t.a": [*ROWS, (3, hashed("c"), "*")]}


def test_logged_columns_that_no_statement_has_made(
    log: LogWriter, tmp_path: Path, given: Given
) -> None:
    other = Table("a", (*A.columns, ("w", "varchar(40)")))
    log.transaction(insert(other, (3, SECRET, SECRET, 1, SECRET)))
    error = stopped(log.folder, tmp_path / "lake", **given)
    assert isinstance(error, SchemaError) and holding(tmp_path / "lake", SECRET) == []


@pytest.mark.parametrize("change", ["another key", "another mask", "no rule", "a rule again"])
def test_other_rules_than_the_table_was_made_with(
    log: LogWriter, tmp_path: Path, given: Given, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change == "a rule again":
        assert run(log.folder, tmp_path / "lake")
    else:
        assert run(log.folder, tmp_path / "lake", **given)
    if change == "another key":
        monkeypatch.setenv("MASK_KEY", "another")
    elif change == "another mask":
        given["tables"] = [{**RULE, "mask": {"mail": "sha256"}}]
    elif change == "no rule":
        given["tables"] = []
    error = stopped(log.folder, tmp_path / "lake", **given)
    assert isinstance(error, SettingError) and "than the table was made with" in str(error)
    key = change == "another key"
    assert ("secret key" in str(error), "target.mask_key_env" in (error.hint or "")) == (key, key)


def test_all_tables_that_were_made_otherwise_are_named(
    log: LogWriter, tmp_path: Path, given: Given
) -> None:
    for name in ("b", "c", "d"):
        log.ddl(Table(name, A.columns).create)
    assert run(log.folder, tmp_path / "lake", **given)
    there = last_shown(tmp_path / "lake")
    plain = {"match": "t.b"}
    filtered = {"match": "t.c", "row_filter": "id > 1", **{k: RULE[k] for k in ("exclude", "mask")}}
    more = {**RULE, "match": "t.d", "mode": "changelog"}
    error = stopped(
        log.folder, tmp_path / "lake", **{**given, "tables": [plain, filtered, more, RULE]}
    )
    assert isinstance(error, SettingError) and error.table == "t.b, t.c, t.d"
    for said in ("t.b: include, exclude or mask", "t.c: row_filter", "t.d: mode"):
        assert said in str(error)
    assert run(log.folder, tmp_path / "lake", **given) and last_shown(tmp_path / "lake") == there

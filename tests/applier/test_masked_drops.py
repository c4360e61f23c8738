"""A column that a rule for one table hides is dropped on the source: the rule may name it still, as
it hides nothing that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.records.channels import channel_at
from spark_repl.errors import SettingError
from spark_repl.verify.cut_files import CutDefinitions
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import LocalDelta, cuts, last_shown, run, stopped

A = Table("a", (("id", "int"), ("mail", "varchar(40)"), ("n", "int")))
B = Table("a", (("id", "int"), ("n", "int")))
HIDING: list[dict[str, Any]] = [
    {"mask": {"mail": "keep_last:1"}},
    {"exclude": ["Mail"]},
    {"include": ["id", "mail", "n"]},
]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl(A.create)
    made.transaction(insert(A, (1, "x", 7)))
    return made


@pytest.mark.parametrize("rule", HIDING)
def test_a_rule_may_name_a_hidden_column_that_was_dropped(
    log: LogWriter, tmp_path: Path, rule: dict[str, Any]
) -> None:
    rules, target = [{"match": "t.a", **rule}], tmp_path / "lake"
    assert run(log.folder, target, tables=rules)
    log.ddl("ALTER TABLE t.a DROP mail")
    log.transaction(insert(B, (2, 8)))
    assert run(log.folder, target, tables=rules)
    log.ddl("ALTER TABLE t.a ADD w INT")
    log.transaction(insert(Table("a", (*B.columns, ("w", "int"))), (3, 9, 1)))
    included = "include" in rule
    for now in (rules, [], rules):
        if included and not now:
            continue
        assert run(log.folder, target, tables=now)
        rows = [(1, 7), (2, 8), (3, 9)]
        wide = [*rows] if included else [(1, 7, None), (2, 8, None), (3, 9, 1)]
        assert last_shown(target) == {"t.a": wide}
        log.ddl("CREATE TABLE IF NOT EXISTS t.a (id INT)")


@pytest.mark.parametrize("rule", HIDING)
@pytest.mark.parametrize("way", ["follow", "fold"])
@pytest.mark.parametrize(("copy", "old"), [("_a_gho", "_a_del"), ("_a_new", "_a_old")])
def test_an_online_tool_may_drop_a_hidden_column(
    log: LogWriter, tmp_path: Path, copy: str, old: str, way: str, rule: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"tables": [{"match": "t.a", **rule}], "ddl": {"online_tools": way}}
    target = tmp_path / "lake"
    assert run(log.folder, target, **given)
    log.ddl(f"CREATE TABLE t.{copy} LIKE t.a")
    log.ddl(f"ALTER TABLE t.{copy} DROP mail")
    log.transaction(insert(Table(copy, B.columns), (1, 7)))
    assert run(log.folder, target, **given)
    log.ddl(f"RENAME TABLE t.a TO t.{old}, t.{copy} TO t.a")
    assert run(log.folder, target, **given)
    log.ddl(f"DROP TABLE t.{old}")
    log.transaction(insert(B, (2, 8)))
    assert run(log.folder, target, **given)
    assert last_shown(target) == {"t.a": [(1, 7), (2, 8)]}


def test_a_name_that_the_table_never_had_stops(log: LogWriter, tmp_path: Path) -> None:
    rules = [{"match": "t.a", "mask": {"mail": "null"}}]
    assert run(log.folder, tmp_path / "lake", tables=rules)
    log.ddl("ALTER TABLE t.a DROP mail")
    assert run(log.folder, tmp_path / "lake", tables=rules)
    rules[0]["mask"] = {"male": "null"}
    error = stopped(log.folder, tmp_path / "lake", tables=rules)
    assert isinstance(error, SettingError) and "the table has no column male" in str(error)


def test_renaming_a_masked_column_stops(log: LogWriter, tmp_path: Path) -> None:
    rules = [{"match": "t.a", "mask": {"mail": "null"}}]
    log.ddl("ALTER TABLE t.a RENAME COLUMN mail TO post")
    error = stopped(log.folder, tmp_path / "lake", tables=rules)
    assert isinstance(error, SettingError) and "masked otherwise" in str(error)


@pytest.mark.parametrize("match", ["t.a", "t.%"])
@pytest.mark.parametrize(
    "clause",
    ["RENAME COLUMN mail TO post", "CHANGE mail post VARCHAR(40)", "CHANGE mail post TEXT"],
)
def test_another_name_that_include_does_not_list_stops(
    log: LogWriter, tmp_path: Path, clause: str, match: str
) -> None:
    """It would take the column, and what the target has of it, out of the target."""
    rules = [{"match": match, "include": ["id", "mail", "n"]}]
    log.ddl(f"ALTER TABLE t.a {clause}")
    error = stopped(log.folder, tmp_path / "lake", tables=rules)
    assert isinstance(error, SettingError) and error.table == "t.a"
    assert "column post was shown under another name" in str(error)
    assert last_shown(tmp_path / "lake") == {"t.a": [(1, "x", 7)]}


@pytest.mark.parametrize("way", ["follow", "fold"])
def test_another_name_in_a_tools_copy_stops(log: LogWriter, tmp_path: Path, way: str) -> None:
    rules = [{"match": "t.a", "include": ["id", "mail", "n"]}]
    log.ddl("CREATE TABLE t._a_gho LIKE t.a")
    log.ddl("ALTER TABLE t._a_gho CHANGE mail post VARCHAR(40)")
    given: dict[str, Any] = {"tables": rules, "ddl": {"online_tools": way}}
    error = stopped(log.folder, tmp_path / "lake", **given)
    assert isinstance(error, SettingError) and error.table == "t._a_gho"


def test_another_name_beside_another_column_of_the_old_one(log: LogWriter, tmp_path: Path) -> None:
    rules = [{"match": "t.%", "exclude": ["post"]}]
    log.ddl("ALTER TABLE t.a RENAME COLUMN mail TO post, ADD mail INT")
    error = stopped(log.folder, tmp_path / "lake", tables=rules)
    assert isinstance(error, SettingError) and "was shown under another name" in str(error)


@pytest.mark.parametrize("rule", HIDING)
def test_drop_column_and_another_name_in_one_statement(
    log: LogWriter, tmp_path: Path, rule: dict[str, Any]
) -> None:
    rules, target = [{"match": f"t.{name}", **rule} for name in "ab"], tmp_path / "lake"
    log.ddl("ALTER TABLE t.a DROP mail, RENAME TO t.b")
    log.transaction(insert(Table("b", B.columns), (2, 8)))
    assert run(log.folder, target, tables=rules)
    assert last_shown(target) == {"t.b": [(1, 7), (2, 8)]}


def test_a_column_added_again_without_its_rule_is_plain(log: LogWriter, tmp_path: Path) -> None:
    """``verify`` compares with each cut's own masks."""
    rules, target = [{"match": "t.a", "mask": {"mail": "keep_last:1"}}], tmp_path / "lake"
    assert run(log.folder, target, tables=rules)
    log.ddl("ALTER TABLE t.a DROP mail")
    assert run(log.folder, target, tables=rules)
    log.ddl("ALTER TABLE t.a ADD mail VARCHAR(40)")
    log.transaction(insert(Table("a", (*B.columns, ("mail", "varchar(40)"))), (2, 8, "plain")))
    assert run(log.folder, target)
    assert last_shown(target) == {"t.a": [(1, 7, None), (2, 8, "plain")]}
    channel = channel_at(str(target))
    definitions = CutDefinitions(channel.control, channel.layout, LocalDelta())
    masks = [
        [(c.name, c.mask) for c in found.columns]
        for cut in cuts(target) if (at := cut.tables.get("t.a"))
        and (found := definitions.of(cut, at))
    ]  # fmt: skip
    assert masks[0] == [("id", ""), ("mail", "keep_last:1"), ("n", "")]
    assert masks[-1] == [("id", ""), ("n", ""), ("mail", "")]

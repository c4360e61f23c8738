"""Rules with upper-case names beside a source whose log has not said yet whether it folds names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SettingError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import last_shown, run, stopped
from tests.support.planted import holding

USERS = Table("users", (("id", "int"), ("mail", "varchar(40)")))
SECRET = "planted-secret-hunter2"
RULES = [
    {"mask": {"mail": "null"}}, {"exclude": ["mail"]}, {"row_filter": "id > 5"},
    {"mode": "changelog"},
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "log")


@pytest.mark.parametrize("rule", RULES)
def test_what_the_log_shows_in_the_middle_of_a_batch(
    log: LogWriter, tmp_path: Path, rule: dict[str, Any]
) -> None:
    """Rows that were read before are not applied by no rule; the next start knows."""
    log.ddl("CREATE TABLE T.Users (id INT PRIMARY KEY, mail VARCHAR(40))", "T")
    log.transaction(insert(USERS, (1, SECRET)), insert(USERS, (7, SECRET)))
    rules, target = [{"match": "T.Users", **rule}], tmp_path / "lake"
    error = stopped(log.folder, target, tables=rules)
    assert isinstance(error, SettingError) and error.table == "t.users"
    assert error.hint == "start again: it is on record now"
    assert holding(target, SECRET) == []
    assert run(log.folder, target, tables=rules)
    (rows,) = last_shown(target).values()
    assert len(rows) == (1 if "row_filter" in rule else 2)
    if "mode" not in rule and "row_filter" not in rule:
        assert holding(target, SECRET) == [] and rows[0][0] == 1


@pytest.mark.parametrize("rule", RULES)
def test_what_the_log_never_says(log: LogWriter, tmp_path: Path, rule: dict[str, Any]) -> None:
    log.transaction(insert(USERS, (1, SECRET), (7, SECRET)))
    rules, target = [{"match": "T.Users", **rule}], tmp_path / "lake"
    error = stopped(log.folder, target, tables=rules)
    assert isinstance(error, SettingError) and "does not say whether" in str(error)
    assert "lower_case_table_names" in (error.hint or "")
    assert holding(target, SECRET) == []
    assert run(log.folder, target, tables=rules, source={"lower_case_table_names": 0})
    assert last_shown(target) == {"t.users": [(1, SECRET), (7, SECRET)]}, "it is another table"


def test_a_rule_that_says_the_same_of_both(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(USERS, (1, "x")))
    rules = [{"match": "t.users", "mask": {"mail": "null"}}, {"match": "T.%", "exclude": ["mail"]}]
    assert run(log.folder, tmp_path / "lake", tables=rules)
    assert last_shown(tmp_path / "lake") == {"t.users": [(1, None)]}


@pytest.mark.parametrize(
    "filters",
    [{"do_table": ["T.Users"]}, {"ignore_table": ["T.Users"]}, {"wild_do_table": ["T.%"]},
     {"do_db": ["T"]}],
)  # fmt: skip
def test_filters_that_would_decide_otherwise(
    log: LogWriter, tmp_path: Path, filters: dict[str, Any]
) -> None:
    log.ddl("CREATE TABLE T.Users (id INT PRIMARY KEY, mail VARCHAR(40))", "T")
    log.transaction(insert(USERS, (1, "x")))
    target = tmp_path / "lake"
    error = stopped(log.folder, target, filters=filters)
    assert isinstance(error, SettingError) and "with other letters" in str(error)
    assert error.table == "t.users" and "lower_case_table_names" in (error.hint or "")
    given: dict[str, Any] = {"filters": filters, "source": {"lower_case_table_names": 1}}
    assert run(log.folder, target, **given)
    shown = last_shown(target)
    assert shown == ({} if "ignore_table" in filters else {"t.users": [(1, "x")]})


def test_filters_that_decide_the_same_either_way(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(USERS, (1, "x")))
    assert run(log.folder, tmp_path / "lake", filters={"do_table": ["t.users", "T.Others"]})
    assert last_shown(tmp_path / "lake") == {"t.users": [(1, "x")]}

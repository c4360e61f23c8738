"""A table of one column with a row filter, and the tables that online schema-change tools create
from it. They are distinguished from gh-ost's own table, which also has one column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import last_shown, run

A = Table("a", (("id", "int"),))
WIDE = Table("a", (("id", "int"), ("n", "int")))
RULES: list[dict[str, Any]] = [{"match": "t.a", "row_filter": "id > 5"}]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl(A.create)
    made.transaction(insert(A, (1,), (6,)))
    return made


def test_filtered_rows_of_a_table_of_one_column_follow_the_log(
    log: LogWriter, tmp_path: Path
) -> None:
    assert run(log.folder, tmp_path / "lake", tables=RULES)
    log.transaction(delete(A, (1,), (6,)), insert(A, (2,), (7,)))
    assert run(log.folder, tmp_path / "lake", tables=RULES)
    assert last_shown(tmp_path / "lake") == {"t.a": [(7,)]}


@pytest.mark.parametrize("way", ["follow", "fold"])
@pytest.mark.parametrize(("copy", "old"), [("_a_gho", "_a_del"), ("_a_new", "_a_old")])
def test_tools_copies_of_a_table_of_one_column_are_recognised(
    log: LogWriter, tmp_path: Path, copy: str, old: str, way: str
) -> None:
    given: dict[str, Any] = {"tables": RULES, "ddl": {"online_tools": way}}
    target = tmp_path / "lake"
    log.ddl(f"CREATE TABLE t.{copy} LIKE t.a")
    log.transaction(insert(Table(copy, A.columns), (1,), (6,)))
    log.ddl("CREATE TABLE t._a_del (id INT AUTO_INCREMENT PRIMARY KEY)")
    assert run(log.folder, target, **given)
    log.ddl("DROP TABLE t._a_del")
    log.ddl(f"RENAME TABLE t.a TO t.{old}, t.{copy} TO t.a")
    for _ in range(2):
        assert run(log.folder, target, **given)
        log.ddl(f"ALTER TABLE t.{old} COMMENT = 'old'")
    log.transaction(insert(A, (2,), (7,)))
    assert run(log.folder, target, **given)
    assert last_shown(target)["t.a"] == [(6,), (7,)]
    if way == "follow":
        log.transaction(insert(Table(old, A.columns), (3,), (8,)))
        assert run(log.folder, target, **given)
        assert last_shown(target)[f"t.{old}"] == [(6,), (8,)]

"""What a TRUNCATE says of rows, and what a statement makes of those that say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import StatementError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.extra_model import FIRST, T, begun
from tests.support.local_delta import last_shown, run, stopped


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    "given",
    [{"mode": "changelog", "extra_columns": ["source_table"]},
     {"extra_columns": ["source_table", "operation", "deleted"]}],
    ids=["changelog", "deleted"],
)  # fmt: skip
def test_the_sources_name_of_a_table_that_was_renamed(
    log: LogWriter, tmp_path: Path, given: dict[str, Any], again: bool
) -> None:
    """In a target that calls it otherwise, in one run or another than the RENAME."""
    options = {"tables": [{"match": "t.%", "to": "u.%", **given}]}
    log.ddl("RENAME TABLE t.a TO t.b")
    if again:
        assert run(log.folder, tmp_path / "lake", **options)
    log.ddl("TRUNCATE t.b")
    log.transaction(insert(Table("b", T.columns), FIRST[0]))
    assert run(log.folder, tmp_path / "lake", **options)
    rows = last_shown(tmp_path / "lake")["u.b"]
    named = {row[3] for row in rows if "TRUNCATE" in row}
    assert named == {"t.b"}


@pytest.mark.parametrize("mode", ["append", "changelog"])
@pytest.mark.parametrize(
    "text",
    ["ADD y INT AS (IFNULL(YEAR(d), 77)) STORED", "MODIFY d VARCHAR(20) NOT NULL"],
)
def test_a_zero_date_that_is_null_where_none_may_be(
    log: LogWriter, tmp_path: Path, mode: str, text: str
) -> None:
    """What a statement makes of it is not known, in a changelog's rows either."""
    options = {"keys": {"zero_dates": "null"}, "tables": [{"match": "t.a", "mode": mode}]}
    log.ddl("ALTER TABLE t.a ADD d DATE NOT NULL")
    log.ddl(f"ALTER TABLE t.a {text}")
    error = stopped(log.folder, tmp_path / "lake", **options)
    assert isinstance(error, StatementError) and "zero dates, maybe" in str(error)
    assert {row[3] for row in last_shown(tmp_path / "lake")["t.a"]} == {None}


def test_a_date_that_a_truncate_says_nothing_of(log: LogWriter, tmp_path: Path) -> None:
    """Is no zero date, nor one that was NULL before the column could have none."""
    tables = [{"match": "t.a", "mode": "changelog"}]
    log.ddl("ALTER TABLE t.a ADD d DATE NOT NULL DEFAULT '2024-05-06'")
    log.ddl("TRUNCATE t.a")
    log.ddl("ALTER TABLE t.a ADD y INT AS (IFNULL(YEAR(d), 77)) STORED")
    assert run(log.folder, tmp_path / "null", keys={"zero_dates": "null"}, tables=tables)
    rows = last_shown(tmp_path / "null")["t.a"]
    assert {(row[0], row[4]) for row in rows} == {(1, 2024), (2, 2024), (3, 2024), (None, 77)}
    other = begun(tmp_path / "other")
    other.ddl("ALTER TABLE t.a ADD d DATE")
    other.ddl("ALTER TABLE t.a MODIFY d DATE NOT NULL")
    other.ddl("ALTER TABLE t.a ADD y INT AS (IFNULL(YEAR(d), 77)) STORED")
    assert run(other.folder, tmp_path / "error", tables=tables)
    assert {row[4] for row in last_shown(tmp_path / "error")["t.a"]} == {77}

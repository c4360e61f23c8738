"""extra_columns of ``[[tables]]``, and statements: what they leave, mark, and have no room for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SettingError, StatementError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.extra_model import FIRST, T, begun, rule, told
from tests.support.local_delta import last_shown, run, stopped

STRICT = b"\1" + (1 << 22).to_bytes(8, "little")
"""a session's sql_mode"""


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def test_a_truncate_marks_the_rows_as_deleted(log: LogWriter, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    log.transaction(delete(T, FIRST[0]))
    log.ddl("TRUNCATE t.a")
    log.transaction(insert(T, (2, 0, "new")))
    for policy in ("apply", "ignore_drop"):
        assert run(log.folder, lake / policy, **rule(on_ddl=policy))
        assert last_shown(lake / policy)["t.a"] == [
            (1, 1, "x", *told(log, 4, "DELETE")),
            (2, 0, "new", *told(log, 6, "INSERT")),
            (3, None, "z", *told(log, 5, "TRUNCATE")),
        ]
    assert run(log.folder, lake / "gone", **rule("operation"))
    assert last_shown(lake / "gone")["t.a"] == [(2, 0, "new", "INSERT")]
    error = stopped(log.folder, lake / "stop", **rule(on_ddl="stop"))
    assert isinstance(error, SettingError)


def test_statements_keep_extra_columns_at_the_end(log: LogWriter, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    log.transaction(delete(T, FIRST[0]))
    log.ddl("ALTER TABLE t.a ADD g INT AS (n + 1) STORED, MODIFY v VARCHAR(80), ADD w INT FIRST")
    log.ddl("ALTER TABLE t.a RENAME COLUMN n TO m, DROP COLUMN g, ADD k BIGINT DEFAULT 4")
    log.ddl("RENAME TABLE t.a TO t.a2")
    columns = (("w", "int"), ("id", "int"), ("m", "int"), ("v", "varchar(80)"), ("k", "int"))
    assert run(log.folder, lake, **rule(match="t.a%"))
    first = told(log, 3, "INSERT")
    want = [(None, *row, 4, *first) for row in FIRST[1:]]
    assert last_shown(lake)["t.a2"] == [(None, *FIRST[0], 4, *told(log, 4, "DELETE")), *want]
    log.ddl("ALTER TABLE t.a2 MODIFY k INT, DROP PRIMARY KEY, ADD PRIMARY KEY (m, id)")
    log.ddl("ALTER TABLE t.a2 MODIFY id INT AFTER w")
    renamed = Table("a2", columns, (2, 1))
    log.transaction(update(renamed, ((None, 2, 5, "y", 4), (0, 2, 5, "y", 4))))
    log.ddl("ALTER TABLE t.a2 MODIFY id BIGINT")
    assert run(log.folder, lake, **rule(match="t.a%"))
    assert (0, 2, 5, "y", 4, *told(log, 10, "UPDATE", "t.a2")) in last_shown(lake)["t.a2"]


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("ALTER TABLE t.a DROP PRIMARY KEY, ADD PRIMARY KEY (n)", "id"),
        ("ALTER TABLE t.a DROP PRIMARY KEY, ADD PRIMARY KEY (id)", "n"),
        ("ALTER TABLE t.a MODIFY id TINYINT", "id"),
        ("ALTER TABLE t.a DROP COLUMN n", "n"),
    ],
)
def test_a_key_by_which_deleted_rows_may_be_others(
    tmp_path: Path, statement: str, column: str
) -> None:
    """A key that the source's rows have room for, where two of the target's might be one."""
    log, wide = LogWriter(tmp_path / "log"), Table("a", T.columns, (0, 1))
    log.ddl(wide.create)
    log.transaction(insert(wide, (1, 1, "x"), (1000, 5, "y")))
    log.transaction(update(wide, ((1, 1, "x"), (1, 2, "x"))), delete(wide, (1000, 5, "y")))
    log.ddl(statement)
    error = stopped(log.folder, tmp_path / "lake", copies=True, **rule())
    assert isinstance(error, SettingError) and error.table == "t.a"
    assert f"column {column} does not tell its rows apart as it did" in str(error)
    assert run(log.folder, tmp_path / "gone", **rule("gtid"))


@pytest.mark.parametrize("strict", [True, False])
def test_nulls_of_deleted_rows_in_a_column_that_may_have_none(
    log: LogWriter, tmp_path: Path, strict: bool
) -> None:
    log.transaction(delete(T, FIRST[2]))
    log.ddl("ALTER TABLE t.a MODIFY n INT NOT NULL", status=STRICT if strict else b"")
    if strict:
        error = stopped(log.folder, tmp_path / "lake", copies=True, **rule())
        assert isinstance(error, StatementError) and "there are NULLs" in str(error)
    else:
        assert run(log.folder, tmp_path / "lake", **rule())
    found = [row[:3] for row in last_shown(tmp_path / "lake")["t.a"]]
    assert found == [*FIRST[:2], (3, None if strict else 0, "z")]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ALTER TABLE t.a ADD _GTID INT", "has a column _gtid, too"),
        ("ALTER TABLE t.a RENAME COLUMN v TO _deleted", "has a column _deleted, too"),
        ("ALTER TABLE t.a DROP PRIMARY KEY", "the table has no key"),
        ("RENAME TABLE t.a TO t.c", "which has other extra_columns (none, not source_table"),
        ("ALTER TABLE t.a ADD w INT, RENAME TO t.c", "which has other extra_columns"),
        ("RENAME TABLE t.b TO t.c, t.a TO t.b", "which has other extra_columns"),
    ],
)
def test_statements_that_it_has_no_room_for(
    log: LogWriter, tmp_path: Path, statement: str, says: str
) -> None:
    log.ddl(Table("b").create)
    assert run(log.folder, tmp_path / "lake", **rule())
    before = last_shown(tmp_path / "lake")
    log.ddl(statement)
    error = stopped(log.folder, tmp_path / "lake", **rule())
    assert isinstance(error, SettingError) and says in str(error) and error.table == "t.a"
    assert last_shown(tmp_path / "lake") == before


def test_a_dropped_partition_stops_if_deleted_rows_are_kept(tmp_path: Path) -> None:
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(
        f"{T.create} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (3),"
        " PARTITION q VALUES LESS THAN (9))"
    )
    log.transaction(insert(T, *FIRST))
    log.ddl("ALTER TABLE t.a DROP PARTITION p")
    error = stopped(log.folder, lake / "kept", **rule())
    assert isinstance(error, SettingError) and "the rows of a partition go" in str(error)
    assert run(log.folder, lake / "gone", **rule("gtid"))
    assert last_shown(lake / "gone")["t.a"] == [(*FIRST[2], log.gtid(1))]


def test_the_policy_additive_only_is_refused_with_extra_columns(
    log: LogWriter, tmp_path: Path
) -> None:
    log.ddl("ALTER TABLE t.a DROP COLUMN n")
    kept = {"policy": ["t.a: additive_only"]}
    error = stopped(log.folder, tmp_path / "lake", ddl=kept, **rule())
    assert isinstance(error, SettingError) and "additive_only" in str(error)


def test_a_dropped_table_that_comes_again(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("DROP TABLE t.a")
    log.ddl(T.create)
    log.transaction(insert(T, (2, 0, "new")))
    assert run(log.folder, tmp_path / "lake", **rule("deleted"))
    assert last_shown(tmp_path / "lake") == {"t.a": [(2, 0, "new", False)]}


def test_rows_of_which_the_log_says_nothing(log: LogWriter, tmp_path: Path) -> None:
    """A copy would have no deleted row, so the applier does not copy tables that keep them."""
    log.transaction(delete(T, FIRST[0]))
    log.ddl("ALTER TABLE t.a DISCARD TABLESPACE")
    error = stopped(log.folder, tmp_path / "lake", copies=True, **rule())
    assert isinstance(error, StatementError) and error.table == "t.a"
    assert len(last_shown(tmp_path / "lake")["t.a"]) == 3
    assert run(log.folder, tmp_path / "other", copies=True, **rule("gtid"))
    assert last_shown(tmp_path / "other") == {}


@pytest.mark.parametrize(
    "kept", [{"extra_columns": ["deleted"]}, {"mode": "append"}, {"mode": "history"}]
)
def test_a_tool_s_copy_that_has_the_source_s_rows_alone(
    log: LogWriter, tmp_path: Path, kept: dict[str, Any]
) -> None:
    made = Table("_a_gho", (*T.columns, ("w", "int")))
    log.transaction(delete(T, FIRST[0]))
    log.ddl("CREATE TABLE t._a_gho LIKE t.a")
    log.ddl("ALTER TABLE t._a_gho ADD w INT")
    log.transaction(insert(made, *((*row, None) for row in FIRST[1:])))
    log.ddl("RENAME TABLE t.a TO t._a_del, t._a_gho TO t.a")
    given = {"tables": [{"match": "t.%", **kept}]}
    error = stopped(log.folder, tmp_path / "follow", ddl={"online_tools": "follow"}, **given)
    assert isinstance(error, SettingError) and error.table == "t.a"
    assert "t._a_gho, an online schema-change tool's, would take its place" in str(error)
    assert run(log.folder, tmp_path / "fold", ddl={"online_tools": "fold"}, **given)
    assert [row[:4] for row in last_shown(tmp_path / "fold")["t.a"]] == [
        (*row, None) for row in FIRST
    ]
    plain = {"tables": [{"match": "t.%", "extra_columns": ["gtid"]}]}
    assert run(log.folder, tmp_path / "plain", ddl={"online_tools": "follow"}, **plain)


def test_a_tool_s_copy_where_no_table_is(log: LogWriter, tmp_path: Path) -> None:
    """As gh-ost leaves its copy when it is stopped; the user then renames the copy to the table
    that was dropped."""
    log.ddl("CREATE TABLE t._a_gho LIKE t.a")
    log.transaction(insert(Table("_a_gho", T.columns), (9, 9, "new")))
    log.ddl("DROP TABLE t.a")
    log.ddl("RENAME TABLE t._a_gho TO t.a")
    assert run(log.folder, tmp_path / "lake", ddl={"online_tools": "follow"}, **rule(match="t.%"))
    assert [row[:3] for row in last_shown(tmp_path / "lake")["t.a"]] == [(9, 9, "new")]

"""mode = "history" of ``[[tables]]``, and statements: what becomes of versions, and what stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.errors import ConfigError, SettingError, StatementError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.extra_model import FIRST, T, begun
from tests.support.local_delta import last_shown, run, stopped
from tests.support.version_model import VersionModel, current, moment, versions

STRICT = b"\1" + (1 << 22).to_bytes(8, "little")
"""a session's sql_mode"""


def rule(match: str = "t.a", mode: str = "history", **more: Any) -> dict[str, Any]:
    return {"tables": [{"match": match, "mode": mode, **more}]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def flagged(rows: list[Any]) -> list[Any]:
    return [(*row[:-5], row[-1]) for row in rows]


def test_statements_change_versions_as_rows(log: LogWriter, tmp_path: Path) -> None:
    """Of whatever key: those that are current are found by the key that the table has."""
    lake = tmp_path / "lake"
    log.transaction(update(T, (FIRST[0], (1, 2, "xx"))), delete(T, FIRST[2]))
    log.ddl("ALTER TABLE t.a ADD w BIGINT DEFAULT 7, MODIFY v VARCHAR(80)")
    log.ddl("ALTER TABLE t.a DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)")
    log.ddl("ALTER TABLE t.a RENAME COLUMN v TO u")
    log.ddl("RENAME TABLE t.a TO t.a2")
    wide = Table("a2", (*T.columns[:2], ("u", "varchar(80)"), ("w", "int")), (2, 0))
    log.ddl("ALTER TABLE t.a2 MODIFY w INT")
    log.transaction(update(wide, ((1, 2, "xx", 7), (1, 5, "xx", 1))), delete(wide, (2, 5, "y", 7)))
    log.transaction(update(wide, ((1, 5, "xx", 1), (1, 5, "x", 1))))
    for number, bound in enumerate((1, 100)):
        assert run(log.folder, lake / str(number), group_max_transactions=bound, **rule("t.a%"))
        assert flagged(versions(lake / str(number), table="t.a2")) == [
            (1, 1, "x", 7, False), (2, 5, "y", 7, False), (3, None, "z", 7, False),
            (1, 2, "xx", 7, False), (1, 5, "xx", 1, False), (1, 5, "x", 1, True),
        ]  # fmt: skip
    log.ddl("DROP TABLE t.a2")
    assert run(log.folder, lake / "0", **rule("t.a%"))
    assert last_shown(lake / "0") == {}


def test_a_truncate_ends_all_current_versions(log: LogWriter, tmp_path: Path) -> None:
    lake, model = tmp_path / "lake", VersionModel(log)
    model.first(FIRST)
    model.transaction(model.delete(1))
    log.ddl("TRUNCATE t.a")
    model.truncate()
    model.transaction(model.insert((2, 0, "new")))
    log.ddl("TRUNCATE t.a")
    model.truncate()
    assert run(log.folder, lake, **rule())
    assert versions(lake) == model.rows
    error = stopped(log.folder, lake / "stop", **rule(on_ddl="stop"))
    assert isinstance(error, SettingError)


def test_a_truncate_that_is_to_be_passed_over(log: LogWriter, tmp_path: Path) -> None:
    """What stays is current until its key comes again."""
    log.ddl("TRUNCATE t.a")
    log.transaction(insert(T, (1, 7, "new")), update(T, ((1, 7, "new"), (1, 8, "new"))))
    assert run(log.folder, tmp_path / "lake", **rule(on_ddl="ignore_drop"))
    first, new = moment(log, 3), moment(log, 5)
    assert versions(tmp_path / "lake") == [
        (1, 1, "x", *first, *new, False), (2, 5, "y", *first, None, None, True),
        (3, None, "z", *first, None, None, True), (1, 7, "new", *new, *new, False),
        (1, 8, "new", *new, None, None, True),
    ]  # fmt: skip


def test_a_history_of_a_table_without_key_is_refused(log: LogWriter, tmp_path: Path) -> None:
    bag, lake = Table("bag", T.columns, ()), tmp_path / "lake"
    log.ddl(bag.create)
    error = stopped(log.folder, lake, **rule("t.%"))
    assert isinstance(error, SettingError) and error.table == "t.bag"
    assert "the table has no key, by which the versions of a row are found" in str(error)
    other = begun(tmp_path / "other")
    other.ddl("ALTER TABLE t.a DROP PRIMARY KEY")
    error = stopped(other.folder, tmp_path / "keyless", **rule())
    assert isinstance(error, SettingError) and "the table has no key" in str(error)
    assert current(versions(tmp_path / "keyless")) == FIRST


@pytest.mark.parametrize("mode", ["append", "history"])
def test_nulls_of_rows_that_the_source_has_not(log: LogWriter, tmp_path: Path, mode: str) -> None:
    log.transaction(delete(T, FIRST[2]))
    log.ddl("ALTER TABLE t.a MODIFY n INT NOT NULL", status=STRICT)
    error = stopped(log.folder, tmp_path / "lake", copies=True, **rule(mode=mode))
    assert isinstance(error, StatementError) and "there are NULLs" in str(error)


def test_nulls_of_a_changelog_stay(log: LogWriter, tmp_path: Path) -> None:
    """Whose columns are nullable, for the rows of TRUNCATE."""
    log.transaction(delete(T, FIRST[2]))
    log.ddl("ALTER TABLE t.a MODIFY n INT NOT NULL", status=STRICT)
    assert run(log.folder, tmp_path / "lake", **rule(mode="changelog"))
    shown = last_shown(tmp_path / "lake")["t.a"]
    assert sorted(row[0] for row in shown if row[1] is None) == [3, 3]


@pytest.mark.parametrize("what", ["DROP PARTITION p", "TRUNCATE PARTITION p", "DISCARD TABLESPACE"])
def test_rows_that_go_and_the_log_has_no_image_of(tmp_path: Path, what: str) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(
        f"{T.create} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (3),"
        " PARTITION q VALUES LESS THAN (9))"
    )
    log.transaction(insert(T, *FIRST))
    log.ddl(f"ALTER TABLE t.a {what}")
    error = stopped(log.folder, tmp_path / "lake", copies=True, **rule())
    assert isinstance(error, StatementError) and error.table == "t.a"
    assert current(versions(tmp_path / "lake")) == FIRST


def test_an_online_tool_s_copy_does_not_take_a_changelog_s_place(tmp_path: Path) -> None:
    log, copy = begun(tmp_path / "log"), Table("_a_gho", T.columns)
    log.ddl(copy.create)
    log.transaction(insert(copy, FIRST[0]))
    log.ddl("RENAME TABLE t.a TO t._a_del, t._a_gho TO t.a")
    error = stopped(
        log.folder, tmp_path / "lake", ddl={"online_tools": "follow"}, **rule("t.%", "changelog")
    )
    assert isinstance(error, SettingError) and "would take its place" in str(error)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (rule(extra_columns=["deleted"]), r"deleted, which mode = \"history\" never sets"),
        (rule(extra_columns=["gtid"]), r"gtid, which mode = \"history\" has as _valid_from_gtid"),
        ({"apply": {"on_error": "quarantine"}, **rule()}, r"tables\[1\].mode: apply.on_error"),
        ({"apply": {"exec_mode": "idempotent"}, **rule()}, r"needs apply.exec_mode = \"strict\""),
        ({"ddl": {"policy": "additive_only"}, **rule()}, r"mode = \"history\""),
    ],
)
def test_history_refuses_settings_without_meaning(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Config.from_mapping(given)
    Config.from_mapping(rule(extra_columns=["operation", "source_table"])).check_supported()

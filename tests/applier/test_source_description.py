"""What MySQL declares about a table, in the metadata of its Delta table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.log.table_log import TableLog
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import applier, apply_without_stream, last_shown, rows, run
from tests.support.tended import tend

A, IDLE = Table("a"), Table("idle")
CREATE = (
    "CREATE TABLE t.a (id INT PRIMARY KEY COMMENT 'the number', v VARCHAR(40) COMMENT 'it''s',"
    " e ENUM('x','y') COMMENT '', g INT AS (id * 2) STORED) COMMENT = 'orders, all'"
)


def declared(folder: Path, table: str = "a") -> dict[str, Any]:
    """Return the table's comment, key, state, and each column's comment and metadata."""
    snapshot = TableLog().snapshot(str(folder / "t" / table))
    assert snapshot is not None
    own = ("mysql.type", "mysql.generated", "comment")
    return {
        "comment": snapshot.state.metadata.get("description"),
        "version": snapshot.version,
        **{k: v for k, v in snapshot.configuration.items() if k.startswith("mysql.")},
        "columns": {
            field["name"]: tuple(field["metadata"].get(name) for name in own)
            for field in json.loads(snapshot.schema_string)["fields"]
        },
    }


def test_a_new_table_has_what_its_statement_declares(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(CREATE)
    run(log.folder, tmp_path / "lake")
    table = declared(tmp_path / "lake")
    assert table["comment"] == "orders, all"
    assert table["mysql.primary_key"] == '["id"]'
    assert table["mysql.gtid_executed"] == log.gtid(0) and table["mysql.position"]
    assert table["mysql.database"] == "t"
    assert table["columns"] == {
        "id": ("int", None, "the number"),
        "v": ("varchar(40)", None, "it's"),
        "e": ("enum('x','y')", None, None),
        "g": ("int", "(id * 2) STORED", None),
    }


@pytest.mark.parametrize("mapping", [True, False])
def test_statements_change_what_is_declared(tmp_path: Path, mapping: bool) -> None:
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"

    def after(statement: str, name: str = "a") -> dict[str, Any]:
        log.ddl(statement)
        run(log.folder, lake, keys={"column_mapping": mapping})
        return declared(lake, name)

    before = after(CREATE)
    table = after("ALTER TABLE t.a COMMENT 'other'")
    assert table["comment"] == "other" and table["version"] == before["version"] + 1
    assert table["columns"] == before["columns"]
    assert table["mysql.gtid_executed"] == f"{log.gtid(0)}-2"
    table = after("ALTER TABLE t.a MODIFY v VARCHAR(50) COMMENT 'new', RENAME COLUMN e TO f")
    assert table["columns"]["v"] == ("varchar(50)", None, "new")
    assert table["columns"]["f"] == ("enum('x','y')", None, None)
    assert table["comment"] == "other"
    table = after("ALTER TABLE t.a MODIFY v VARCHAR(50), ADD n INT COMMENT 'n', COMMENT ''")
    assert table["columns"]["v"][2] is None and table["columns"]["n"][2] == "n"
    assert table["comment"] is None
    table = after("ALTER TABLE t.a MODIFY n BIGINT COMMENT 'n'")
    assert table["columns"]["n"] == ("bigint", None, "n")
    table = after("ALTER TABLE t.a DROP PRIMARY KEY")
    assert "mysql.primary_key" not in table
    table = after("ALTER TABLE t.a ADD PRIMARY KEY (n, id)")
    assert table["mysql.primary_key"] == '["n", "id"]'
    version = table["version"]
    assert after("ALTER TABLE t.a ADD INDEX (v), RENAME TO t.b")["version"] == version
    assert after("CREATE TABLE t.c LIKE t.b", "c")["columns"] == declared(lake)["columns"]
    table = after("ALTER TABLE t.c RENAME TO t.d, COMMENT 'd'", "c")
    assert table["comment"] == "d" and table["mysql.primary_key"] == '["n", "id"]'
    assert set(last_shown(lake)) == {"t.b", "t.d"}


def test_a_comment_of_the_targets_owner_stays(tmp_path: Path) -> None:
    """Only a change of MySQL's own comment replaces it."""
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    run(log.folder, lake)
    delta = TableLog()
    snapshot = delta.snapshot(str(lake / "t" / "a"))
    assert snapshot is not None
    fields = json.loads(snapshot.schema_string)
    fields["fields"][1]["metadata"]["comment"] = "of an owner"
    metadata = {**snapshot.state.metadata, "description": "of an owner"}
    metadata["schemaString"] = json.dumps(fields)
    delta.rewrite(snapshot, [{"metaData": metadata}], "another")
    log.ddl("ALTER TABLE t.a ADD n INT COMMENT 'n'")
    run(log.folder, lake, keys={"on_foreign_change": "accept"})
    table = declared(lake)
    assert table["comment"] == "of an owner"
    assert [column[2] for column in table["columns"].values()] == [None, "of an owner", "n"]
    log.ddl("ALTER TABLE t.a COMMENT 'of MySQL'")
    run(log.folder, lake, keys={"on_foreign_change": "accept"})
    assert declared(lake)["comment"] == "of MySQL"


def test_a_masked_column_has_no_type(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE TABLE t.a (id INT PRIMARY KEY, e ENUM('x','y') COMMENT 'c')")
    rule = {"match": "t.a", "mask": {"e": "null"}}
    run(log.folder, tmp_path / "lake", tables=[rule])
    assert declared(tmp_path / "lake")["columns"]["e"] == (None, None, "c")


def forget_declarations(folder: Path) -> None:
    """Remove what versions before 0.2.0 did not record, and set comments of another owner."""
    delta = TableLog()
    snapshot = delta.snapshot(str(folder))
    assert snapshot is not None
    schema = json.loads(snapshot.schema_string)
    for field in schema["fields"]:
        field["metadata"] = {"comment": "of an owner"}
    kept = {k: v for k, v in snapshot.configuration.items() if not k.startswith("mysql.")}
    metadata = {**snapshot.state.metadata, "schemaString": json.dumps(schema)}
    delta.rewrite(snapshot, [{"metaData": metadata | {"configuration": kept}}], "another")


def upkept(log: LogWriter, lake: Path, table: str = "t.a") -> None:
    """Apply the log, which changes the table, and run the upkeep that is due."""
    keys = {"compact_files": 0, "on_foreign_change": "accept"}
    with applier(log.folder, lake, keys=keys) as replica:
        apply_without_stream(replica)
        tend(replica, table)


def test_tables_of_an_earlier_version_get_their_declarations_once(tmp_path: Path) -> None:
    """Also tables that no group changes get them."""
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl(IDLE.create)
    log.transaction(insert(A, (1, "x")))
    run(log.folder, lake)
    for name in ("a", "idle"):
        forget_declarations(lake / "t" / name)
    log.transaction(insert(A, (2, "y")))
    upkept(log, lake)
    tables = {name: declared(lake, name) for name in ("a", "idle")}
    for table in tables.values():
        assert table["columns"] == {
            "id": ("int", None, "of an owner"),
            "v": ("varchar(40)", None, "of an owner"),
        }
        assert table["mysql.primary_key"] == '["id"]' and table["mysql.database"] == "t"
    log.transaction(insert(A, (3, "z")))
    upkept(log, lake)
    assert declared(lake) == {**tables["a"], "version": tables["a"]["version"] + 1}
    assert declared(lake, "idle") == tables["idle"]
    assert rows(lake, A) == [(1, "x"), (2, "y"), (3, "z")]


def test_a_renamed_table_of_an_earlier_version_has_the_database_of_its_creation(
    tmp_path: Path,
) -> None:
    """Also if a statement adds its declarations before the upkeep does."""
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.ddl("RENAME TABLE t.a TO u.a")
    run(log.folder, lake)
    forget_declarations(lake / "t" / "a")
    log.ddl("ALTER TABLE u.a ADD n INT")
    upkept(log, lake, "u.a")
    table = declared(lake)
    assert table["mysql.database"] == "t"
    assert table["columns"]["n"] == ("int", None, None)

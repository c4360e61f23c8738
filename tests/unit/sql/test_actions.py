"""What each part of a statement says: its tables, keys, defaults, whether it makes rows."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl.sql.actions import (
    AddKey,
    Alteration,
    DropIndex,
    RenameIndex,
    SetCharset,
    UnloggedRows,
)
from spark_repl.sql.classify import Effect, classify
from spark_repl.tables.column import Column, ColumnType
from spark_repl.tables.table_keys import ForeignKey

QUERIES = """\
CREATE TABLE t SELECT 1
CREATE TABLE t AS SELECT 1
CREATE TABLE t IGNORE AS SELECT 1
CREATE TABLE t (SELECT 1 AS a)
CREATE TABLE t ((SELECT 1 AS a))
CREATE TABLE t (a INT) SELECT 1 AS a
CREATE TABLE t (a INT) TABLE u
CREATE TABLE t (a INT) VALUES ROW (1)
CREATE TABLE t (a INT) (SELECT 1 AS a)
CREATE TABLE t (a INT) ((SELECT 1 AS a))
CREATE TABLE t (a INT) ENGINE=InnoDB, COMMENT='x' REPLACE SELECT 1 AS a
CREATE TABLE t (a INT) NEW_OPTION=1 SELECT 1 AS a
CREATE TABLE t (a INT) NEW_OPTION=1 (SELECT 1 AS a)
CREATE TABLE t (a INT) PARTITION BY HASH (a) PARTITIONS 2 AS SELECT 1 AS a
CREATE TABLE t (a INT) PARTITION BY HASH (a) PARTITIONS 2 (WITH x AS (SELECT 1) TABLE x)
INSERT INTO t VALUES (1)
CALL p()""".splitlines()


@pytest.mark.parametrize("statement", QUERIES)
def test_rows_that_only_the_statement_has(statement: str) -> None:
    found = classify(statement, "d")
    assert found.effect in (Effect.UNSUPPORTED, Effect.CREATE_SELECT) and found.changes_rows


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE t LIKE u", "CREATE TABLE t (LIKE u)", "SOMETHING ELSE", "DROP TABLE t",
     "CREATE TABLE t (a INT)", "ALTER TABLE t DROP a"],
)  # fmt: skip
def test_only_some_statements_change_unlogged_rows(statement: str) -> None:
    assert not classify(statement, "d").changes_rows


# A second statement after a semicolon would go unnoticed.
FIRST = """\
CREATE INDEX k ON t (a)
DROP INDEX k ON t
ALTER TABLE t ADD INDEX (a)
ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (b)
ALTER TABLE t ALTER a SET DEFAULT 7
ALTER TABLE t PARTITION BY HASH (a)
DROP TABLE t
DROP DATABASE d
CREATE TABLE t (a INT)
CREATE TABLE t (a INT) ENGINE=InnoDB
CREATE TABLE t (a INT) START TRANSACTION
CREATE TABLE t (a INT) PARTITION BY HASH (a)""".splitlines()


@pytest.mark.parametrize("statement", FIRST)
def test_a_second_statement_does_not_go_unnoticed(statement: str) -> None:
    alone = classify(statement, "d")
    assert alone.effect is not Effect.UNSUPPORTED, alone.reason
    assert classify(f"{statement};", "d") == alone
    assert classify(f"{statement}; DROP DATABASE u", "d").effect is Effect.UNSUPPORTED


def key(table: str, **parts: Any) -> ForeignKey:
    found = {"name": "", "columns": ("a",), "referenced": ("b",), "on_delete": "", "on_update": ""}
    found |= parts
    return ForeignKey(**{**found, "parent": table})


SAID: list[tuple[str, dict[str, Any]]] = [
    ("CREATE INDEX IF NOT EXISTS i USING BTREE ON t (a) COMMENT 'ON'",
     {"tables": ("d.t",), "unique": False}),
    ("CREATE UNIQUE INDEX i ON e.t (a)", {"tables": ("e.t",), "unique": True}),
    ("DROP INDEX `ON` ON `t`", {"tables": ("d.t",), "unique": True}),
    ("DROP ONLINE INDEX i ON t", {"tables": ("d.t",), "effect": Effect.ALTER_TABLE}),
    ("DROP INDEX", {"effect": Effect.UNSUPPORTED, "verb": "DROP"}),
    ("DROP INDEX `PRIMARY` ON t",
     {"tables": ("d.t",), "alteration": Alteration("d.t", (DropIndex("PRIMARY"),))}),
    ("ALTER ONLINE TABLE t FORCE", {"tables": ("d.t",), "effect": Effect.NO_EFFECT}),
    ("ALTER DATABASE CHARACTER SET utf8mb4", {"database": "d", "effect": Effect.NO_EFFECT}),
    ("ALTER DATABASE x READ ONLY = 1", {"database": "x"}),
    ("CREATE DATABASE IF NOT EXISTS x", {"database": "x", "if_not_exists": True}),
    ("CREATE SCHEMA x", {"database": "x", "if_not_exists": False}),
    ("DROP SCHEMA x", {"database": "x", "if_exists": False}),
    ("CREATE TABLE t (a INT)", {"if_not_exists": False, "foreign_keys": ()}),
    ("DROP TABLE a, b RESTRICT", {"tables": ("d.a", "d.b"), "effect": Effect.DROP_TABLE}),
    ("DROP TABLE .t", {"tables": ("d.t",)}),
    ("TRUNCATE t", {"tables": ("d.t",), "reason": "TRUNCATE TABLE empties a table"}),
    ("RENAME TABLE a TO b", {"tables": ("d.a", "d.b")}),
    ("ALTER IGNORE TABLE t ADD UNIQUE (a)", {"tables": ("d.t",)}),
    ("CREATE OR REPLACE TABLE t (a INT)", {"tables": ("d.t",)}),
    ("CREATE DEFINER = CURRENT_USER ( ) SQL SECURITY INVOKER VIEW v AS SELECT 1",
     {"verb": "CREATE VIEW"}),
    ("INSERT INTO t VALUES (1)",
     {"verb": "INSERT",
      "reason": "INSERT changes rows as a statement: the source needs binlog_format=ROW"}),
    # ALTER TABLE: indexes that may be the logged key, defaults, constraints
    ("ALTER TABLE t ADD CONSTRAINT UNIQUE (a), ADD INDEX (b)", {"unique": True}),
    ("ALTER TABLE t ADD UNIQUE (a, b), ADD FULLTEXT (b)", {"unique": True}),
    ("ALTER TABLE t ADD SPATIAL INDEX (a), ADD CHECK (b > 1)", {"unique": False}),
    ("ALTER TABLE t RENAME KEY a TO b, RENAME INDEX c TO d",
     {"unique": False, "alteration": Alteration(
         "d.t", (RenameIndex("a", "b"), RenameIndex("c", "d")))}),
    ("ALTER TABLE t DROP CONSTRAINT f, DROP INDEX i",
     {"unique": True, "dropped_constraints": ("f",)}),
    ("ALTER TABLE t DROP FOREIGN KEY f, DROP CHECK c",
     {"unique": False, "dropped_constraints": ("f",)}),
    ("ALTER TABLE t DROP INDEX", {"effect": Effect.UNSUPPORTED}),
    ("ALTER TABLE t ALTER a SET DEFAULT 1, ALTER COLUMN b DROP DEFAULT",
     {"defaults": (("a", "1"), ("b", None))}),
    ("ALTER TABLE t ALTER INDEX i VISIBLE, ALTER CONSTRAINT c ENFORCED",
     {"effect": Effect.NO_EFFECT}),
    ("ALTER TABLE t ALTER INDEX i RENAME", {"effect": Effect.UNSUPPORTED}),
    ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (b)", {"foreign": (key("d.u"),)}),
    ("ALTER TABLE e.t ADD CONSTRAINT c FOREIGN KEY i (a, x) REFERENCES u (b, y) MATCH FULL"
     " ON UPDATE SET NULL ON DELETE CASCADE, ADD FOREIGN KEY (a) REFERENCES x.v",
     {"foreign": (
         key("e.u", name="c", columns=("a", "x"), referenced=("b", "y"),
             on_delete="CASCADE", on_update="SET NULL"),
         key("x.v", referenced=()))}),
    ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (b) ON DELETE SOMEHOW",
     {"effect": Effect.UNSUPPORTED}),
    ("ALTER TABLE t ADD INDEX (a) COMMENT ',', ADD INDEX (b) COMMENT ';'",
     {"effect": Effect.NO_EFFECT}),
    # table options
    ("ALTER TABLE t DEFAULT COLLATE = utf8mb4_bin, DATA DIRECTORY = '/x' INDEX DIRECTORY '/y'",
     {"alteration": Alteration("d.t", (SetCharset("utf8mb4_bin"),))}),
    ("ALTER TABLE t CHARSET latin1 COLLATE latin1_bin",
     {"alteration": Alteration("d.t", (SetCharset("latin1_bin"),))}),
    ("ALTER TABLE t COLLATE latin1_bin CHARSET latin1",
     {"alteration": Alteration("d.t", (SetCharset("latin1_bin"),))}),
    ("ALTER TABLE t DEFAULT COMMENT 'x'", {"effect": Effect.UNSUPPORTED}),
    ("ALTER TABLE t COMMENT = (1)", {"effect": Effect.UNSUPPORTED}),
    ("ALTER TABLE t CHARSET = (1)", {"effect": Effect.UNSUPPORTED}),
    ("ALTER TABLE t AUTO_INCREMENT = -7", {"effect": Effect.NO_EFFECT}),
    ("ALTER TABLE t TYPE=example", {"alteration": Alteration(
        "d.t", (UnloggedRows("TYPE = example leaves the table without its rows"),),
        engine="EXAMPLE")}),
    ("ALTER TABLE t COMMENT = 'BLACKHOLE'", {"effect": Effect.NO_EFFECT}),
    ("ALTER TABLE t ORDER BY a, b DESC", {"effect": Effect.NO_EFFECT}),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "want"), SAID)
def test_a_statements_actions_are_read(statement: str, want: dict[str, Any]) -> None:
    found = classify(statement, "d")
    actions = found.alteration.actions if found.alteration else ()
    keys = tuple(action.key.foreign for action in actions if isinstance(action, AddKey))
    assert {n: keys if n == "foreign" else getattr(found, n) for n in want} == want


def columns(elements: str, options: str = "") -> tuple[Column, ...]:
    found = classify(f"CREATE TABLE t ({elements}) {options}", "d")
    assert found.definition is not None, found.reason
    return found.definition.columns


KEYS: list[tuple[str, tuple[int, ...]]] = [
    ("a INT, b INT, PRIMARY KEY (b, A)", (1, 0)),
    ("a INT, CONSTRAINT c PRIMARY KEY USING BTREE (a DESC)", (0,)),
    ("a INT, CONSTRAINT PRIMARY KEY (a), CONSTRAINT CHECK (a > 1)", (0,)),
    ("a INT, b INT PRIMARY KEY", (1,)),
    ("a INT, b INT KEY", (1,)),
    ("a INT UNIQUE, b INT NOT NULL UNIQUE KEY, c INT NOT NULL UNIQUE", (1,)),
    ("a INT NOT NULL UNIQUE, b INT NOT NULL UNIQUE KEY", (0,)),
    ("a CHAR(9) NOT NULL UNIQUE", (0,)),
    ("a SERIAL, b INT NOT NULL UNIQUE", (0,)),
    ("a INT NOT NULL, b BIGINT SERIAL DEFAULT VALUE", (1,)),
    ("a INT NOT NULL, b INT, UNIQUE (b), UNIQUE KEY k (a)", (0,)),
    ("a INT NOT NULL, b INT, UNIQUE INDEX (a, b)", ()),
    ("a INT NOT NULL, INDEX (a), KEY k (a)", ()),
    ("a INT NOT NULL, UNIQUE ((a + 1))", ()),
    ("a INT NOT NULL, UNIQUE (a, (a + 1))", ()),
    ("a CHAR(9) NOT NULL, UNIQUE (a(8))", ()),
    ("a CHAR(9) NOT NULL, UNIQUE (a(9))", (0,)),
    ("a TEXT NOT NULL, UNIQUE (a(9))", ()),
    ("a INT NOT NULL, b INT AS (a) NOT NULL UNIQUE, UNIQUE (a)", (0,)),
    ("a INT NOT NULL, b INT GENERATED ALWAYS AS (a) VIRTUAL NOT NULL, UNIQUE (b), UNIQUE (a)",
     (0,)),
    ("a INT NOT NULL, b INT AS (a) STORED NOT NULL, UNIQUE (b), UNIQUE (a)", (1,)),
    ("a INT AS (1) NOT NULL UNIQUE", (0,)),
    ("a INT NOT NULL, b INT AS (a) NOT NULL, UNIQUE (a, b), UNIQUE (a)", (0,)),
    ("a CHAR(9), UNIQUE (a(9))", ()),
]  # fmt: skip


@pytest.mark.parametrize(("elements", "want"), KEYS)
def test_the_key_is_the_one_that_the_server_logs(elements: str, want: tuple[int, ...]) -> None:
    found = classify(f"CREATE TABLE t ({elements})", "d")
    assert found.definition is not None, found.reason
    assert found.definition.primary_key == want
    nullable = [column.nullable for column in found.definition.columns]
    assert not any(nullable[i] for i in want)


DEFAULTS: list[tuple[str, str | None]] = [
    ("INT", "NULL"),
    ("INT NULL", "NULL"),
    ("INT DEFAULT 7", "7"),
    ("INT NOT NULL", "0"),
    ("INT AUTO_INCREMENT UNIQUE", "0"),
    ("DECIMAL(5,2) NOT NULL", "0"),
    ("BIT(3) NOT NULL", "0"),
    ("CHAR(3) NOT NULL", "'"),
    ("TEXT NOT NULL", "'"),
    ("SET('a') NOT NULL", "'"),
    ("ENUM('x','y') NOT NULL", "'x"),
    ("DATE NOT NULL", None),
    ("TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", None),
    ("INT COMMENT = 'DEFAULT 7' COLUMN_FORMAT FIXED STORAGE DISK CONSTRAINT c CHECK (a > 1)"
     " NOT ENFORCED DEFAULT 3", "3"),
    ("INT CONSTRAINT CHECK (a > 1) ENFORCED NOT SECONDARY DEFAULT 3", "3"),
    ("INT REFERENCES u (b) ON DELETE CASCADE DEFAULT 3", "3"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "want"), DEFAULTS)
def test_the_default_that_a_column_has(kind: str, want: str | None) -> None:
    (column,) = columns(f"a {kind}")
    assert column.default == want
    assert column.visible


BINARY = 63
CHARACTER_SETS: list[tuple[str, str, int]] = [
    ("", "", 4),
    ("", "CHARSET latin1", 1),
    ("", "START TRANSACTION CHARACTER SET = latin1", 1),
    ("", "ENGINE=MyISAM, DEFAULT CHARSET=latin1", 1),
    ("", "UNION = (x, y) DEFAULT CHARSET=latin1", 1),
    ("", "CHARSET utf8mb4 COLLATE latin1_bin", 1),
    ("", "COLLATE latin1_bin CHARSET utf8mb4", 1),
    ("", "COMMENT 'latin1'", 4),
    ("CHARACTER SET latin1", "CHARSET utf8mb4", 1),
    ("CHARSET = latin1", "", 1),
    ("CHAR SET latin1", "", 1),
    ("COLLATE = latin1_bin", "", 1),
    ("CHARSET utf8mb4 COLLATE latin1_bin", "", 1),
    ("COLLATE latin1_bin CHARSET utf8mb4", "", 1),
    ("ASCII", "", 1),
    ("UNICODE", "", 2),
    ("BINARY", "", 4),
    ("BYTE", "", 0),
]


@pytest.mark.parametrize(("attribute", "options", "longest"), CHARACTER_SETS)
def test_the_character_set_that_a_column_has(attribute: str, options: str, longest: int) -> None:
    """Seen at the bytes of ten characters; binary ones are no text."""
    (column,) = columns(f"a CHAR(10) {attribute}", options)
    assert column.meta == 10 * (longest or 1)
    assert (column.collation == BINARY) == (longest == 0)


def test_columns_that_can_be_hidden() -> None:
    kind = "CHAR(1) DEFAULT ')'"
    assert [c.visible for c in columns(f"a {kind} INVISIBLE, b {kind} VISIBLE, c INT")] == [
        False, True, True,
    ]  # fmt: skip


def test_foreign_keys_of_a_table_are_read() -> None:
    elements = (
        "a INT REFERENCES u (b) ON DELETE CASCADE, CONSTRAINT f FOREIGN KEY (a) REFERENCES v (b)"
    )
    want = (key("d.u", on_delete="CASCADE", inline=True), key("d.v", name="f"))
    for engine in ("", "ENGINE=InnoDB COMMENT 'MyISAM'", "TYPE innodb", "ENGINE ndb"):
        found = classify(f"CREATE TABLE t ({elements}) {engine}", "d")
        assert found.definition is not None
        assert found.foreign_keys == found.definition.foreign_keys == want
    assert classify(f"CREATE TABLE t ({elements}) ENGINE=MyISAM", "d").foreign_keys == ()
    other = classify(f"CREATE TABLE t (b INET6, {elements})", "d")
    assert (other.definition, other.foreign_keys) == (None, want)
    unknown = classify("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES ?)", "d")
    assert (unknown.effect, unknown.foreign_keys) == (Effect.CREATE_TABLE, None)


def test_a_name_that_is_no_text_waits_for_the_first_table_map() -> None:
    found = classify("CREATE TABLE t (`\udce9` INT)", "d")
    assert found.definition is None and "not text" in found.reason


@pytest.mark.parametrize(
    ("kind", "collation"),
    [("LONG", 255), ("LONG CHARACTER SET latin1", 8), ("LONG CHAR SET latin1", 8),
     ("LONG CHARSET latin1", 8), ("LONG VARCHAR CHARACTER SET latin1", 8),
     ("LONG CHAR VARYING CHARACTER SET latin1", 8), ("LONG CHARACTER VARYING", 255),
     ("LONG ASCII", 8), ("LONG VARBINARY", 63), ("LONG BYTE", 63)],
)  # fmt: skip
def test_the_type_long_is_mediumtext(kind: str, collation: int) -> None:
    """LONG CHARACTER may go on with VARYING, or with SET."""
    (column,) = columns(f"a {kind}")
    assert (column.type, column.meta, column.collation) == (ColumnType.BLOB, 3, collation)

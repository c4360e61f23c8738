"""Texts of statements in messages, whose literals may be secret."""

from __future__ import annotations

import pytest

from spark_repl.alter.alteration import UnknownValue
from spark_repl.alter.apply_alter import alter
from spark_repl.sql.classify import classify_in
from spark_repl.sql.redaction import is_about_tables, redact_literals, redact_secrets
from spark_repl.sql.session import Session

ANSI = 1 << 2


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("ALTER TABLE t.`a b`\n ADD c INT DEFAULT 5 -- 6",
         "ALTER TABLE t.`a b` ADD c INT DEFAULT ?"),
        ("INSERT INTO a (b, c) VALUES (-1.5e3, 'x''y')", "INSERT INTO a (b, c) VALUES (- ?, ?)"),
        ("SET a = 0xAB, b = X'CD', c = 0b11 /* 'd' */", "SET a = ?, b = X ?, c = ?"),
        ("UPDATE a /*!80000 SET b = 'c' */", "UPDATE a SET b = ?"),
        ("UPDATE a SET b = 'c", "UPDATE ..."),
        ('DROP TABLE "a"', "DROP TABLE ?"),
        ("", ""),
    ],
)  # fmt: skip
def test_each_literal_is_shown_as_a_question_mark(statement: str, shown: str) -> None:
    assert redact_literals(statement, 0) == shown


SECRET = "s3cret"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE USER 'a'@'%' IDENTIFIED BY 's3cret'",
        "ALTER USER a IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$s3cret'",
        "ALTER USER a IDENTIFIED WITH 'mysql_native_password' AS 0x7333s3cret73",
        'ALTER USER a IDENTIFIED BY "s3cret" REPLACE "s3cret"',
        "/* app */ ALTER USER a IDENTIFIED BY 's3cret'",
        "/*!50706 CREATE USER a IDENTIFIED BY 's3cret' */",
        "SET PASSWORD FOR a = 's3cret'",
        "SET PASSWORD FOR a = PASSWORD('s3cret')",
        "GRANT ALL ON *.* TO a IDENTIFIED BY PASSWORD '*s3cret'",
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', SOURCE_PASSWORD = 's3cret'",
        "CHANGE MASTER TO MASTER_PASSWORD='s3cret'",
        "START REPLICA USER = 'a' PASSWORD = 's3cret'",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'a', PASSWORD 's3cret')",
        "ALTER SERVER s OPTIONS (PASSWORD 's3cret')",
        "CLONE INSTANCE FROM a@h:3306 IDENTIFIED BY 's3cret'",
        "CREATE PROCEDURE p() SELECT AES_ENCRYPT(1, 's3cret')",
        "CREATE DEFINER=`a`@`b` EVENT e ON SCHEDULE EVERY 1 DAY DO CALL p('s3cret')",
        "CREATE TABLE t (i INT) ENGINE=FEDERATED CONNECTION='mysql://a:s3cret@h/d/t'",
        "ALTER TABLE t CONNECTION 'mysql://a:s3cret@h/d/t'",
        "ALTER TABLE t COMMENT 'mysql://a:s3cret@h/d/t'",
        """ALTER TABLE t SECONDARY_ENGINE_ATTRIBUTE = '{"par": "s3cret"}'""",
        "CREATE TABLE t (i INT) PASSWORD = 's3cret'",
        "ALTER TABLE t ADD g BLOB AS (AES_ENCRYPT(CONCAT(a, 'b'), 's3cret'))",
        "CREATE TABLE t SELECT AES_DECRYPT(a, ('s3cret')) FROM b",
        "INSERT INTO a VALUES ('s3cret')",
        "UPDATE mysql.user SET authentication_string = 's3cret'",
        "ALTER USER a IDENTIFIED BY 's3cret",
        "CREATE TABLE t (i INT) CONNECTION='mysql://a:s3cret@h",
    ],
)
def test_no_secret_is_shown(statement: str) -> None:
    assert SECRET in statement
    assert SECRET not in redact_literals(statement, 0)
    assert SECRET not in redact_secrets(statement, 0)
    assert SECRET not in redact_secrets(statement, ANSI)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t  ADD c VARCHAR(9) DEFAULT 'x' /* why */ COMMENT 'a: b@c'",
        "CREATE TABLE t (password VARCHAR(40) DEFAULT '', e ENUM('a', 'b'))",
        "CREATE DATABASE d DEFAULT CHARACTER SET 'latin1'", "DROP TABLE a, b",
        "XA START X'61',X'',1", "BEGIN", "TRUNCATE a", "CREATE UNIQUE INDEX i ON t (a(10))",
    ],
)  # fmt: skip
def test_what_is_no_secret_is_shown_as_it_is(statement: str) -> None:
    assert redact_secrets(statement, 0) == statement


def test_only_the_secret_literal_of_a_statement_is_hidden() -> None:
    made = "CREATE TABLE t (a VARCHAR(9) DEFAULT 'x') CONNECTION = 'mysql://a:b@c' COMMENT 'd'"
    shown = "CREATE TABLE t (a VARCHAR (9) DEFAULT 'x') CONNECTION = ? COMMENT 'd'"
    assert redact_secrets(made, 0) == shown


@pytest.mark.parametrize(
    ("statement", "is_one"),
    [
        ("CREATE OR REPLACE TABLE a (i INT)", True), ("DROP DATABASE a", True), ("", False),
        ("TRUNCATE a", True), ("RENAME TABLE a TO b", True), ("RENAME USER a TO b", False),
        ("ALTER USER a", False), ("CREATE VIEW a AS SELECT 1", False), ("GRANT a", False),
        ("CREATE FULLTEXT INDEX i ON t (a)", True), ("SET PASSWORD = ?", False), ("CREATE", False),
    ],
)  # fmt: skip
def test_statements_about_tables_are_recognised(statement: str, is_one: bool) -> None:
    assert is_about_tables(statement) is is_one


def test_names_in_double_quotes() -> None:
    assert redact_literals("DROP TABLE \"a\", 'b'", ANSI) == 'DROP TABLE "a", ?'


@pytest.mark.parametrize(
    ("clause", "reason"),
    [
        ("TIMESTAMP DEFAULT '1985-03-07 10:00:00'", "time zone is SYSTEM"),
        ("INT DEFAULT ' 1985x'", "what column z stores of a literal is not known"),
        ("BIT(64) DEFAULT -1985.5", "what column z stores of a literal is not known"),
        ("INT AS (da > DATE'1985-3-7') STORED", "a literal as a date is not understood"),
        ("INT AS (da > DATE'1985-03-07 10:00:00') STORED", "a DATE literal is not understood"),
        ("INT AS (da > '1985-3-7') STORED", "a literal as a date is not understood"),
        ("INT AS (tm > TIME'1985:3') STORED", "a literal as TIME is not understood"),
        ("INT AS (i > 1985e400) STORED", "a number is too large or too small"),
        (f"INT AS (i > 1985.{'1' * 99}) STORED", "a number has too many digits"),
        ("INT AS (i = '1985x') STORED", "a comparison with such a text is not computed here"),
        ("INT AS (b LIKE 'é1985') STORED", "LIKE of such a pattern beside bytes"),
        ("INT AS (b LIKE '1985%' ESCAPE '%') STORED", "ESCAPE of anything but one ASCII character"),
        (
            "INT AS (b LIKE '1985\\\\') STORED",
            "a pattern that ends with its escape is not computed",
        ),
        ("VARCHAR(9) AS (j->'$**.a1985') STORED", "a JSON path with such parts is not computed"),
        ("VARCHAR(9) AS (j->'a1985') STORED", "a JSON path without $ is not understood"),
        ("VARCHAR(9) AS (CONCAT(x'1985z')) STORED", "a literal is no number"),
    ],
)
def test_reasons_of_unknown_values_contain_no_literal(clause: str, reason: str) -> None:
    """Why it is not known what a new column holds."""
    made = "CREATE TABLE x (i INT PRIMARY KEY, da DATE, tm TIME, b BLOB, j JSON)"
    session = Session("g", sql_mode=1 << 22, time_zone="SYSTEM")
    table = classify_in(made, session).definition
    assert table is not None
    found = alter(table, classify_in(f"ALTER TABLE x ADD z {clause}", session), session)
    origin = found.origins[-1]
    assert isinstance(origin, UnknownValue) and reason in origin.reason
    assert not any(secret in origin.reason for secret in ("1985", "é"))

"""Character sets that no CREATE TABLE says: the database's, or what TABLE_MAPs say of columns."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.records.database_charsets import DatabaseCharsets
from spark_repl.control.records.operator_decisions import SKIP, decide
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import StatementError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import cuts, last_shown, run, stopped

LATIN = Table("a", (("id", "int"), ("v", "varchar(40) latin1")))
PLAIN = Table("a", (("id", "int"),))
IN_LATIN = Table("a", (("id", "int"),), database="l")
BYTES = "ALTER TABLE {} MODIFY c VARBINARY(40)"


def said(client: int = 255, server: int = 255, *, made: bool = True) -> bytes:
    """Status variables of a server since 8.0: collations; whether it has made a thing."""
    sets = b"\x04" + struct.pack("<HHH", client, client, server)
    return sets + b"\x12\xff\0" + (b"\x11" + bytes(8) if made else b"")


@pytest.mark.parametrize(
    ("statement", "want"),
    [
        ("MODIFY v VARBINARY(40)", [(1, b"\xe9")]),
        ("ADD n INT AS (LENGTH(v)) STORED", [(1, "é", 1)]),
        ("ADD h CHAR(2) AS (HEX(v)) STORED", [(1, "é", "E9")]),
        ("ADD w VARCHAR(9) AS (v) STORED, ADD h CHAR(2) AS (HEX(w)) STORED", [(1, "é", "é", "E9")]),
        ("MODIFY v VARCHAR(20)", [(1, "é")]),
        ("CONVERT TO CHARACTER SET ascii", [(1, "?")]),
    ],
)
def test_a_table_map_tells_a_databases_character_set(
    tmp_path: Path, statement: str, want: list[Any]
) -> None:
    """Also before a restart; a column that comes later has the same, where the table's it is."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE TABLE t.a (id INT PRIMARY KEY, v VARCHAR(40))")
    log.transaction(insert(LATIN, (1, b"\xe9")))
    run(log.folder, target)
    log.ddl(f"ALTER TABLE t.a {statement}", status=said())
    run(log.folder, target)
    assert last_shown(target)["t.a"] == want


@pytest.mark.parametrize(
    "statements",
    [
        [("CREATE DATABASE l CHARACTER SET latin1", said())],
        [("CREATE DATABASE l DEFAULT COLLATE = latin1_bin", said())],
        [("CREATE DATABASE l", said(server=8))],
        [("CREATE DATABASE IF NOT EXISTS l CHARSET latin1", said())],
        [("CREATE DATABASE l CHARACTER SET latin1", b""), ("DROP DATABASE m", b"")],
        [
            ("CREATE DATABASE l CHARACTER SET latin1", said()),
            ("CREATE DATABASE IF NOT EXISTS l CHARACTER SET latin2", said(made=False)),
        ],
        [("CREATE DATABASE l", said()), ("ALTER DATABASE l CHARACTER SET latin1", said())],
        [("ALTER DATABASE l ENCRYPTION 'N' COLLATE latin1_swedish_ci", said())],
    ],
)
def test_a_statement_tells_a_databases_character_set(
    tmp_path: Path, statements: list[tuple[str, bytes]]
) -> None:
    """Whatever the session's own database, or its collation_database, is."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for text, status in statements:
        log.ddl(text, status=status)
    run(log.folder, target)
    log.ddl("CREATE TABLE l.a (id INT PRIMARY KEY)", status=said() + b"\x08\xff\0")
    log.transaction(insert(IN_LATIN, (1,)))
    log.ddl("ALTER TABLE l.a ADD c VARCHAR(40) NOT NULL DEFAULT 'é'", status=said())
    log.ddl(BYTES.format("l.a"), status=said())
    run(log.folder, target)
    assert last_shown(target)["l.a"] == [(1, b"\xe9")]


@pytest.mark.parametrize(
    "statements",
    [
        [],
        [("CREATE DATABASE t", b"")],
        [("CREATE DATABASE IF NOT EXISTS t CHARACTER SET latin1", b"")],
        [("CREATE DATABASE IF NOT EXISTS t CHARACTER SET latin1", said(made=False))],
        [("CREATE DATABASE t CHARACTER SET latin1", said()), ("DROP DATABASE t", b"")],
    ],
)
@pytest.mark.parametrize(
    ("alters", "wanted"),
    [
        (["ADD c VARCHAR(40) DEFAULT 'x'", "MODIFY c VARBINARY(40)"], "set of c "),
        (["ADD c VARBINARY(40) DEFAULT 'x'", "MODIFY c VARCHAR(40)"], "set of c "),
        (["ADD c VARCHAR(9) CHARSET latin1 DEFAULT 'é'", "MODIFY c VARCHAR(9)"], "set of c "),
        (["ADD c VARCHAR(9) DEFAULT 'é'", "ADD h CHAR(9) AS (HEX(c)) STORED"], "character set"),
    ],
)
def test_an_unknown_character_set_of_a_database_stops(
    tmp_path: Path, statements: list[tuple[str, bytes]], alters: list[str], wanted: str
) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for text, status in statements:
        log.ddl(text, status=status)
    log.ddl(PLAIN.create)
    log.transaction(insert(PLAIN, (1,)))
    for alter in alters:
        log.ddl(f"ALTER TABLE t.a {alter}")
    error = stopped(log.folder, target)
    assert isinstance(error, StatementError) and wanted in error.message, error.message
    assert error.table == "t.a"


def test_what_does_not_depend_on_it_goes_on(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(PLAIN.create)
    log.transaction(insert(PLAIN, (1,)))
    for alter in (
        "ADD c VARCHAR(9) DEFAULT 'é'",
        "MODIFY c VARCHAR(20)",
        "MODIFY c VARCHAR(20) CHARACTER SET utf8mb4",
        "ADD d CHAR(3) CHARACTER SET latin1 DEFAULT 'x'",
        "MODIFY d CHAR(4)",
        "ADD e VARCHAR(9) DEFAULT 'é'",
        "ADD f CHAR(1) CHARACTER SET utf8mb4 AS (LEFT(e, 1)) STORED",
    ):
        log.ddl(f"ALTER TABLE t.a {alter}")
    run(log.folder, target)
    assert last_shown(target)["t.a"] == [(1, "é", "x", "é", "é")]


def test_character_sets_of_databases_follow_their_statements(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE DATABASE l CHARACTER SET latin1")
    log.ddl("CREATE DATABASE m COLLATE latin2_bin")
    log.ddl("ALTER DATABASE l CHARACTER SET = DEFAULT", status=said(server=46))
    log.ddl("ALTER DATABASE COLLATE ascii_bin", database="m")
    log.ddl("DROP DATABASE l")
    run(log.folder, target, group_max_transactions=1)
    found = DatabaseCharsets(Control(Layout(str(target)).control))
    seen = []
    for cut in cuts(target):
        found.load(cut)
        seen.append(found.charsets)
    assert seen[-5:] == [
        {"l": "latin1"},
        {"l": "latin1", "m": "latin2_bin"},
        {"l": "utf8mb4_bin", "m": "latin2_bin"},
        {"l": "utf8mb4_bin", "m": "ascii_bin"},
        {"m": "ascii_bin"},
    ]


@pytest.mark.parametrize("restart", [True, False], ids=["restart", "in a row"])
@pytest.mark.parametrize(
    ("left_out", "known"),
    [
        ("ALTER DATABASE l CHARACTER SET latin2", False),
        ("ALTER DATABASE l COLLATE latin2_bin", False),
        ("DROP DATABASE l", False),
        ("ALTER DATABASE l UPGRADE DATA DIRECTORY NAME", False),
        ("FROBNICATE DATABASE l", False),
        ("ALTER DATABASE m CHARACTER SET latin2", True),
        ("CREATE DATABASE IF NOT EXISTS m", True),
        ("CREATE TABLE l.b (id INT PRIMARY KEY)", True),
        ("FROBNICATE TABLE l.b", False),
        ("INSERT INTO l.b VALUES (1)", True),
    ],
)
def test_what_is_left_out_is_not_known(
    tmp_path: Path, left_out: str, known: bool, restart: bool
) -> None:
    """skip --gtid of a statement that gives a database another character set, or may."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE DATABASE l CHARACTER SET latin1")
    run(log.folder, target)
    log.ddl(left_out)
    decide(Control(Layout(str(target)).control), SKIP, {}, gtid_executed=log.gtid(1))
    if restart:
        run(log.folder, target)
    log.ddl("CREATE TABLE l.a (id INT PRIMARY KEY)")
    log.transaction(insert(IN_LATIN, (1,)))
    log.ddl("ALTER TABLE l.a ADD c VARCHAR(40) DEFAULT 'é'")
    log.ddl(BYTES.format("l.a"))
    if known:
        run(log.folder, target)
        assert last_shown(target)["l.a"] == [(1, b"\xe9")]
    else:
        error = stopped(log.folder, target)
        assert isinstance(error, StatementError) and "set of c " in error.message


def test_a_later_statement_makes_it_known_again(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE DATABASE l CHARACTER SET latin1")
    run(log.folder, target)
    log.ddl("ALTER DATABASE l CHARACTER SET latin2")
    decide(Control(Layout(str(target)).control), SKIP, {}, gtid_executed=log.gtid(1))
    log.ddl("ALTER DATABASE l CHARACTER SET ascii")
    run(log.folder, target)
    found = DatabaseCharsets(Control(Layout(str(target)).control))
    found.load(cuts(target)[-1])
    assert found.charsets == {"l": "ascii"}

"""Strings of sessions with other character sets: rows that are there get the server's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pymysql.constants import COMMAND

from spark_repl.control.table.layout import Layout
from spark_repl.copy.source_tables import table_definition
from tests.support.live.schema_load import State, table_state
from tests.support.live.server import Server
from tests.support.local_delta import cuts, read, run

from .test_schema_changes import assert_equal

# (client, connection, what is added as its bytes go over the wire)
_ADDED = (
    ("sjis", "sjis", b"`\x83\x5c` ENUM('\x83\x5c', 'b') DEFAULT '\x83\x5c' COMMENT '\x83\x5c'"),
    ("sjis", "utf8mb4", b"b VARCHAR(20) DEFAULT '\x81\x5fn\x83\x60'"),
    ("ujis", "utf8mb4", b"c VARCHAR(20) AS (concat('\xa1\xc0n', '\xa1\xc0')) STORED"),
    ("gbk", "gbk", b"`d\xd5\x5c` VARCHAR(20) DEFAULT ('\xd5\x5c') COMMENT '\xd5\x5c'"),
    ("utf8mb4", "utf8mb4", "e VARCHAR(20) AS (concat(v, _latin1'ä')) STORED".encode()),
    ("utf8mb4", "latin1", "f VARCHAR(20) DEFAULT '漢ä'".encode()),
    ("utf8mb4", "latin1", "g ENUM('漢', 'ä') NOT NULL".encode()),
    ("utf8mb4", "latin1", "h VARBINARY(20) DEFAULT 'ä'".encode()),
    ("utf8mb4", "utf8mb4", b"i VARBINARY(20) DEFAULT '\xff\xc3'"),
    ("binary", "binary", b"j CHAR(9) CHARACTER SET latin1 DEFAULT '\xc3\xa4'"),
    ("latin1", "latin1", "k VARCHAR(20) DEFAULT _utf8mb4'漢'".encode()),
)


def _log(server: Server, folder: Path) -> Path:
    log = folder / "log"
    log.mkdir()
    for path in server.data.glob("binlog.0*"):
        (log / path.name).write_bytes(path.read_bytes())
    return log


def test_string_literals_of_any_session_end_as_on_the_server(
    shared_server: Server, tmp_path: Path
) -> None:
    shared_server.query(
        "RESET BINARY LOGS AND GTIDS", "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20)) CHARACTER SET utf8mb4",
        "INSERT INTO d.t VALUES (1, 'x'), (2, 'y')",
    )  # fmt: skip
    states: dict[int, State] = {}
    connection = shared_server.connect(database="d", charset="utf8mb4")
    with connection, connection.cursor() as cursor:
        for number, (client, other, added) in enumerate(_ADDED):
            cursor.execute(f"SET character_set_client={client}, character_set_connection={other}")
            connection._execute_command(COMMAND.COM_QUERY, b"ALTER TABLE t ADD " + added)
            connection._read_query_result()
            cursor.execute("SET NAMES utf8mb4")
            states[4 + number] = {"d.t": table_state(cursor, "d", "t")}
    log = _log(shared_server, tmp_path)
    assert run(log, tmp_path / "lake", group_max_transactions=1)
    assert assert_equal(tmp_path / "lake", states) >= len(states)


_FORMS = (
    "VARCHAR(9) DEFAULT _utf16le'A'",
    "VARCHAR(9) DEFAULT _tis620 x'DB'",
    "VARCHAR(9) CHARACTER SET cp1250 DEFAULT _cp1250 x'81'",
    "VARCHAR(9) CHARACTER SET gbk DEFAULT _gbk x'FE50'",
    "VARCHAR(9) CHARACTER SET ucs2 DEFAULT _binary'a'",
    "VARBINARY(4) DEFAULT _cp1250 x'81'",
    "VARBINARY(4) DEFAULT _gbk x'FE50'",
    "BIT(16) DEFAULT _cp1250 x'81'",
    "DECIMAL(5, 2) DEFAULT _cp1250 x'81'",
    "INT DEFAULT (--5)",
    "ENUM('a', 'b') DEFAULT b'1100001'",
    "ENUM(x'FF', 'a') CHARACTER SET binary",
    "ENUM(x'FF', 'a') CHARACTER SET binary DEFAULT x'FF'",
    "ENUM(x'61E4', 'b') CHARACTER SET utf8mb4",
    "SET(x'E4', 'b') CHARACTER SET utf8mb4",
    "ENUM(x'61', 0b1100010) CHARACTER SET ucs2",
    "ENUM(x'61', 'b') CHARACTER SET utf16le",
    "ENUM(x'616263', 'b') CHARACTER SET utf32",
    "ENUM(x'FE50', 'b') CHARACTER SET gbk",
    "SET(x'81', 'b') CHARACTER SET cp1250",
)


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_literals_that_are_no_text_stop_no_table(
    shared_server: Server, tmp_path: Path, metadata: str
) -> None:
    """The rows are the server's, and so are the members, which MINIMAL takes from the statements
    and FULL from the TABLE_MAPs."""
    columns = ", ".join(f"c{i} {form}" for i, form in enumerate(_FORMS))
    values = ", ".join("2" if form[:3] in ("ENU", "SET") else "1" for form in _FORMS)
    shared_server.query(
        "DROP DATABASE IF EXISTS d", "RESET BINARY LOGS AND GTIDS",
        "SET sql_mode = ''", f"SET GLOBAL binlog_row_metadata = {metadata}",
        "CREATE DATABASE d CHARACTER SET utf8mb4",
        f"CREATE TABLE d.t (id INT PRIMARY KEY, {columns})",
        "CREATE TABLE d.u (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT _ucs2 x'D800')",
        f"INSERT INTO d.t VALUES (1, {values})",
        "ALTER TABLE d.t ADD z VARBINARY(4) DEFAULT _gbk x'FE50', ADD y INT",
        "ALTER TABLE d.t ALTER y SET DEFAULT _cp1250 x'31', ALTER c1 SET DEFAULT _tis620 x'DB'",
        f"INSERT INTO d.t VALUES (2, {values}, 'z', 3)", "INSERT INTO d.u VALUES (1, 'u')",
        "SET GLOBAL binlog_row_metadata = FULL",
    )  # fmt: skip
    connection = shared_server.connect(database="d", charset="utf8mb4")
    with connection, connection.cursor() as cursor:
        state = {f"d.{name}": table_state(cursor, "d", name) for name in ("t", "u")}

        def query(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

        assert len(table_definition(query, "d", "t").columns) == len(_FORMS) + 3
    log = _log(shared_server, tmp_path)
    assert run(log, tmp_path / "lake", group_max_transactions=1)
    assert assert_equal(tmp_path / "lake", {8: state}) >= 8


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_members_of_bytes_are_the_same_of_a_statement_and_a_table_map(
    shared_server: Server, tmp_path: Path, metadata: str
) -> None:
    forms = [form for form in _FORMS if "(x" in form and form[:3] in ("ENU", "SET")]
    shared_server.query(
        "DROP DATABASE IF EXISTS d", "RESET BINARY LOGS AND GTIDS",
        f"SET GLOBAL binlog_row_metadata = {metadata}", "CREATE DATABASE d CHARACTER SET utf8mb4",
        "CREATE TABLE d.t (" + ", ".join(f"c{i} {form}" for i, form in enumerate(forms)) + ")",
        "INSERT INTO d.t VALUES (" + ", ".join("1" * len(forms)) + ")",
        "SET GLOBAL binlog_row_metadata = FULL",
    )  # fmt: skip
    target = tmp_path / "lake"
    run(_log(shared_server, tmp_path), target, keys={"text_errors": "replace"})
    table = cuts(target)[-1].tables["d.t"]
    (row,) = read(Layout(str(target)).table(table.path), table.version).to_pylist()
    no = "\ufffd"
    assert list(row.values()) == [no, no, f"a{no}", no, "a", "愀", no, no, no]

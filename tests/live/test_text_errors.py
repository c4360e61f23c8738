"""Bytes that are no character, in every character set: a copy reads of them what the log says."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl import read_changes
from spark_repl.binlog.charsets import charset
from spark_repl.binlog.types.forms import USUAL, Forms
from spark_repl.config import Source
from spark_repl.copy.copy_chunk import copied_rows
from spark_repl.copy.source_tables import full_name, table_definition
from spark_repl.copy.text_rows import read_rows, select_list
from spark_repl.errors import DecodeError, SchemaError
from spark_repl.source.connection import begin_query, connect
from spark_repl.tables.target_table import TargetTable
from tests.support.live.decoder_server import Server, server

__all__ = ["server"]  # the fixture

REPLACED = Forms(text_errors="replace")
# Values between letters, as SQL: bytes that the server takes for characters, and converts to none.
FAULTY = {
    "big5": "X'61A15A62A1FEA4A4'", "cp1250": "X'618162'", "cp1251": "X'9861'",
    "cp1256": "X'618AFF62'", "cp1257": "X'81E0'", "cp932": "X'6181AD62'", "dec8": "X'61A462'",
    "eucjpms": "X'61A4F462A4A2'", "euckr": "X'61D84162'", "gb18030": "X'61E3329A3662'",
    "gb2312": "X'61A4F462'", "gbk": "X'61FE5062D6D0'", "geostd8": "X'8161'",
    "greek": "X'61A4AA62E1'", "hebrew": "X'61A162'", "hp8": "X'61FF'", "sjis": "X'6181AD62'",
    "swe7": "X'617F80'", "tis620": "X'A061DB'", "ucs2": "X'0061D800DC000062'",
    "ujis": "X'61A4F462'", "utf32": "_ucs2 X'0061D8000062'", "utf8mb3": "_ucs2 X'0061D8000062'",
    "utf8mb4": "_ucs2 X'0061D840DC0B0062'",
}  # fmt: skip
WANTED = {
    "big5": "a�b�中", "eucjpms": "a�bあ", "gbk": "a�b中", "greek": "a��bα", "tis620": "�a�",
    "ucs2": "a��b", "utf8mb4": "a��b", "utf32": "a�b", "utf8mb3": "a�b",
}  # fmt: skip


def logged(server: Server, forms: Forms) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in read_changes(str(server.logs()[-1]), text_errors=forms.text_errors):
        rows += batch.column("after").to_pylist()
    return rows


def copied(server: Server, table: str, forms: Forms) -> tuple[list[dict[str, Any]], int]:
    connection = connect(Source(host="127.0.0.1", port=server.port, user="root", tls="disabled"))
    try:
        with connection.cursor() as cursor:

            def query(statement: str) -> Any:
                cursor.execute(statement)
                return cursor.fetchall()

            definition = table_definition(query, "faulty", table)
        statement = f"SELECT {select_list(definition)} FROM {full_name(definition)}"
        rows, count = list[dict[str, Any]](), 0
        for columns in read_rows(*begin_query(connection, statement)):
            made, replaced = copied_rows(TargetTable.mirror_of(definition), columns, forms, b"")
            rows += made.to_pylist()
            count += replaced
        return rows, count
    finally:
        connection.close()


def run(server: Server, *statements: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in (
            "DROP DATABASE IF EXISTS faulty", "CREATE DATABASE faulty", "USE faulty",
            "RESET BINARY LOGS AND GTIDS", "SET sql_mode = ''", *statements,
        ):  # fmt: skip
            cursor.execute(statement)


@pytest.mark.parametrize("name", sorted(FAULTY))
def test_log_and_copy_have_one_text(server: Server, name: str) -> None:
    kinds = f"v VARCHAR(20) CHARACTER SET {name}, t TEXT CHARACTER SET {name}"
    value = FAULTY[name]
    run(
        server,
        f"CREATE TABLE t (id INT PRIMARY KEY, {kinds})",
        f"INSERT INTO t VALUES (1, {value}, {value}), (2, 'fine', NULL)",
    )
    rows, count = copied(server, "t", REPLACED)
    assert rows == logged(server, REPLACED)
    assert count == 2
    assert rows[0]["v"] == rows[0]["t"] == WANTED.get(name, rows[0]["v"])
    assert "\ufffd" in rows[0]["v"]
    assert rows[1] == {"id": 2, "v": "fine", "t": None}
    with pytest.raises(DecodeError, match="column v: bytes") as in_log:
        logged(server, USUAL)
    with pytest.raises(SchemaError, match="column v: bytes") as in_copy:
        copied(server, "t", USUAL)
    assert "target.text_errors" in str(in_log.value.hint) and in_log.value.table == "faulty.t"
    assert in_log.value.file and in_log.value.position and in_log.value.gtid
    assert in_copy.value.hint == in_log.value.hint


def test_no_set_has_bytes_without_a_character_that_are_not_tried(server: Server) -> None:
    """The server refuses them of the other sets, or has a character for all bytes."""
    for name in sorted({*charset._COLLATIONS} - {*FAULTY} - {"binary"}):
        values = ", ".join(f"({i}, X'{i:02x}')" for i in range(256))
        run(
            server,
            f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET {name})",
            f"INSERT INTO t VALUES {values}, (300, _ucs2 X'D800'), (301, _ucs2 X'D840DC0B')",
        )
        assert copied(server, "t", USUAL)[0] == logged(server, USUAL), name


def test_a_key_is_never_replaced(server: Server) -> None:
    run(
        server,
        "CREATE TABLE t (v VARCHAR(20) CHARACTER SET greek PRIMARY KEY)",
        "INSERT INTO t VALUES (X'61A4')",
    )
    with pytest.raises(DecodeError, match="column v: bytes a4 are not text") as in_log:
        list(read_changes(str(server.logs()[-1]), text_errors="replace"))
    assert "correct the key on the source, and copy the table again" in str(in_log.value.hint)
    with pytest.raises(SchemaError, match="column v: bytes a4 are not text") as in_copy:
        copied(server, "t", REPLACED)
    assert in_copy.value.hint == "correct the key on the source, and start again"


def test_faulty_members_and_computed_texts_stop(server: Server) -> None:
    run(
        server,
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM(X'61A4', 'b') CHARACTER SET greek,"
        " s SET(X'FE50', 'b') CHARACTER SET gbk, n ENUM('ä', 'b') CHARACTER SET binary,"
        " v VARCHAR(9) CHARACTER SET cp1250,"
        " g VARCHAR(9) CHARACTER SET cp1250 AS (UPPER(v)) STORED,"
        " w VARCHAR(9) CHARACTER SET cp1250 AS (CONCAT(v, 'x')) VIRTUAL)",
        "INSERT INTO t (id, e, s, n, v) VALUES (1, 2, 2, 2, 'fine')",
    )
    fine = {"id": 1, "e": "b", "s": "b", "n": "b", "v": "fine", "g": "FINE", "w": "finex"}
    assert copied(server, "t", USUAL)[0] == logged(server, USUAL) == [fine]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO faulty.t (id, e, s, n, v) VALUES (2, 1, 3, 1, X'61816C')")
    rows, count = copied(server, "t", REPLACED)
    assert rows == logged(server, REPLACED)
    faulty = {"id": 2, "e": "a�", "s": "�,b", "n": "ä", "v": "a�l", "g": "A�L", "w": "a�lx"}
    assert rows[1] == faulty and count == 5
    with pytest.raises(DecodeError, match="column e: the value"):
        logged(server, USUAL)
    with pytest.raises(SchemaError, match="column e: bytes"):
        copied(server, "t", USUAL)


def test_members_that_convert_to_has_spoilt(server: Server) -> None:
    """MySQL leaves the bytes of the former character set."""
    run(
        server,
        "CREATE TABLE t (id INT PRIMARY KEY, a ENUM('ä', 'b') CHARACTER SET latin1)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
        "RESET BINARY LOGS AND GTIDS",
        "INSERT INTO t VALUES (3, 1)",
    )
    with pytest.raises(SchemaError, match="column a: bytes e4 are not text"):
        copied(server, "t", USUAL)
    assert [row["a"] for row in copied(server, "t", REPLACED)[0]] == ["�", "b", "�"]
    assert [row["a"] for row in logged(server, REPLACED)] == ["�"]

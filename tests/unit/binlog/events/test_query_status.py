"""Statements of sessions with other character sets, quotes and escapes than usual."""

from __future__ import annotations

import struct

import pytest

from spark_repl.alter.schema_history import SchemaHistory
from spark_repl.binlog.events.event import Query
from spark_repl.sql.classify import classify
from spark_repl.sql.sql_tokens import ANSI_QUOTES, NO_BACKSLASH_ESCAPES


def query(statement: bytes, collation: int, mode: int = 0, xid: bytes = b"") -> Query:
    """With the status variables in the order in which a server writes them."""
    status = b"\0" + bytes(4) + b"\1" + struct.pack("<Q", mode) + b"\6\3std\3\1\0\1\0"
    status += (
        b"\4" + struct.pack("<HHH", collation, 8, 255) + b"\5\3UTC\x0b\1u\1h\x0c\2d\0e\0" + xid
    )
    status += b"\x12\xff\0\x13\0"
    return Query(1, 0, 0, "d", statement, status)


@pytest.mark.parametrize(
    ("charset", "collation", "text"),
    [
        ("utf-8", 255, "tä漢😀"), ("utf-8", 33, "tä漢"), ("cp1252", 8, "tä€"), ("gbk", 28, "t漢誠"),
        ("shift_jis", 13, "tソ表"), ("big5", 1, "t功許"), ("koi8_r", 7, "tд"),
    ],
)  # fmt: skip
def test_statements_are_read_in_the_clients_character_set(
    charset: str, collation: int, text: str
) -> None:
    """Second bytes of sjis, gbk and big5 may be backslashes."""
    statement = f"CREATE TABLE `{text}` (id int, e enum('{text}', 'b'))"
    found = query(statement.encode(charset), collation)
    assert found.text == statement
    made = classify(found.text, "d").definition
    assert made is not None
    name = text.replace("😀", "?")  # as the server has it
    assert (made.name, made.columns[1].literals) == (f"d.{name}", (text, "b"))


@pytest.mark.parametrize(("collation", "backslash"), [(13, b"\x81\x5f"), (12, b"\xa1\xc0")])
@pytest.mark.parametrize("mode", [0, NO_BACKSLASH_ESCAPES, ANSI_QUOTES])
def test_a_backslash_of_two_bytes_escapes_nothing(
    collation: int, backslash: bytes, mode: int
) -> None:
    """Recorded from 9.7: sjis and ujis have two backslashes; one is a letter to the parser."""
    parts = b"CREATE TABLE `a@` (e ENUM('@n', 'b@') DEFAULT '@n', c INT COMMENT '@', g CHAR(2)"
    parts += b" DEFAULT (concat('@', 'n')))"
    found = query(parts.replace(b"@", backslash), collation, mode)
    made = classify(found.text, "d", found.sql_mode).definition
    assert made is not None
    assert (made.table, [c.name for c in made.columns]) == ("a\\", ["e", "c", "g"])
    assert (made.columns[0].literals, made.columns[0].default) == (("\\n", "b\\"), "'\\n")


def test_text_that_is_none_makes_no_definition() -> None:
    """A client with SET NAMES binary; bytes that the set lacks."""
    for collation in (63, 255, 9999):
        found = query(b"CREATE TABLE t (e enum('\xe4'))", collation)
        made = classify(found.text, found.database)
        assert (made.tables, made.definition) == (("d.t",), None)
        assert "character set" in made.reason


@pytest.mark.parametrize(
    ("mode", "literal"), [(0, "a\\'b"), (NO_BACKSLASH_ESCAPES, "a\\\\''b"), (ANSI_QUOTES, "a\\'b")]
)
def test_backslashes_in_literals_follow_the_sql_mode(mode: int, literal: str) -> None:
    found = query(f"CREATE TABLE t (e enum('{literal}', 'c'))".encode(), 255, mode)
    made = classify(found.text, "d", found.sql_mode).definition
    assert made is not None
    want = "a\\\\'b" if mode == NO_BACKSLASH_ESCAPES else "a'b"
    assert made.columns[0].literals == (want, "c")


def test_double_quotes_are_names_only_under_ansi_quotes() -> None:
    """Names under ANSI_QUOTES, where a backslash is a letter of them; else strings."""
    statement = b'CREATE TABLE "t\\" ("a""b" int DEFAULT \'1\', KEY "k\\" ("a""b"))'
    found = query(statement, 255, ANSI_QUOTES)
    made = classify(found.text, "d", found.sql_mode).definition
    assert made is not None
    assert (made.table, made.columns[0].name) == ("t\\", 'a"b')
    made = classify('CREATE TABLE t (e enum("a\\"b", \'c\'))', "d").definition
    assert made is not None
    assert made.columns[0].literals == ('a"b', "c")


def test_a_cut_status_is_refused() -> None:
    whole = query(b"x\xe4", 8, 4).status
    for size in range(len(whole)):
        found = Query(1, 0, 0, "d", b"x\xe4", whole[:size])
        assert found.sql_mode in (0, 4) and found.text in ("xä", "x\udce4")


def test_a_table_that_was_there_stays_what_it_was() -> None:
    """Recorded from 8.0 and 9.7: only what made the table has the transaction's number."""
    history = SchemaHistory()
    text = b"CREATE TABLE IF NOT EXISTS t (v int PRIMARY KEY, id int)"
    history.see(query(text, 255))
    assert not history.definitions
    history.see(query(text.replace(b"IF NOT EXISTS ", b""), 255))
    history.see(query(b"CREATE TABLE IF NOT EXISTS t (id int)", 255))
    assert len(history.definitions["d.t"].columns) == 2
    xid = b"\x11" + bytes(8)
    history.see(query(b"CREATE TABLE IF NOT EXISTS u (id int)", 255, xid=xid))
    history.see(Query(1, 0, 0, "d", b"CREATE TABLE IF NOT EXISTS old (id int)", b""))
    assert history.definitions.keys() == {"d.t", "d.u", "d.old"}
    many = query(text, 255).status.replace(b"\x0c\2d\0e\0", b"\x0c\xfe" + xid)
    assert not Query(1, 0, 0, "d", text, many).made_nothing

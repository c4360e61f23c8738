"""Strings as the server reads them: in the connection's character set, or an introducer's. What is
said here of 9.7 was compared with it; ``live/test_string_literals.py`` compares some again."""

from __future__ import annotations

import pytest

from spark_repl.alter.alteration import CarriedColumn, ComputedValue, ConstantValue, UnknownValue
from spark_repl.alter.apply_alter import alter
from spark_repl.errors import StatementError
from spark_repl.sql.classify import classify_in
from spark_repl.sql.default_literals import normalize
from spark_repl.sql.session import Session
from spark_repl.sql.sql_tokens import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from spark_repl.tables.column import Column
from spark_repl.tables.source_table import SourceTable

UTF8MB4 = Session("d", charsets={"d": "utf8mb4"})


def made(column: str, session: Session) -> Column:
    """Of CREATE TABLE, as of ALTER TABLE ... ADD."""
    (found,) = _table(f"CREATE TABLE d.t ({column})", session).columns
    before = _table("CREATE TABLE d.t (id INT)", Session())
    statement = classify_in(f"ALTER TABLE d.t ADD {column}", session)
    assert alter(before, statement, session).definition.columns[1] == found
    return found


def _table(text: str, session: Session) -> SourceTable:
    found = classify_in(text, session)
    assert found.definition is not None, found.reason
    return found.definition


def refused(column: str, session: Session) -> str:
    """Why CREATE TABLE is not understood, nor ALTER TABLE ... ADD."""
    found = classify_in(f"CREATE TABLE d.t ({column})", session)
    assert found.definition is None
    statement = classify_in(f"ALTER TABLE d.t ADD {column}", session)
    said = statement.reason
    if statement.alteration is not None:
        with pytest.raises(StatementError) as raised:
            alter(_table("CREATE TABLE d.t (id INT)", Session()), statement, session)
        said = raised.value.message
    assert said == found.reason
    return said


@pytest.mark.parametrize(
    ("client", "connection", "said", "default"),
    [
        ("utf8mb4", "utf8mb4", "_latin1'ä'", "'Ã¤"),
        ("utf8mb4", "utf8mb4", "_sjis'表'", "'陦ｨ"),
        ("utf8mb4", "utf8mb4", "_latin1'ä''\\\\'", "'Ã¤'\\"),
        ("utf8mb4", "utf8mb4", "_utf8mb4'ä'", "'ä"),
        ("utf8mb4", "utf8mb4", "_utf8'ä'", "'ä"),
        ("utf8mb4", "utf8mb4", "N'ä'", "'ä"),
        ("latin1", "latin1", "_utf8mb4'Ã¤'", "'ä"),
        ("latin1", "latin1", "'Ã¤'", "'Ã¤"),
        ("latin1", "utf8mb4", "'ä'", "'ä"),
        ("sjis", "utf8mb4", "'表'", "'表"),
        ("utf8mb4", "latin1", "'漢ä'", "'?ä"),
        ("utf8mb4", "utf8mb3", "'ä😀'", "'ä?"),
        ("utf8mb4", "sjis", "'ソä'", "'ソ?"),
        ("utf8mb4", "utf16", "'ä😀'", "'ä😀"),
        ("binary", "latin1", "'ä'", "'Ã¤"),
        ("binary", "binary", "'ä'", "'ä"),
        ("", "", "'ä'", "'ä"),
    ],
)  # fmt: skip
def test_texts_are_converted_between_the_connections_character_sets(
    client: str, connection: str, said: str, default: str
) -> None:
    session = Session("d", client=client, connection=connection)
    column = made(f"c VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT {said}", session)
    assert column.default == default


@pytest.mark.parametrize(
    ("client", "connection", "said", "default"),
    [
        ("latin1", "latin1", "'ÿÿ'", "0xffff"),
        ("latin1", "latin1", "_binary'ÿÿ'", "0xffff"),
        ("utf8mb4", "latin1", "'ä'", "0xe4"),
        ("utf8mb4", "utf8mb4", "'ä'", "0xc3a4"),
        ("utf8mb4", "utf8mb4", "'\udcff\udcff'", "0xffff"),
        ("utf8mb4", "utf8mb4", "_binary'ä\udcff'", "0xc3a4ff"),
        ("binary", "binary", "'ä\udcff'", "0xc3a4ff"),
    ],
)  # fmt: skip
def test_binary_columns_store_the_bytes_of_the_connection(
    client: str, connection: str, said: str, default: str
) -> None:
    session = Session("d", client=client, connection=connection)
    assert made(f"c VARBINARY(20) DEFAULT {said}", session).default == default
    assert made(f"c VARCHAR(9) CHARACTER SET binary DEFAULT {said}", session).default == default


@pytest.mark.parametrize(
    ("kind", "said", "default"),
    [
        ("VARCHAR(9) CHARACTER SET utf8mb4", "_gbk x'D6D0'", "'中"),
        ("VARCHAR(9) CHARACTER SET gbk", "_gbk 0xD6D0", "'中"),
        ("VARBINARY(9)", "_gbk X'D6D0'", "0xd6d0"),
        ("CHAR(9) CHARACTER SET latin1", "_utf8mb4 x'C3A4'", "'ä"),
        ("VARCHAR(9) CHARACTER SET utf8mb4", "_utf8 x'C3A4' COMMENT 'ö'", "'ä"),
        ("VARCHAR(9) CHARACTER SET utf8mb4", "_binary x'C3A4'", "'ä"),
        ("VARCHAR(9) CHARACTER SET utf8mb4", "_latin1 0b1000001", "'A"),
        ("VARCHAR(9) CHARACTER SET utf8mb4", "_ucs2 0x41", "'A"),
        ("VARBINARY(9)", "_ucs2 0x41", "0x0041"),
        ("VARCHAR(9) CHARACTER SET utf8mb4", "_utf32 x'65E5'", "'日"),
        ("VARBINARY(9)", "_utf32 x'65E5'", "0x000065e5"),
        ("VARBINARY(9)", "_utf16 x'41'", "0x0041"),
        ("INT", "_latin1 x'3132'", "12"),
        ("DOUBLE", "_latin1 x'312E35'", "1.5"),
        ("DATE", "_latin1 x'323032302D30312D3032'", "'2020-01-02"),
        ("BIT(16)", "_latin1 x'E4'", str(0xE4)),
        ("BIT(16)", "_gbk x'D6D0'", str(0xD6D0)),
        ("BIT(16)", "_latin1'ä'", str(0xC3A4)),
        ("SET('ä', 'b') CHARACTER SET latin1", "_utf8mb4 x'C3A42C62'", "'ä,b"),
    ],
)  # fmt: skip
def test_literals_with_an_introducer_are_stored_as_the_server_does(
    kind: str, said: str, default: str
) -> None:
    """As 9.7.4 stores them."""
    assert made(f"c {kind} DEFAULT {said}", Session("d")).default == default
    table = _table(f"CREATE TABLE d.t (c {kind})", Session("d"))
    statement = classify_in(
        f"ALTER TABLE d.t ALTER c SET DEFAULT {said.partition(' COMMENT')[0]}", Session("d")
    )
    assert alter(table, statement, Session("d")).definition.columns[0].default == default


@pytest.mark.parametrize(
    "column",
    [
        "VARCHAR(9) DEFAULT _ucs2 x'D800'",
        "VARCHAR(9) DEFAULT _tis620 x'DB'",
        "VARCHAR(9) CHARACTER SET cp1250 DEFAULT _cp1250 x'81'",
        "VARCHAR(9) CHARACTER SET cp1250 DEFAULT _cp1250'ā'",
        "VARCHAR(9) CHARACTER SET gbk DEFAULT _gbk x'FE50'",
        "VARCHAR(9) CHARACTER SET ucs2 DEFAULT _binary'a'",
        "VARCHAR(9) CHARACTER SET utf16 DEFAULT _binary x'D8'",
        "DECIMAL(5,2) DEFAULT _cp1250 x'81'",
        "INT DEFAULT _sjis'ઠ'",
        "DATE DEFAULT DATE'2024-02-01'",
    ],
)
def test_a_default_that_is_not_known_leaves_the_column_readable(column: str) -> None:
    """9.7.4 takes all but the last; an older server may take that."""
    assert made(f"c {column}", UTF8MB4).default is None
    before = _table("CREATE TABLE d.t (id INT)", Session())
    added = classify_in(f"ALTER TABLE d.t ADD c {column}", UTF8MB4)
    origin = alter(before, added, UTF8MB4).origins[1]
    assert isinstance(origin, UnknownValue) and "is not known" in origin.reason
    kind, _, value = column.partition(" DEFAULT ")
    table = _table(f"CREATE TABLE d.t (c {kind} DEFAULT NULL)", UTF8MB4)
    changed = classify_in(f"ALTER TABLE d.t ALTER c SET DEFAULT {value}", UTF8MB4)
    (after,) = alter(table, changed, UTF8MB4).definition.columns
    assert after.default is None


@pytest.mark.parametrize(
    ("column", "default"),
    [
        ("VARBINARY(4) DEFAULT _cp1250 x'81'", "0x81"),
        ("BINARY(4) DEFAULT _gbk x'FE50'", "0xfe500000"),
        ("VARBINARY(4) DEFAULT _sjis'ઠ'", "0xe0aaa0"),
        ("BIT(16) DEFAULT _cp1250 x'81'", str(0x81)),
        ("VARCHAR(9) DEFAULT _utf16le'A'", "'䄀"),
        ("VARCHAR(9) DEFAULT _utf16le 0x41", "'䄀"),
    ],
)
def test_bytes_that_are_no_letters_are_stored_in_binary_columns(column: str, default: str) -> None:
    assert made(f"c {column}", UTF8MB4).default == default


def test_the_default_that_alter_column_sets() -> None:
    session = Session("d", client="latin1", connection="latin1")
    table = _table("CREATE TABLE d.t (b VARBINARY(9), c VARCHAR(9), e ENUM('ä', 'b'))", Session())
    for name, default in (("b", "0xe4"), ("c", "'ä"), ("e", "'ä")):
        statement = classify_in(f"ALTER TABLE d.t ALTER {name} SET DEFAULT 'ä'", session)
        (column,) = (
            c for c in alter(table, statement, session).definition.columns if c.name == name
        )
        assert column.default == default


def test_a_binary_connection_means_the_columns_character_set() -> None:
    session = Session("d", client="binary", connection="binary")
    assert made("c CHAR(9) CHARACTER SET latin1 DEFAULT 'ä'", session).default == "'Ã¤"


def test_members_lose_letters_that_the_connection_lacks() -> None:
    """The server itself has the ? then (seen on 9.7.4)."""
    session = Session("d", client="utf8mb4", connection="latin1")
    assert made("c ENUM('漢', 'ä')", session).literals == ("?", "ä")


@pytest.mark.parametrize(
    ("column", "members"),
    [
        ("c ENUM('a ', 'b') CHARACTER SET binary", ("a ", "b")),
        ("c SET('a ', 'a', 0x6220) BYTE", ("a ", "a", "b ")),
        ("c ENUM('é ', 0xC3A9) CHARACTER SET binary", ("é ", "é")),
        ("c ENUM('a ', 0x6220) CHARACTER SET latin1", ("a", "b")),
        ("c ENUM('a ') BINARY CHARACTER SET utf8mb4", ("a",)),
    ],
)
def test_members_keep_spaces_at_their_end_in_binary_alone(
    column: str, members: tuple[str, ...]
) -> None:
    assert made(column, UTF8MB4).literals == members


def test_a_default_with_a_space_at_its_end_is_the_member_that_has_it() -> None:
    column = "c ENUM('a', 'a ') CHARACTER SET binary DEFAULT 'a '"
    assert made(column, UTF8MB4).default == "'a "
    assert made("c ENUM('a', 'b') DEFAULT 'a '", UTF8MB4).default == "'a"


@pytest.mark.parametrize(
    ("column", "connection"),
    [
        ("c ENUM('é') CHARACTER SET binary", "latin1"),
        ("c ENUM(0xE9)", ""),  # of a database whose character set is not known
        ("c ENUM('a ')", ""),  # of a database whose character set is not known
    ],
)
def test_members_whose_text_is_not_known(column: str, connection: str) -> None:
    session = Session("d", client=connection, connection=connection)
    assert classify_in(f"CREATE TABLE d.t ({column})", session).definition is None


@pytest.mark.parametrize(
    ("column", "members"),
    [
        ("c ENUM(x'FF', 'a') CHARACTER SET binary", ("\ufffd", "a")),
        ("c SET(x'61E4', 'a') CHARACTER SET utf8mb4", ("a\ufffd", "a")),
        ("c ENUM(x'81', 'a') CHARACTER SET cp1250", ("\ufffd", "a")),
        ("c ENUM(x'FE50', 'b') CHARACTER SET gbk", ("\ufffd", "b")),
        ("c ENUM(x'61', 'b') CHARACTER SET ucs2", ("a", "b")),
        ("c ENUM(x'61', 'b') CHARACTER SET utf16le", ("愀", "b")),
        ("c ENUM(x'616263', 'b') CHARACTER SET utf32", ("\ufffd", "b")),
    ],
)
def test_members_of_bytes_are_those_of_the_table_map(column: str, members: tuple[str, ...]) -> None:
    """``live/test_string_literals`` compares both."""
    assert made(column, UTF8MB4).literals == members


@pytest.mark.parametrize(
    ("client", "column"),
    [("sjis", "VARBINARY(9) DEFAULT 'ソ'"), ("sjis", "VARBINARY(9) DEFAULT '\udcff'")],
)
def test_a_default_of_letters_whose_bytes_are_not_known(client: str, column: str) -> None:
    session = Session("d", client=client, connection=client)
    assert made(f"c {column}", session).default is None


@pytest.mark.parametrize("mode", [0, NO_BACKSLASH_ESCAPES])
def test_expressions_keep_the_decoded_text(mode: int) -> None:
    session = Session("d", mode, client="utf8mb4", connection="latin1")
    text = "'漢\\'" if mode else "'漢\\\\'"
    column = made(f"c VARCHAR(20) AS (concat({text}, 'it''s ä 漢')) STORED", session)
    assert column.generated == f"(concat ( {text.replace('漢', '?')} , 'it''s ä ?' )) STORED"


@pytest.mark.parametrize(
    ("client", "connection", "column", "why"),
    [
        ("sjis", "sjis", "c VARCHAR(9) DEFAULT _latin1'ソ'", "bytes of a string in character set"),
        ("utf8mb4", "cp932", "c VARCHAR(9) DEFAULT '晡'", "which letters of a string"),
        ("utf8mb4", "utf8mb4", "c VARCHAR(9) DEFAULT '\udcff'", "not text in its client's"),
        ("utf8mb4", "utf8mb4", "e ENUM('\udcff')", "not text in its client's"),
    ],
)  # fmt: skip
def test_defaults_whose_value_is_not_known_say_why(
    client: str, connection: str, column: str, why: str
) -> None:
    assert why in refused(column, Session("d", client=client, connection=connection))


def test_a_backslash_in_an_expression_is_not_known_without_escapes() -> None:
    """9.7.4 writes the expression down with escapes, and reads it in the session's sql_mode."""
    table = _table("CREATE TABLE d.t (id INT, v VARCHAR(9) AS ('a') STORED)", Session())
    for column in ("AS ('a\\n') STORED", "AS (concat('a\\n')) STORED", "DEFAULT ('a\\n')"):
        for mode, kind in (
            (0, (ConstantValue, ComputedValue)),
            (NO_BACKSLASH_ESCAPES, UnknownValue),
        ):
            session = Session("d", mode)
            statement = classify_in(f"ALTER TABLE d.t ADD c VARCHAR(9) {column}", session)
            before, virtual, origin = alter(table, statement, session).origins
            assert isinstance(origin, kind), (column, mode, origin)
            assert isinstance(before, CarriedColumn) and isinstance(virtual, CarriedColumn)
    plain = classify_in("ALTER TABLE d.t ADD c VARCHAR(9) DEFAULT 'a\\n'", session)
    assert alter(table, plain, session).origins[-1] == ConstantValue("'a\\n")


def test_a_constant_is_read_in_the_sessions_mode() -> None:
    session = Session("d", ANSI_QUOTES)
    table = _table("CREATE TABLE d.t (v VARCHAR(9))", Session())
    statement = classify_in("""ALTER TABLE d.t ADD c VARCHAR(9) AS ("v") VIRTUAL""", session)
    assert isinstance(alter(table, statement, session).origins[1], ComputedValue)


@pytest.mark.parametrize(
    ("kind", "written", "default"),
    [
        ("BINARY(4)", "_ucs2'a'", "0x00610000"),
        ("BINARY(4)", "_utf16'a'", "0x00610000"),
        ("VARBINARY(4)", "_utf32'a'", "0x00000061"),
        ("VARCHAR(4) CHARACTER SET utf8mb4", "_swe7'}a'", "'åa"),
        ("SET('å', '}') CHARACTER SET utf8mb4", "_swe7'}'", "'å"),
        ("VARBINARY(4)", "_swe7'}'", "0x7d"),
    ],
)
def test_ascii_letters_behind_an_introducer_are_bytes(
    kind: str, written: str, default: str
) -> None:
    assert made(f"c {kind} DEFAULT {written}", UTF8MB4).default == default


@pytest.mark.parametrize("generated", ["VARCHAR(4) AS (_swe7'}')", "VARBINARY(4) AS (_ucs2'a')"])
def test_an_expression_of_such_letters_is_not_computed(generated: str) -> None:
    statement = classify_in(f"ALTER TABLE d.t ADD c {generated} STORED", UTF8MB4)
    (origin,) = alter(_table("CREATE TABLE d.t (id INT)", Session()), statement, UTF8MB4).origins[
        1:
    ]
    assert isinstance(origin, UnknownValue)


@pytest.mark.parametrize("number", ["1.", "01", "1.0"])
def test_a_number_that_is_not_printed_as_it_is_written_names_no_member(number: str) -> None:
    column = made(f"c ENUM('a', 'b', '1', '{number}') DEFAULT {number}", UTF8MB4)
    with pytest.raises(ValueError, match=number):
        normalize(number, column, UTF8MB4, assigned=True)
    assert column.default == number


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("ENUM('ä', 'a', '中') CHARACTER SET gbk", ("?", "a", "中")),
        ("ENUM('中', 'é ') CHARACTER SET latin1", ("?", "é")),
        ("SET('€', 'a') CHARACTER SET latin2", ("?", "a")),
        ("ENUM('a', 'é') CHARACTER SET ascii", ("a", "?")),
        ("ENUM('😀', '中') CHARACTER SET utf8mb3", ("?", "中")),
        ("ENUM('𠮷') CHARACTER SET ucs2", ("?",)),
        ("SET('~', '¥', '～') CHARACTER SET sjis", ("~", "?", "?")),
        ("ENUM('{', 'å') CHARACTER SET swe7", ("?", "å")),
        ("ENUM('😀', '中') CHARACTER SET utf16", ("😀", "中")),
    ],
)
def test_members_have_a_question_mark_for_what_their_set_lacks(
    kind: str, members: tuple[str, ...]
) -> None:
    assert made(f"c {kind}", UTF8MB4).literals == members


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("ENUM('ä', 'a') CHARACTER SET gbk", ("盲", "a")),
        ("ENUM('ä') CHARACTER SET latin1", ("Ã¤",)),
        ("ENUM('ä') CHARACTER SET utf16", ("쎤",)),
        ("ENUM('{b') CHARACTER SET swe7", ("äb",)),
        ("SET('ä') CHARACTER SET utf8mb4", ("ä",)),
    ],
)
def test_members_of_a_binary_connection_are_bytes_of_their_set(
    kind: str, members: tuple[str, ...]
) -> None:
    session = Session("d", charsets={"d": "utf8mb4"}, client="binary", connection="binary")
    assert made(f"c {kind}", session).literals == members


def test_a_member_whose_bytes_swe7_has_for_another_letter_is_not_converted() -> None:
    definition = _table("CREATE TABLE d.t (a ENUM('{') CHARACTER SET latin1)", UTF8MB4)
    statement = classify_in("ALTER TABLE d.t CONVERT TO CHARACTER SET swe7", UTF8MB4)
    with pytest.raises(StatementError, match="behind CONVERT TO are not known"):
        alter(definition, statement, UTF8MB4)

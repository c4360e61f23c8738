"""The words of a statement: quotes, escapes, comments and numbers as the server reads them."""

from __future__ import annotations

import pytest

from spark_repl.binlog.charsets.charset import LETTER_BACKSLASH
from spark_repl.errors import StatementError
from spark_repl.sql.classify import Effect, classify
from spark_repl.sql.sql_tokens import (
    ANSI_QUOTES,
    NAME,
    NO_BACKSLASH_ESCAPES,
    NUMBER,
    STRING,
    SYMBOL,
    WORD,
    Cursor,
    tokens,
)


def read(statement: str, sql_mode: int = 0) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokens(statement, sql_mode)]


def words(statement: str) -> list[str]:
    return [token.raw for token in tokens(statement)]


@pytest.mark.parametrize(
    ("statement", "sql_mode", "want"),
    [
        (r"`a``\n`", 0, [(NAME, r"a`\n")]),
        ("'a''b'", 0, [(STRING, "a'b")]),
        (r"'a\'b\n\%\_\q\0'", 0, [(STRING, "a'b\n\\%\\_q\0")]),
        (r"'a\'", NO_BACKSLASH_ESCAPES, [(STRING, "a\\")]),
        (r"'a\n'", NO_BACKSLASH_ESCAPES, [(STRING, r"a\n")]),
        (r"'a\'b'", ANSI_QUOTES, [(STRING, "a'b")]),
        ('"a""b"', 0, [(STRING, 'a"b')]),
        (r'"a\"b"', 0, [(STRING, 'a"b')]),
        ('"a""b"', ANSI_QUOTES, [(NAME, 'a"b')]),
        (r'"a\"', ANSI_QUOTES, [(NAME, "a\\")]),
        (r'"a\"', NO_BACKSLASH_ESCAPES, [(STRING, "a\\")]),
        (r"`a\`", NO_BACKSLASH_ESCAPES, [(NAME, "a\\")]),
        ("`a`", ANSI_QUOTES, [(NAME, "a")]),
        ("1 1.5 .5 1e3 1.5E-3", 0,
         [(NUMBER, text) for text in ("1", "1.5", ".5", "1e3", "1.5E-3")]),
        ("1a a1 t.5a", 0, [(WORD, "1A"), (WORD, "A1"), (WORD, "T"), (SYMBOL, "."), (WORD, "5A")]),
        ("a.b", 0, [(WORD, "A"), (SYMBOL, "."), (WORD, "B")]),
        ("(-é$)", 0, [(SYMBOL, "("), (SYMBOL, "-"), (WORD, "É$"), (SYMBOL, ")")]),
    ],
)  # fmt: skip
def test_quoted_names_strings_and_numbers_are_read_as_the_server_does(
    statement: str, sql_mode: int, want: list[tuple[str, str]]
) -> None:
    assert read(statement, sql_mode) == want


@pytest.mark.parametrize(
    ("statement", "want"),
    [
        ("a # b\nc -- d\ne --f", "a c e - - f"),
        ("a /* b */ c", "a c"),
        ("a /*/ b */ c", "a c"),
        ("a /**/ c", "a c"),
        ("/* a /* b */ c", "c"),
        ("/*!80000 a */ b", "a b"),
        ("/*! a */ b", "a b"),
        ("/*!99998 a */ b", "a b"),
        ("/*!99999 a */ b", "b"),
        ("/*!99999 a /* b */ c */ d", "d"),
        ("/*!99999/* a */*/ d", "d"),
        ("/*!99999 a /*/ b */ c */ d", "d"),
        ("/*!99999 a /* b */ c /* d */ e */ f", "f"),
        ("/*!99999 a */ b /* c */ d", "b d"),
        ("/*!50000 a /*!50000 b */ c */ d", "a c d"),
        ("/*!50000 a /* b */ c */ d", "a c d"),
        ("a */ b", "a * / b"),
    ],
)
def test_comments_are_skipped_as_the_server_does(statement: str, want: str) -> None:
    assert words(statement) == want.split()


@pytest.mark.parametrize(
    "statement", ["/* a", "/*! a", "a /*!50000 b", "/*!99999 a /* b */ c", "'a", '"a', "`a", "/*/"]
)
def test_an_open_quote_or_comment_is_an_error(statement: str) -> None:
    with pytest.raises(StatementError, match=r"has no end|not closed"):
        tokens(statement)


def cursor(statement: str) -> Cursor:
    return Cursor(tokens(statement))


def test_a_cursor_reads_names_of_tables() -> None:
    assert cursor("t").table("d") == "d.t"
    assert cursor("e . t").table("d") == cursor("`e`.`t`").table("") == "e.t"
    assert cursor(".t").table("d") == "d.t"
    assert cursor('"t"').table("d") == "d.t", "in double quotes, where sql_mode is not known"
    assert cursor("`b😀`.`😀a`").table("d") == "b?.?a", "as the server has it"
    for wrong in ("'t'", "7", "(", "", "e.", "e.'t'"):
        with pytest.raises(StatementError):
            cursor(wrong).table("d")
    with pytest.raises(StatementError, match="without a database"):
        cursor("t").table("")


def test_a_cursor_reads_numbers_and_strings() -> None:
    assert cursor("7").number() == 7
    for wrong in ("7.5", "'7'", "9" * 19, "a"):
        with pytest.raises(StatementError, match="a number expected"):
            cursor(wrong).number()
    assert cursor("9" * 18).number() == 10**18 - 1
    assert cursor("'a' 'b' \"c\" d").string() == "abc"
    assert cursor("N'a'").string() == cursor("_utf8 'a'").string() == "a"
    for wrong in ("`a`", "x 'a'", "7"):
        with pytest.raises(StatementError, match="a string expected"):
            cursor(wrong).string()


def test_a_cursor_reads_words_and_parentheses() -> None:
    found = cursor("IF NOT `EXISTS` (a, (b, c), d) e , f")
    assert not found.phrase("IF NOT EXISTS") and found.phrase("IF NOT")
    assert not found.at("EXISTS") and found.word("EXISTS") == ""
    assert found.name() == "EXISTS"
    inner = found.parentheses()
    assert [part.rest() for part in inner.parts()] == ["a", "( b , c", "d"]
    assert found.again().word("E") == found.word("E") == "E"
    assert not found.symbol(";") and found.symbol(",") and not found.at_end()
    with pytest.raises(StatementError, match="G expected before f"):
        found.expect("G")
    assert found.word("F", "G") == "F" and found.at_end()
    assert found.peek() is None and found.rest() == "its end"
    with pytest.raises(StatementError, match="ends too early"):
        found.next()
    with pytest.raises(StatementError):
        cursor("(a").parentheses()
    assert not cursor("IF").phrase("IF NOT")


@pytest.mark.parametrize(
    ("sql_mode", "effect"), [(0, Effect.UNSUPPORTED), (NO_BACKSLASH_ESCAPES, Effect.NO_EFFECT)]
)
def test_a_session_says_what_a_backslash_is(sql_mode: int, effect: Effect) -> None:
    assert classify(r"ALTER TABLE t COMMENT 'a\'", "d", sql_mode).effect is effect


@pytest.mark.parametrize(("sql_mode", "raw"), [(0, r"'a\\n'"), (NO_BACKSLASH_ESCAPES, r"'a\n'")])
def test_a_backslash_that_is_a_letter_escapes_nothing(sql_mode: int, raw: str) -> None:
    """One of two bytes, of sjis: what is kept of the statement is read again in one character
    set."""
    (token,) = tokens(f"'a{LETTER_BACKSLASH}n'", sql_mode)
    assert (token.text, token.raw) == ("a\\n", raw)
    assert tokens(token.raw, sql_mode) == [token]
    assert classify(f"DROP TABLE `a{LETTER_BACKSLASH}`, b", "d", sql_mode).tables == (
        "d.a\\", "d.b",
    )  # fmt: skip

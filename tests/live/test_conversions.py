"""ALTER TABLE between all types on a server, beside what ``convert.conversion`` makes of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest

from spark_repl.binlog.charsets.one_byte import one_byte_table
from spark_repl.binlog.charsets.repertoire import DAMAGED, TWO_BYTES, letters
from spark_repl.binlog.types.forms import Forms
from spark_repl.convert.type_change import TypeChange, TypeFamily, family_of
from spark_repl.errors import Unconvertible
from spark_repl.sql.session import Session
from tests.support.live.alter_grid import STRICT, TRUNCATE, Grid, arrow, attempt, column_of
from tests.support.live.grid_types import MOMENTS, TYPES, ZERO_DATES
from tests.support.live.server import Server

pytestmark = pytest.mark.live

SESSION = Session("g", 0, 0, "+00:00")
_SETS = "SELECT character_set_name FROM information_schema.character_sets ORDER BY 1"
_NUMBERS = "INTEGER DECIMAL REAL YEAR BIT"
_DATES = "DATE DATETIME TIMESTAMP"
# Kinds of which some values, or all, become others only on the server: nothing else may be refused.
UNCONVERTIBLE = {
    "INTEGER": f"{_DATES} TIME",
    "DECIMAL": f"{_DATES} TIME",
    # FLOAT beyond 64 bits depends on the processor.
    "REAL": f"INTEGER YEAR BIT {_DATES} TIME",
    "YEAR": f"{_DATES} TIME JSON",
    "BIT": f"{_DATES} TIME JSON",
    # Exponents, forms of dates that the server doesn't print, a collation's equal letters; in TEXT
    # a character that is cut in two.
    "TEXT": f"TEXT INTEGER YEAR BIT ENUM SET {_DATES} TIME JSON",
    "BYTES": f"TEXT YEAR BIT ENUM SET {_DATES} TIME JSON",
    # Bytes of members: a Column does not tell their character set.
    "ENUM": f"{_DATES} TIME JSON BYTES",
    "SET": f"{_DATES} TIME JSON BYTES",
    # 0000-00-00, where dates are not kept as text; the year 10000 as a number.
    "DATE": "ENUM SET TIMESTAMP JSON",
    "DATETIME": "ENUM SET DATE DATETIME TIMESTAMP INTEGER YEAR BIT JSON",
    "TIMESTAMP": "ENUM SET JSON",
    "TIME": "ENUM SET JSON",
    "JSON": f"{_NUMBERS} ENUM SET {_DATES} TIME",
}
# A character set of wide letters cuts bits off BIT; that of members is not known.
INTO_NO_WIDE_SET = ("BIT", "ENUM", "SET")


@pytest.fixture(scope="module")
def connection(shared_server: Server) -> Iterator[Any]:
    opened = shared_server.connect(charset="utf8mb4", use_unicode=False, conv={})
    yield opened
    opened.close()


def kind(sql_type: str) -> str:
    found = family_of(column_of(sql_type, Forms()))
    assert isinstance(found, TypeFamily)
    return found.name


@pytest.mark.parametrize("before", TYPES)
def test_all_types_become_what_the_server_makes_of_them(connection: Any, before: str) -> None:
    grid = Grid(connection, list(TYPES))
    allowed = UNCONVERTIBLE[kind(before)].split()
    for modes in ("", STRICT):
        outcome = grid.outcome(before, TYPES[before], modes)
        assert outcome.wrong == []
        if modes != STRICT:  # what it refuses itself isn't asked for
            wide = [a for a in outcome.unknown if "utf16" in a and kind(before) in INTO_NO_WIDE_SET]
            unknown = [a for a in outcome.unknown if a not in wide]
            assert [a for a in unknown if kind(a) not in allowed] == []


@pytest.mark.parametrize("time_zone", ["+05:45", "-03:30"])
def test_moments_go_by_the_clock_of_the_session(connection: Any, time_zone: str) -> None:
    grid = Grid(connection, list(MOMENTS))
    for before, literals in MOMENTS.items():
        for modes in ("", STRICT, TRUNCATE):
            assert grid.outcome(before, literals, modes, time_zone).wrong == []


def test_dates_that_no_calendar_has_stay_where_dates_are_text(connection: Any) -> None:
    forms = Forms(zero_dates="string", time_as="microseconds")
    grid = Grid(connection, [one for one in MOMENTS if not one.startswith("TIMESTAMP")], forms)
    for before, literals in MOMENTS.items():
        for modes in ("", TRUNCATE):
            outcome = grid.outcome(before, [*literals, *ZERO_DATES], modes)
            assert outcome.wrong == []
            if "STAMP" not in before:
                assert not [after for after in outcome.unknown if "CHAR" in after]


@pytest.mark.parametrize("sql_type", TYPES)
def test_null_becomes_what_the_type_has_for_it(
    connection: Any, sql_type: str, converted_null: Callable[[str, str], Any]
) -> None:
    grid, forms = Grid(connection, [sql_type]), Forms(zero_dates="string")
    plain = sql_type.removesuffix(" NULL")
    for modes in ("", STRICT):
        grid.query("SET sql_mode = '', timestamp = 1700000000.654321")
        grid.query("DROP TABLE IF EXISTS z")
        grid.query(f"CREATE TABLE z (c {plain} NULL) CHARSET utf8mb4")
        grid.query("INSERT INTO z VALUES (NULL)")
        grid.query(f"SET sql_mode = '{modes}'")
        try:
            grid.query(f"ALTER TABLE z MODIFY c {plain} NOT NULL")
        except pymysql.err.MySQLError:
            assert modes == STRICT
            if not plain.startswith("TIMESTAMP"):  # which it takes where the type changes, too
                with pytest.raises(Unconvertible):
                    converted_null(plain, modes)
            continue
        ((row,),) = grid.query("SELECT c FROM z")
        assert converted_null(plain, modes).equals(
            arrow(column_of(f"{plain} NOT NULL", forms), [row])
        )


@pytest.mark.parametrize(
    "of_five", [0, *(pytest.param(part, marks=pytest.mark.soak) for part in range(1, 5))]
)
def test_every_character_becomes_what_the_server_makes_of_it(connection: Any, of_five: int) -> None:
    """CONVERT TO each fifth character set of one byte, of all characters of the basic plane."""
    grid, forms = Grid(connection, []), Forms()
    grid.query("SET sql_mode = ''")
    every = [chr(n).encode() for n in range(1, 1 << 16) if not 0xD800 <= n < 0xE000]
    sets = [str((row[0] or b"").decode()) for row in grid.query(_SETS)]
    sets = [name for name in sets if one_byte_table(name)]
    assert len(sets) > 20
    before = column_of("VARCHAR(1)", forms)
    for charset in sets[of_five::5]:
        after = column_of(f"VARCHAR(1) CHARACTER SET {charset}", forms)
        refused = attempt(before, after, ["\ufffd".encode()], SESSION) is None
        assert refused == (charset == "tis620")
        rows = [row for row in every if not (refused and row == "\ufffd".encode())]
        grid.query("DROP TABLE IF EXISTS u")
        grid.query("CREATE TABLE u (i INT PRIMARY KEY, c VARCHAR(1)) CHARSET utf8mb4")
        for at in range(0, len(rows), 8000):
            part = enumerate(rows[at : at + 8000], at)
            values = ", ".join(f"({i}, X'{row.hex()}')" for i, row in part)
            grid.query(f"INSERT INTO u VALUES {values}")
        grid.query(f"ALTER TABLE u CONVERT TO CHARACTER SET {charset}")
        theirs = [row[0] for row in grid.query("SELECT CONVERT(c USING utf8mb4) FROM u ORDER BY i")]
        ours = attempt(before, after, list(rows), SESSION)
        assert ours is not None
        wrong = zip(rows, theirs, ours.to_pylist(), strict=True)
        assert [one for one in wrong if (one[1] or b"").decode() != one[2]] == [], charset


@pytest.fixture
def converted_null() -> Callable[[str, str], Any]:
    from spark_repl.convert.conversion import convert

    forms = Forms(zero_dates="string")

    def made(sql_type: str, modes: str) -> Any:
        before, after = (column_of(sql_type + end, forms) for end in (" NULL", " NOT NULL"))
        session = Session("g", 1 << 21 if modes else 0, 1_700_000_000_654_321, "+00:00")
        return convert(arrow(before, [None]), TypeChange(before, after, session, plain=True))

    return made


@pytest.mark.parametrize("charset", sorted(TWO_BYTES))
def test_letters_of_a_set_of_several_bytes(shared_server: Server, charset: str) -> None:
    """Of all letters of the basic plane: what the server writes, and what becomes a ?."""
    basic = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    rows = ", ".join(f"(_utf16 0x{ord(letter):04x})" for letter in basic)
    found = shared_server.query(
        "DROP DATABASE IF EXISTS w",
        "CREATE DATABASE w",
        "CREATE TABLE w.w (n INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(1) COLLATE utf8mb4_bin)",
        f"INSERT INTO w.w (s) VALUES {rows}",
        f"SELECT CONVERT(CONVERT(s USING {charset}) USING utf8mb4) FROM w.w ORDER BY n",
    )
    written = dict(zip(basic, (text for (text,) in found), strict=True))
    known, damaged = letters(charset), DAMAGED.get(charset, "")
    assert known is not None
    assert all(written[letter] != "?" for letter in damaged)
    assert {one: text for one, text in written.items() if one not in damaged} == {
        one: one if one in known else "?" for one in basic if one not in damaged
    }

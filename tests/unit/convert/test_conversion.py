"""What values become by ALTER TABLE, and when it leaves them alone; ``live`` asks a server."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.binlog.types.forms import USUAL, Forms
from spark_repl.convert.conversion import convert
from spark_repl.convert.lossless import keeps_values
from spark_repl.convert.type_change import TypeChange, described
from spark_repl.errors import StatementError, Unconvertible
from spark_repl.sql.classify import classify
from spark_repl.sql.session import Session
from spark_repl.tables.column import Column

LAX = Session(time_zone="+02:00", at=1_700_000_000_000_000)
STRICT = Session(sql_mode=1 << 21, time_zone="+02:00", at=1_700_000_000_000_000)
TRUNCATING = Session(sql_mode=1 << 32, time_zone="+02:00")


def column(sql_type: str, forms: Forms = USUAL) -> Column:
    made = classify(f"CREATE TABLE d.t (c {sql_type}) CHARSET utf8mb4", "d").definition
    assert made is not None
    return forms.apply(made).columns[0]


def becomes(
    value: Any, before: str, after: str, session: Session = LAX, forms: Forms = USUAL
) -> Any:
    """What the value is afterwards; NULL stays NULL, and the type is the column's."""
    old, new = column(before, forms), column(after, forms)
    array = pa.array([value], pa.string() if isinstance(value, str) else None)
    values = pa.concat_arrays([array.cast(old.arrow_type), pa.nulls(1, old.arrow_type)])
    made = convert(values, TypeChange(old, new, session, plain=True))
    made.validate(full=True)
    assert made.type == new.arrow_type
    assert made[1].as_py() is None
    return made[0].as_py()


CASES = [
    (5, "INT", "BIGINT UNSIGNED", Decimal(5)),
    (5, "BIGINT", "VARCHAR(3)", "5"),
    (69, "INT", "YEAR", 2069),
    (20240229, "INT UNSIGNED", "DATE", "2024-02-29"),
    (991231235959, "BIGINT", "DATE", "1999-12-31"),
    (691231, "INT", "DATETIME(3)", datetime(2069, 12, 31)),
    (20240229123456, "BIGINT", "TIMESTAMP NULL", datetime(2024, 2, 29, 10, 34, 56, tzinfo=UTC)),
    (-123456, "INT", "TIME(2)", "-12:34:56.00"),
    (-1, "INT", "BIT(64)", b"\xff" * 8),
    (Decimal("1.005"), "DECIMAL(10,3)", "DECIMAL(5,2)", Decimal("1.01")),
    (Decimal("-2.5"), "DECIMAL(5,1)", "INT", -3),
    (Decimal("0.0000001"), "DECIMAL(20,7)", "VARCHAR(20)", "0.0000001"),
    (2.5, "DOUBLE", "INT", 2),
    (1.005, "DOUBLE", "DECIMAL(5,2)", Decimal("1.01")),
    (1e15, "DOUBLE", "VARCHAR(20)", "1e15"),
    (1e14, "DOUBLE", "VARCHAR(20)", "100000000000000"),
    (1e14, "FLOAT", "VARCHAR(20)", "1e14"),
    (0.1, "FLOAT", "DOUBLE", 0.10000000149011612),
    ("12.5", "VARCHAR(9)", "INT", 13),
    (b"12.5", "VARBINARY(9)", "INT", 13),
    (" +7 ", "VARCHAR(9)", "DECIMAL(5,2)", Decimal("7.00")),
    ("a  ", "VARCHAR(9)", "CHAR(9)", "a"),
    ("ä", "VARCHAR(9) CHARACTER SET latin1", "VARBINARY(9)", b"\xe4"),
    ("ä", "VARCHAR(9)", "VARCHAR(9) CHARACTER SET latin1", "ä"),
    (b"a", "VARBINARY(9)", "BINARY(3)", b"a\0\0"),
    ("b", "ENUM('a','b')", "ENUM('b','c','a')", "b"),
    ("b", "ENUM('a','b')", "INT", 2),
    ("a,c", "SET('a','b','c')", "INT", 5),
    ("a,c", "SET('a','b','c')", "SET('c','a')", "c,a"),
    ("2", "VARCHAR(9)", "ENUM('x','y')", "y"),
    ('{"b":1.50, "a":[1 ,"\\u00e4"]}', "TEXT", "JSON", '{"a": [1, "ä"], "b": 1.5}'),
    ("-01:00:00.500000", "TIME(6)", "TIME", "-01:00:01"),
    ("-01:00:00.400000", "TIME(6)", "INT", -10000),
    ("2024-02-29", "VARCHAR(10)", "DATE", "2024-02-29"),
    ("2024-02-29 23:59:59.5", "VARCHAR(30)", "DATETIME", "2024-03-01 00:00:00"),
]


@pytest.mark.parametrize(("value", "before", "after", "made"), CASES)
@pytest.mark.parametrize("session", [LAX, STRICT])
def test_values_that_fit_are_converted(
    value: Any, before: str, after: str, made: Any, session: Session
) -> None:
    got = becomes(value, before, after, session)
    assert (str(got) if after in ("DATE", "DATETIME") else got) == made


UNFIT = [
    (300, "INT", "TINYINT", 127),
    (-1, "INT", "BIGINT UNSIGNED", Decimal(0)),
    (5, "INT", "BIT(2)", b"\x03"),
    (1901, "INT", "TINYINT UNSIGNED", 255),
    (100, "INT", "YEAR", 0),
    (Decimal("999.995"), "DECIMAL(9,3)", "DECIMAL(5,2)", Decimal("999.99")),
    (Decimal("-0.001"), "DECIMAL(9,3)", "DECIMAL(5,2) UNSIGNED", Decimal("0.00")),
    (
        Decimal(-(10**30)),
        "DECIMAL(35,0)",
        "DECIMAL(38,20)",
        Decimal("-" + "9" * 18 + "." + "9" * 20),
    ),
    # On its way to an integer a DECIMAL is a signed one of 64 bits.
    (Decimal(2**64 - 1), "DECIMAL(20,0)", "BIGINT UNSIGNED", Decimal(2**63 - 1)),
    (-1.5, "DOUBLE", "DOUBLE UNSIGNED", 0.0),
    ("abc", "VARCHAR(9)", "VARCHAR(2)", "ab"),
    ("abc de", "VARCHAR(9)", "VARCHAR(4)", "abc "),
    ("abc de", "VARCHAR(9)", "CHAR(4)", "abc"),
    (b"abc de", "VARBINARY(9)", "CHAR(4)", "abc"),
    ("😀x", "VARCHAR(9)", "VARCHAR(9) CHARACTER SET latin1", "?x"),
    ("12abc", "VARCHAR(9)", "INT", 12),
    ("", "VARCHAR(9)", "INT", 0),
    (b"a\xff", "VARBINARY(9)", "VARCHAR(9)", "a"),
    ("b", "ENUM('a','b')", "ENUM('a','c')", ""),
    ("a,b", "SET('a','b')", "SET('a','c')", "a"),
]


@pytest.mark.parametrize(("value", "before", "after", "made"), UNFIT)
def test_values_that_do_not_fit(value: Any, before: str, after: str, made: Any) -> None:
    assert becomes(value, before, after) == made
    with pytest.raises(Unconvertible, match="strict server refuses") as refused:
        becomes(value, before, after, STRICT)
    assert "column c becomes" in str(refused.value)
    assert isinstance(refused.value, StatementError)


UNKNOWN = [
    ("A", "VARCHAR(9)", "ENUM('a')", "collation"),
    ("a ", "VARCHAR(9)", "ENUM('a')", "character set"),
    ("b,a ", "VARCHAR(9)", "SET('a','b')", "character set"),
    (b"a", "VARBINARY(9)", "ENUM('a')", "bytes are compared with the members by the collation"),
    ("1e2", "VARCHAR(9)", "INT", "exponent"),
    ("24-1-1", "VARCHAR(9)", "DATE", "not known"),
    (1e30, "FLOAT", "BIGINT", "machine"),
    ("x" + "ä" * 127 + "é", "TEXT", "TINYTEXT", None),
    ("ä" * 128, "TEXT", "TINYTEXT", "in two"),
    ("{", "TEXT", "JSON", "no JSON"),
    (240230, "INT", "DATE", "not known"),
    (10101, "INT", "DATE", "not known"),
    (-20240229, "INT", "DATE", "not known"),
    (0, "INT", "DATETIME", "stores 0000-00-00"),
    (20240229, "INT", "TIME", "not known"),
    (5960, "INT", "TIME", "not known"),
    (20240229, "DOUBLE", "DATE", "not known"),
    (-1.2345678901234567e-300, "DOUBLE", "TEXT", "shortens"),
    ("a", "ENUM('a')", "VARBINARY(9)", "character set of the members is not known"),
    ("a", "SET('a')", "VARCHAR(9) CHARACTER SET utf16", "character set of the members"),
    ("a ", "ENUM('a ') CHARACTER SET binary", "ENUM('a','b')", "compared with their spaces"),
    ("a", "VARCHAR(9)", "SET('a ') CHARACTER SET binary", "compared with their spaces"),
]


@pytest.mark.parametrize(("value", "before", "after", "reason"), UNKNOWN)
def test_what_is_not_known_is_not_guessed(
    value: Any, before: str, after: str, reason: str | None
) -> None:
    if reason is None:  # a cut between two characters
        assert becomes(value, before, after) == value[:-1]
        return
    with pytest.raises(Unconvertible, match=reason):
        becomes(value, before, after)


def test_numbers_that_are_dates_of_their_own() -> None:
    text = Forms(zero_dates="string")
    assert becomes(0, "INT", "DATE", forms=text) == "0000-00-00"
    assert becomes(240229, "INT", "DATETIME(1)", forms=text) == "2024-02-29 00:00:00.0"
    old, new = column("INT ZEROFILL"), column("DATE")
    with pytest.raises(Unconvertible, match="ZEROFILL"):
        convert(pa.array([240229]).cast(old.arrow_type), TypeChange(old, new, LAX))


def test_moments_go_by_the_clock_of_the_session() -> None:
    assert str(becomes("2024-12-31 23:00:00", "DATETIME", "TIMESTAMP NULL")) == (
        "2024-12-31 21:00:00+00:00"
    )
    stamp = "TIMESTAMP(6) NULL"
    assert becomes("2024-12-31 22:59:59.6Z", stamp, "VARCHAR(30)") == "2025-01-01 00:59:59.600000"
    assert str(becomes("2024-12-31 21:59:59.6Z", stamp, "DATE")) == "2025-01-01"
    assert str(becomes("2024-12-31 21:59:59.6Z", stamp, "DATE", TRUNCATING)) == "2024-12-31"
    assert becomes("2024-12-31 21:59:59.6Z", stamp, "TIME") == "24:00:00"
    assert str(becomes("25:00:00", "TIME", "DATETIME")) == "2023-11-16 01:00:00"
    for zone in ("", "SYSTEM", "Nowhere/None"):
        with pytest.raises(Unconvertible, match="zone"):
            becomes("2024-12-31 23:00:00", "DATETIME", "TIMESTAMP NULL", Session(time_zone=zone))


def test_the_second_of_two_hours_is_lost_even_between_timestamps() -> None:
    berlin = Session(time_zone="Europe/Berlin")
    twice = "2024-10-27 01:30:00Z"
    assert str(becomes(twice, "TIMESTAMP NULL", "TIMESTAMP(3) NULL", berlin)).startswith(
        "2024-10-27 00:30:00"
    )
    assert str(becomes(twice, "TIMESTAMP NULL", "TIMESTAMP(3) NULL")).startswith(
        "2024-10-27 01:30:00"
    )
    with pytest.raises(Unconvertible, match="does not have"):
        becomes("2024-03-31 02:30:00", "DATETIME", "TIMESTAMP NULL", berlin)


def test_dates_as_text_hold_what_no_calendar_has() -> None:
    forms = Forms(zero_dates="string")
    assert becomes("2024-00-10", "DATE", "CHAR(10)", forms=forms) == "2024-00-10"
    late = "9999-12-31 23:59:59.900000"
    assert becomes(late, "DATETIME(6)", "DATE", forms=forms) == "0000-00-00"
    with pytest.raises(Unconvertible, match="calendar"):
        becomes("2024-00-10", "DATE", "INT", forms=forms)
    with pytest.raises(Unconvertible, match="0000-00-00"):
        becomes(late, "DATETIME(6)", "DATE")


@pytest.mark.parametrize(
    ("charset", "text", "want"),
    [
        ("gbk", "中é\N{GRINNING FACE}가", "中é??"),
        ("gb2312", "中é가", "中é?"),
        ("big5", "中é가", "中??"),
        ("sjis", "あ가é", "あ??"),
        ("cp932", "あ①가", "あ①?"),
        ("ujis", "あé가①", "あé??"),
        ("eucjpms", "あé①가", "あé①?"),
        ("euckr", "가中€é", "가中€?"),
    ],
)
def test_letters_that_a_set_of_several_bytes_lacks(charset: str, text: str, want: str) -> None:
    assert becomes(text, "VARCHAR(9)", f"VARCHAR(9) CHARACTER SET {charset}") == want
    with pytest.raises(Unconvertible, match="strict server refuses"):
        becomes(text, "VARCHAR(9)", f"VARCHAR(9) CHARACTER SET {charset}", STRICT)


@pytest.mark.parametrize("byte", [b"\x80", b"\xa0", b"\xfd", b"\xfe", b"\xff"])
def test_bytes_that_a_server_reads_and_does_not_take(byte: bytes) -> None:
    """It cuts them off, where it takes the letters that it reads them as from no other set."""
    with pytest.raises(Unconvertible, match="does not take each byte of cp932"):
        becomes(b"a" + byte, "VARBINARY(9)", "VARCHAR(9) CHARACTER SET cp932")
    assert becomes(b"\x82\xa0", "VARBINARY(9)", "VARCHAR(9) CHARACTER SET cp932") == "あ"


@pytest.mark.parametrize("charset", ["ucs2", "utf16", "utf16le", "utf32"])
@pytest.mark.parametrize("kind", ["VARCHAR(30)", "CHAR(30)", "TEXT"])
def test_bits_in_wide_letters_are_not_convertible(charset: str, kind: str) -> None:
    with pytest.raises(Unconvertible, match="wide letters"):
        becomes(b"\xff" * 8, "BIT(64)", f"{kind} CHARACTER SET {charset}")


@pytest.mark.parametrize(("charset", "letter"), [("big5", "\ufffd"), ("cp932", "晡")])
def test_a_letter_that_the_server_writes_wrong(charset: str, letter: str) -> None:
    with pytest.raises(Unconvertible, match="wrong in"):
        becomes(letter, "VARCHAR(9)", f"VARCHAR(9) CHARACTER SET {charset}")


def test_what_a_column_does_not_say_is_not_assumed() -> None:
    for value, before, after in ((5, "INT UNSIGNED", "TEXT"), (0.5, "FLOAT", "DOUBLE")):
        old, new = column(before), column(after)
        values = pa.array([value], old.arrow_type)
        with pytest.raises(Unconvertible, match="is not known"):
            convert(values, TypeChange(old, new, LAX))
        assert not keeps_values(TypeChange(old, new, LAX))
    floats = column("FLOAT")
    assert not keeps_values(TypeChange(floats, floats, LAX))
    assert keeps_values(TypeChange(floats, floats, LAX, plain=True))


def test_null_has_no_place_in_not_null() -> None:
    def filled(sql_type: str, session: Session = LAX) -> Any:
        old, new = column(sql_type + " NULL"), column(sql_type + " NOT NULL")
        made = convert(pa.nulls(1, old.arrow_type), TypeChange(old, new, session))
        return made[0].as_py()

    assert filled("INT") == 0
    assert filled("ENUM('a','b')") == ""
    assert filled("BINARY(2)") == b"\0\0"
    assert filled("JSON") == "null"
    assert str(filled("TIMESTAMP")) == "2023-11-14 22:13:20+00:00"
    for sql_type, session in (("INT", STRICT), ("DATE", LAX), ("POINT", LAX)):
        with pytest.raises(Unconvertible, match="NULL"):
            filled(sql_type, session)


def test_auto_increment_gives_numbers_of_its_own() -> None:
    old = column("INT NOT NULL")
    new = replace(old, auto_increment=True)
    assert convert(pa.array([7], pa.int32()), TypeChange(old, new, LAX)).to_pylist() == [7]
    with pytest.raises(Unconvertible, match="AUTO_INCREMENT"):
        convert(pa.array([0], pa.int32()), TypeChange(old, new, LAX))
    keeping = Session(sql_mode=1 << 19)
    assert convert(pa.array([0], pa.int32()), TypeChange(old, new, keeping)).to_pylist() == [0]
    assert not keeps_values(TypeChange(old, new, LAX))
    assert keeps_values(TypeChange(old, new, keeping))


KEPT = [
    ("VARCHAR(10)", "VARCHAR(20)"), ("VARCHAR(10)", "TEXT"), ("CHAR(5)", "VARCHAR(5)"),
    ("VARCHAR(9) CHARACTER SET latin1", "VARCHAR(9)"), ("TINYTEXT", "TEXT"),
    ("ENUM('a','b')", "ENUM('b','c','a')"), ("SET('a','b')", "SET('a','x','b')"),
    ("ENUM('a','b')", "VARCHAR(1)"), ("INT(5)", "INT"), ("MEDIUMINT", "INT"),
    ("INT NOT NULL", "INT NULL"), ("DATETIME(3)", "DATETIME(6)"), ("BLOB", "LONGBLOB"),
    ("TIMESTAMP", "TIMESTAMP(3)"), ("BINARY(3)", "VARBINARY(3)"), ("BIT(9)", "BIT(12)"),
    ("INT DEFAULT 1", "INT DEFAULT 2"), ("DECIMAL(40,2)", "DECIMAL(50,2)"),
]  # fmt: skip
CHANGED = [
    ("VARCHAR(20)", "VARCHAR(10)"), ("VARCHAR(9)", "VARCHAR(9) CHARACTER SET latin1"),
    ("VARCHAR(9)", "CHAR(9)"), ("TEXT", "TINYTEXT"), ("SET('a','b')", "SET('b','a')"),
    ("ENUM('a','b')", "ENUM('a')"), ("INT", "BIGINT"), ("INT", "MEDIUMINT"),
    ("INT", "INT UNSIGNED"), ("DATETIME(6)", "DATETIME(3)"), ("VARBINARY(3)", "BINARY(3)"),
    ("TIME", "TIME(3)"), ("INT NULL", "INT NOT NULL"), ("DECIMAL(40,2)", "DECIMAL(41,3)"),
    ("VARCHAR(100)", "TINYTEXT"), ("BIT(8)", "BIT(9)"), ("VARCHAR(9)", "VARBINARY(99)"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), KEPT)
def test_type_changes_that_keep_every_value_are_recognised(before: str, after: str) -> None:
    assert keeps_values(TypeChange(column(before), column(after), LAX))


@pytest.mark.parametrize(("before", "after"), CHANGED)
def test_type_changes_that_may_change_values_are_recognised(before: str, after: str) -> None:
    assert not keeps_values(TypeChange(column(before), column(after), LAX))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("VARCHAR(9)", "VARCHAR(9) CHARACTER SET utf8mb4"),
        ("TEXT", "BLOB CHARACTER SET utf8mb4"),
        ("VARBINARY(9)", "VARCHAR(9)"),
        ("DECIMAL(9,2) UNSIGNED", "DECIMAL(9,2) UNSIGNED"),
        ("DATETIME(3)", "DATETIME(3)"),
        ("DATETIME", "DATETIME"),
        ("DOUBLE", "DOUBLE"),
        ("ENUM('a')", "ENUM"),
        ("JSON", "JSON"),
        ("YEAR", "YEAR"),
    ],
)
def test_messages_name_types_as_sql_does(kind: str, said: str) -> None:
    assert described(column(kind)) == said


def test_no_rows_and_many_equal_rows_are_converted() -> None:
    old, new = column("VARCHAR(9)"), column("INT")
    assert convert(pa.array([], pa.string()), TypeChange(old, new, STRICT)).to_pylist() == []
    many = pa.array(["7", None] * 5000, pa.string())
    assert convert(many, TypeChange(old, new, STRICT)).to_pylist() == [7, None] * 5000
    assert convert(many[3:5], TypeChange(old, new, STRICT)).to_pylist() == [None, 7]


@pytest.mark.parametrize("after", ["VARCHAR(5)", "TEXT", "VARBINARY(20)", "BINARY(20)"])
def test_char_that_is_read_filled_up(after: str) -> None:
    """PAD_CHAR_TO_FULL_LENGTH: VARCHAR(5) has 'ab   ' then."""
    padded = Session(sql_mode=1 << 31)
    assert not keeps_values(TypeChange(column("CHAR(5)"), column(after), padded))
    with pytest.raises(Unconvertible, match="PAD_CHAR_TO_FULL_LENGTH"):
        becomes("ab", "CHAR(5)", after, padded)
    assert becomes("abcde", "CHAR(5)", "VARCHAR(5)", padded) == "abcde"
    assert becomes("ab", "CHAR(5)", "CHAR(9)", padded) == "ab"
    assert becomes("ab", "VARCHAR(5)", after, padded) == becomes("ab", "CHAR(5)", after)


@pytest.mark.parametrize("after", ["SET('a','ab')", "ENUM('a','ab')", "TIME(1)", "INT", "JSON"])
def test_char_that_other_types_read_filled_up(after: str) -> None:
    """9.7.4: SET has no member 'ab   ', and TIME(1) has no such fraction."""
    padded = Session(sql_mode=1 << 31)
    with pytest.raises(Unconvertible, match="PAD_CHAR_TO_FULL_LENGTH"):
        becomes("ab", "CHAR(5)", after, padded)

"""What ``binlog.charsets.collation_compare`` takes for one value, and what expressions say of
patterns and order, compared with a server's collations."""

from __future__ import annotations

import itertools
import string

import pyarrow as pa
import pytest

from spark_repl.binlog.charsets.charset import NAMES, ORDERED, charset_of
from spark_repl.binlog.charsets.collation_compare import comparable, tells_all_letters
from spark_repl.rules.row_filters import row_filter
from spark_repl.sql.classify import classify
from tests.support.live.server import Server

_PRINTABLE = [chr(code) for code in range(32, 127)]
_VALUES = [
    "", *_PRINTABLE, *(f"{char} " for char in "aZ-"), "a  ", " a", "a-b", "ab", "a b",
    *map("".join, itertools.product(string.ascii_letters, string.ascii_lowercase)),
    "ccs", "cscs", "ddzs", "dzsdzs", "LL",
]  # fmt: skip


@pytest.mark.parametrize("number", NAMES)
def test_values_are_equal_as_in_the_servers_collations(shared_server: Server, number: int) -> None:
    name, charset = NAMES[number], charset_of(number)
    values = _VALUES
    kind = "VARBINARY(9)" if charset == "binary" else f"VARCHAR(9) COLLATE {name}"
    found = shared_server.query(
        "DROP DATABASE IF EXISTS w", "CREATE DATABASE w", "SET group_concat_max_len = 1000000",
        f"CREATE TABLE w.w (s {kind})",
        "INSERT INTO w.w VALUES " + ", ".join(f"(X'{v.encode().hex()}')" for v in values),
        "SELECT GROUP_CONCAT(DISTINCT HEX(s) ORDER BY HEX(s)) FROM w.w GROUP BY s",
    )  # fmt: skip
    server = {tuple(bytes.fromhex(h).decode() for h in text.split(",")) for (text,) in found}
    classes: dict[object, set[str]] = {}
    for value, same in zip(values, comparable(pa.array(values), number).to_pylist(), strict=True):
        classes.setdefault(same, set()).add(value)
    assert {tuple(sorted(c, key=lambda v: v.encode().hex())) for c in classes.values()} == server


def test_the_numbers_are_the_servers(shared_server: Server) -> None:
    listed = dict(
        shared_server.query("SELECT id, collation_name FROM information_schema.collations")
    )
    assert {number: listed[number] for number in NAMES} == NAMES


_TEXTS = ["", "a", "A", "a ", "ab", "aB", "b", "a%", "a_b", "%", "_", "a\\b", "\\", "a b", " a",
          "a  b", "aab", "ss", "(a.c)", "a.c", "z|"]  # fmt: skip
_ODD = ["é", "ab\n", "a\t", "a \t", "a\0", "aé", "\n", "ß"]
_WIDE = ["a€", "😀", "a😀b", "\uffff", "\ue000"]
_PATTERNS = (
    "LIKE ''", "LIKE 'a'", "LIKE 'A%'", "LIKE 'a_'", "LIKE 'a_%'", "LIKE '%b'", "LIKE '%a%b'",
    "LIKE '_'", "LIKE '__'", "LIKE '%'", "LIKE 'a\\%'", "LIKE 'a\\_b'", "LIKE 'a\\\\\\\\b'",
    "LIKE 'a|%' ESCAPE '|'", "LIKE 'z||' ESCAPE '|'", "LIKE 'a\\\\%' ESCAPE '|'", "NOT LIKE 'a%'",
    "LIKE '% %'", "LIKE 'a '", "LIKE '(_._)'", "LIKE 'ba%' ESCAPE 'b'",
)  # fmt: skip
_ORDERS = (
    "< 'a'", "<= 'a'", "> 'a'", ">= 'a '", "< 'aB'", "> ''", "<= ''", "< ' '",
    "BETWEEN 'A' AND 'a '", "NOT BETWEEN 'a' AND 'b'", "> 'a  b'", "<= 'z'",
)  # fmt: skip


def test_patterns_and_order_are_those_of_the_servers_collations(shared_server: Server) -> None:
    """One SELECT: which rows each of some hundred expressions is true of."""
    columns = {f"c{number}": (number, name) for number, name in NAMES.items()}
    kinds = [
        f"{column} VARBINARY(20)" if name == "binary" else f"{column} VARCHAR(20) COLLATE {name}"
        for column, (_, name) in columns.items()
    ]
    create = f"CREATE TABLE w.w (id INT PRIMARY KEY, {', '.join(kinds)})"
    definition = classify(create, "w").definition
    assert definition is not None
    texts = {column: _texts(number) for column, (number, _) in columns.items()}
    rows = [
        f"({i + 1}, {', '.join(_hex(one[i], columns[name][1]) for name, one in texts.items())})"
        for i in range(len(_TEXTS + _ODD + _WIDE))
    ]
    asked = [
        f"{column} {what}"
        for column, (number, _) in columns.items()
        for what in (*_PATTERNS, *(_ORDERS if number in ORDERED or number == 63 else ()))
    ]
    counts = [f"GROUP_CONCAT(CASE WHEN {one} THEN id END ORDER BY id)" for one in asked]
    (found,) = shared_server.query(
        "DROP DATABASE IF EXISTS w", "CREATE DATABASE w", "SET group_concat_max_len = 1000000",
        create, f"INSERT INTO w.w VALUES {', '.join(rows)}", f"SELECT {', '.join(counts)} FROM w.w",
    )  # fmt: skip
    for one, server in zip(asked, found, strict=True):
        rule = row_filter(one, definition)
        (column,) = rule.names
        kind = definition.arrow_schema().field(column).type
        values: list[str | bytes | None] = [*texts[column]]
        if column == "c63":
            values = [None if text is None else text.encode() for text in texts[column]]
        ours = rule.passes([pa.array(values, kind)])
        ids = [str(i + 1) for i, passes in enumerate(ours) if passes]
        assert ids == (server.split(",") if server else []), one
    assert len(asked) > 400


def _texts(number: int) -> list[str | None]:
    """Those that the column can hold, and of which it is known how they compare."""
    charset, odd = charset_of(number), tells_all_letters(number)
    codec = {"ascii": "ascii", "latin1": "latin-1"}.get(charset, "utf-8")

    def fits(text: str) -> bool:
        wide = any(ord(one) > 0xFFFF for one in text) and charset == "utf8mb3"
        return not wide and text.encode(codec, "replace").decode(codec) == text

    return [one if fits(one) else None for one in _TEXTS] + [
        one if odd and fits(one) else None for one in _ODD + _WIDE
    ]


def _hex(text: str | None, name: str) -> str:
    if text is None:
        return "NULL"
    raw = f"X'{text.encode().hex()}'"
    return raw if name == "binary" else f"CONVERT({raw} USING utf8mb4)"

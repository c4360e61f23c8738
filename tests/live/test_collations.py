"""What ``binlog.charsets.comparing`` takes for one value, compared with a server's collations."""

from __future__ import annotations

import itertools
import string

import pyarrow as pa
import pytest

from spark_repl.binlog.charsets.charset import NAMES, charset_of
from spark_repl.binlog.charsets.comparing import comparable
from tests.support.live.server import Server

_PRINTABLE = [chr(code) for code in range(32, 127)]
_VALUES = [
    "", *_PRINTABLE, *(f"{char} " for char in "aZ-"), "a  ", " a", "a-b", "ab", "a b",
    *map("".join, itertools.product(string.ascii_letters, string.ascii_lowercase)),
    "ccs", "cscs", "ddzs", "dzsdzs", "LL",
]  # fmt: skip


@pytest.mark.parametrize("number", NAMES)
def test_what_is_one_value(shared_server: Server, number: int) -> None:
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

"""row_filter beside a live server: under random changes the target has what the server itself finds
by the same expression, and verify, which reads the source's rows, finds no difference."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.copy.survey import survey
from tests.support.live.following import Following
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.local_delta import last_shown

COLUMNS = (
    "n INT, u BIGINT UNSIGNED, d DECIMAL(8, 3), f DOUBLE, s VARCHAR(20), c CHAR(8) CHARACTER SET"
    " latin1, day DATE, at DATETIME(2), tm TIME, e ENUM('open', 'shut'), b BIT(3), j JSON, y YEAR,"
    " h VARBINARY(8), g VARCHAR(8) COLLATE utf8mb4_bin, i VARCHAR(8), k CHAR(8)"
)
NAMES = ["n", "u", "d", "f", "s", "c", "day", "at", "tm", "e", "b", "j", "y", "h", "g", "i", "k"]
VALUES: tuple[tuple[str, ...], ...] = (
    ("-2", "0", "1", "7"), ("0", "3", "18446744073709551615"), ("-1.5", "0.001", "2.25"),
    ("-0.5", "0e0", "3.25e0"), ("''", "'ab'", "'12abc'", "'äöü'"), ("'x '", "'yy'", "'zz'"),
    ("'2024-02-29'", "'2025-12-31'", "'2026-01-05'"),
    ("'2025-12-31 23:59:59.99'", "'2026-01-05 00:00:00'"), ("'-10:00:00'", "'00:00:01'"),
    ("'open'", "'shut'"), ("b'0'", "b'101'"), ("'{\"a\": 1}'", "'{\"a\": \"x\"}'", "'[]'"),
    ("1999", "2026"), ("x'00'", "x'616200'"), ("'é'", "'E'", "'e '"),
    ("'ab'", "'aB'", "'Ab '"), ("'ab'", "'aB '", "'zz'"),
)  # fmt: skip
FILTERS = (
    "n > 0", "n % 2 = 1 OR n IS NULL", "u > 9223372036854775807", "d BETWEEN 0 AND 2",
    "f < 1 XOR n = 1", "CAST(s AS BINARY) = 'ab'", "CHAR_LENGTH(s) > 2",
    "c IN ('zz', 'x')", "day >= '2025-12-31'",
    "YEAR(at) = 2026 AND MONTH(at) < 3", "tm < '00:00:00'", "e = 'open'", "b", "d * n - 1",
    "CASE WHEN e = 'shut' THEN n > 0 ELSE s IS NOT NULL END", "y > 2000", "h = x'616200'",
    "NOT (n = 1 OR d > 2)", "JSON_EXTRACT(j, '$.a') IS NOT NULL", "COALESCE(n, 0) <=> 0",
    "n", "s + 0 > 1", "CHAR_LENGTH(CONCAT(s, c)) > 4", "CRC32(s) % 3 = 0", "id % 5 <> 2",
    "g = 'e'", "g <> 'é'", "i = 'AB'", "k <=> 'AB'", "k <> 'AB '",
    "c IN ('ZZ', 'yy')", "i <> k",
)  # fmt: skip


def changes(chance: random.Random, name: str, keyed: bool) -> list[str]:
    def row() -> list[str]:
        return [chance.choice([*some, "NULL"]) for some in VALUES]

    count = len(VALUES)
    numbers = range(1, 31)
    made = [f"INSERT INTO {name} VALUES ({i}, {', '.join(row())})" for i in numbers]
    for _ in range(40):
        number = chance.choice(numbers)
        columns = chance.sample(range(count), 4)
        values = row()
        sets = ", ".join(f"{NAMES[i]} = {values[i]}" for i in columns)
        made.append(f"UPDATE {name} SET {sets} WHERE id BETWEEN {number} AND {number + 2}")
    made += [f"DELETE FROM {name} WHERE id = {chance.choice(numbers)}" for _ in range(5)]
    if keyed:
        made.append(f"UPDATE {name} SET id = id + 100 WHERE id < 10")
    return made


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.query("DROP DATABASE IF EXISTS t", "RESET BINARY LOGS AND GTIDS")
    chance = random.Random(7)
    shared_server.query("CREATE DATABASE t")
    for number in range(len(FILTERS)):
        keyed = number % 4 != 3
        key = "id INT PRIMARY KEY" if keyed else "id INT"
        name = f"t.f{number}"
        shared_server.query(
            f"CREATE TABLE {name} ({key}, {COLUMNS})", "BEGIN", *changes(chance, name, keyed),
            "COMMIT",
        )  # fmt: skip
    return shared_server


@pytest.mark.slow
def test_the_server_finds_the_same(server: Server, tmp_path: Path) -> None:
    tables = [{"match": f"t.f{number}", "row_filter": text} for number, text in enumerate(FILTERS)]
    with Following(server, tmp_path, tables=tables) as following:
        following.catch_up()
        found = following.verify()
    target = Path(following.config.target.path)
    shown = last_shown(target)
    for number, text in enumerate(FILTERS):
        asked = server.query(f"SELECT id FROM t.f{number} WHERE {text} ORDER BY id")
        want = [row[0] for row in asked]
        assert [row[0] for row in shown[f"t.f{number}"]] == want, text
        assert 0 < len(want) < 30, text
        assert found.tables[f"t.f{number}"] == {
            "rows": len(want), "ranges": 1, "differing": 0, "undecided": 0,
        }  # fmt: skip


def test_a_table_that_a_filter_has_no_meaning_for_is_said_before(
    shared_server: Server, tmp_path: Path
) -> None:
    create = "CREATE TABLE IF NOT EXISTS t.f0 (id INT PRIMARY KEY, n INT)"
    shared_server.query("CREATE DATABASE IF NOT EXISTS t", create)
    tables = [{"match": "t.f0", "row_filter": "nn > 0"}, {"match": "t.%", "row_filter": "n > 0"}]
    plain = config_for(shared_server, tmp_path)
    config = Config.from_mapping({**plain.to_mapping(), "tables": tables})
    (error,) = survey(config).errors
    assert (
        error.what == "[[tables]] t.f0: row_filter nn > 0: there is no column nn; the nearest is n"
    )
    assert error.tables == ("t.f0",)

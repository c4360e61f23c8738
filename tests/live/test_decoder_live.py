"""Tables of every type with random values on a real server: the decoder's end state is its own."""

from __future__ import annotations

import random
import re
import string
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark_repl import read_changes
from spark_repl.binlog.types.forms import Forms
from spark_repl.relay.log import open_log
from spark_repl.relay.log_inspection import dump
from tests.support.live.decoder_server import Server, server
from tests.support.live.replay import replay, server_rows

__all__ = ["server"]  # the fixture

ROWS = 2000
Maker = Callable[[random.Random], str]

_AT = re.compile(r"^# at (\d+)$")
_EVENT = re.compile(r"^#\d{6} .*? server id \d+  end_log_pos (\d+) (?:CRC32 0x([0-9a-f]+))?")


@dataclass(frozen=True)
class PrintedEvent:
    """``crc``: the checksum as the file has it; None where mysqlbinlog names none."""

    end: int
    crc: int | None


def mysqlbinlog(server: Server, path: Path) -> dict[int, PrintedEvent]:
    """Offset -> event; without those inside of compressed transactions, which it puts at the
    payload's end."""
    command = [str(server.bin / "mysqlbinlog"), "--no-defaults", "-vv", "--verify-binlog-checksum"]
    ran = subprocess.run([*command, str(path)], capture_output=True, check=True)
    found: dict[int, PrintedEvent] = {}
    at = -1
    for line in ran.stdout.decode("utf-8", "replace").splitlines():
        if match := _AT.match(line):
            at = int(match[1])
        elif (match := _EVENT.match(line)) and int(match[1]) != at:
            found[at] = PrintedEvent(int(match[1]), int(match[2], 16) if match[2] else None)
    return found


def integer(bits: int, unsigned: bool) -> Maker:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return lambda r: str(r.choice((low, high, 0, 1, r.randint(low, high), r.randint(low, high))))


def decimal(precision: int, scale: int) -> Maker:
    def make(r: random.Random) -> str:
        whole = "".join(r.choices("0009123456", k=r.randint(0, precision - scale))) or "0"
        part = "".join(r.choices("0009123456", k=r.randint(0, scale))) or "0"
        return f"{r.choice(('', '-'))}{whole}.{part}"

    return make


def real(r: random.Random) -> str:
    return repr(
        r.choice(
            (
                0.0,
                1.5,
                r.uniform(-1e9, 1e9),
                r.uniform(1e15, 9e15),
                r.gauss(0, 1) * 10.0 ** r.randint(-30, 9),
            )
        )
    )


def moment(digits: int, low: int, high: int) -> Maker:
    def make(r: random.Random) -> str:
        year = r.choice((low, high, r.randint(low, high)))
        date = f"{year:04d}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"
        return f"'{date} {clock(r)}.{r.choice((0, 999999, r.randrange(10**6))):06d}'"

    return make


def clock(r: random.Random) -> str:
    return f"{r.randrange(24):02d}:{r.randrange(60):02d}:{r.randrange(60):02d}"


def duration(r: random.Random) -> str:
    hours = r.choice((0, 838, 99, 100, r.randrange(838)))
    part = 0 if hours == 838 else r.choice((0, 999999, r.randrange(10**6)))
    sign = r.choice(("", "-"))
    return f"'{sign}{hours}:{r.randrange(60):02d}:{r.randrange(60):02d}.{part:06d}'"


def text(longest: int, letters: str = string.printable + "äß漢😀\0'\\") -> Maker:
    def make(r: random.Random) -> str:
        found = "".join(r.choices(letters, k=r.choice((0, 1, longest, r.randint(0, longest)))))
        return "'" + found.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"

    return make


def binary(longest: int) -> Maker:
    return lambda r: f"x'{r.randbytes(r.choice((0, 1, longest, r.randint(0, longest)))).hex()}'"


def document(r: random.Random, depth: int = 0) -> str:
    """An SQL expression of a JSON value."""
    scalars = (
        "null", "true", str(r.randint(-(2**63), 2**63 - 1)), str(r.randint(2**63, 2**64 - 1)),
        f"CAST({decimal(20, 8)(r)} AS DECIMAL(30,8))", real(r),
        f"DATE'{r.randint(1000, 9999)}-01-02'", f"TIMESTAMP{moment(6, 1000, 9999)(r)}",
        f"TIME{duration(r)}", f"CAST({binary(20)(r)} AS BINARY)", text(300)(r), "b'101'",
        "ST_GeomFromText('POINT(1 2)')",
    )  # fmt: skip
    kind = r.randrange(4) if depth < 4 else 3
    count = r.randrange(5)
    if kind == 0:
        return f"JSON_ARRAY({', '.join(document(r, depth + 1) for _ in range(count))})"
    if kind == 1:
        parts = [f"{text(12)(r)}, {document(r, depth + 1)}" for _ in range(count)]
        return f"JSON_OBJECT({', '.join(parts)})"
    if depth == 0:
        return f"JSON_ARRAY({r.choice(scalars)})"
    return r.choice(scalars)


def geometry(r: random.Random) -> str:
    x, y = r.uniform(-90, 90), r.uniform(-90, 90)
    shape = r.choice(
        (f"POINT({x} {y})", f"LINESTRING(0 0, {x} {y}, 1 1)", "GEOMETRYCOLLECTION EMPTY")
    )
    return f"ST_GeomFromText('{shape}', {r.choice((0, 4326, 3857))})"


def bits(count: int) -> Maker:
    return lambda r: str(r.choice((0, 2**count - 1, r.randrange(2**count))))


_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DECIMALS = (
    (1, 0), (9, 2), (10, 10), (18, 9), (27, 13), (38, 30), (38, 0), (39, 1), (65, 30),
)  # fmt: skip
COLUMNS: dict[str, dict[str, Maker]] = {
    "integers": {
        f"{name}{sign}": integer(bits, bool(sign))
        for name, bits in _INTEGERS.items()
        for sign in ("", " unsigned")
    },
    "decimals": {
        f"decimal({p},{s})": decimal(p, s)
        for p, s in _DECIMALS
    },
    "reals": {"double": real, "float": lambda r: str(r.randint(-1000000, 1000000) / 64)},
    "bits": {f"bit({n})": bits(n) for n in (1, 2, 7, 8, 9, 33, 63, 64)},
    "temporals": {
        **{f"datetime({f})": moment(f, 1, 9999) for f in range(7)},
        **{f"timestamp({f})": moment(f, 1971, 2037) for f in range(7)},
        **{f"time({f})": duration for f in range(7)},
        "date": lambda r: f"'{r.randint(1, 9999):04d}-{r.randint(1, 12)}-{r.randint(1, 28)}'",
        "year": lambda r: str(r.choice((0, 1901, 2155, r.randint(1901, 2155)))),
    },
    "texts": {
        "char(10)": text(10), "char(255)": text(255), "varchar(20)": text(20),
        "varchar(300)": text(300), "tinytext": text(60), "text": text(2000),
        "mediumtext": text(70000), "longtext": text(10),
        "enum('','a','ü','x,y')": lambda r: r.choice(("'a'", "'ü'", "'x,y'", "''")),
        "set('a','ü','x','y z')": lambda r: str(r.randrange(16)),
    },
    "binaries": {
        "binary(1)": binary(1), "binary(255)": binary(255), "varbinary(20)": binary(20),
        "varbinary(300)": binary(300), "tinyblob": binary(255), "blob": binary(3000),
        "mediumblob": binary(70000), "longblob": binary(10),
    },
    "documents": {"json": document},
    "nested": {
        "geometry": geometry,
        "vector(3)": lambda r: f"TO_VECTOR('[{r.gauss(0, 1)},{r.gauss(0, 9)},{r.randint(-9, 9)}]')",
    },
}  # fmt: skip
_FEW = ("documents", "texts", "binaries")


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_random_values_of_every_type_end_as_on_the_server(
    server: Server, name: str, image: str, tmp_path: Path
) -> None:
    # Scenarios 146, 151, 152, 153: random values of every type, as the server has them.
    rand = random.Random(f"{name}{image}")
    makers = list(COLUMNS[name].values())
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(COLUMNS[name]))
    with server.connect() as connection, connection.cursor() as cursor:
        _fresh(cursor, f"CREATE TABLE live.t (id int PRIMARY KEY, {columns})")
        cursor.execute(f"SET binlog_row_image = {image}")
        count = ROWS // 8 if name in _FEW else ROWS
        for first in range(0, count, 50):
            rows = [row_of(rand, i, makers) for i in range(first, first + 50)]
            cursor.execute(f"INSERT INTO live.t VALUES {', '.join(rows)}")
            at = rand.randrange(len(makers))
            changed = f"c{at} = {makers[at](rand)}"
            cursor.execute(f"UPDATE live.t SET {changed} WHERE id % 7 = {rand.randrange(7)}")
            cursor.execute(f"DELETE FROM live.t WHERE id = {rand.randrange(first + 50)}")
        want = server_rows(cursor, "live", "t")
    assert replay(server, "live.t") == want


def odd_date(r: random.Random) -> str:
    """Also what no calendar has: zeros, 31 February."""
    year, month, day = r.choice((0, 1, 2024, 9999)), r.randint(0, 12), r.randint(0, 31)
    return f"{year:04d}-{month:02d}-{day:02d}"


def test_dates_that_no_calendar_has(server: Server) -> None:
    """Kept as text, and TIME as microseconds, GEOMETRY as bytes: the server's own values."""
    rand = random.Random(9)
    with server.connect() as connection, connection.cursor() as cursor:
        moments = ", ".join(f"m{f} datetime({f})" for f in range(7))
        times = ", ".join(f"t{f} time({f})" for f in range(7))
        kinds = f"id int PRIMARY KEY, d date, {moments}, s timestamp(2) NULL, {times}, g geometry"
        _fresh(cursor, f"CREATE TABLE live.odd ({kinds})")
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        for i in range(0, ROWS, 50):
            rows = []
            for number in range(i, i + 50):
                values = [f"'{odd_date(rand)}'"]
                values += [f"'{odd_date(rand)} {clock(rand)}.{rand.randrange(10**6):06d}'"] * 7
                stamp = rand.choice(("0000-00-00 00:00:00", "2001-02-03 04:05:06.78"))
                values += [f"'{stamp}'", *(duration(rand) for _ in range(7)), geometry(rand)]
                rows.append(f"({number}, {', '.join(values)})")
            cursor.execute(f"INSERT INTO live.odd VALUES {', '.join(rows)}")
        want = server_rows(cursor, "live", "odd")
    assert len(want) == ROWS
    assert replay(server, "live.odd", Forms("string", "microseconds", "binary")) == want


def _fresh(cursor: Any, create: str) -> None:
    cursor.execute("DROP DATABASE IF EXISTS live")
    cursor.execute("CREATE DATABASE live")
    cursor.execute("RESET BINARY LOGS AND GTIDS")
    cursor.execute("SET binlog_row_image = FULL, sql_mode = ''")
    cursor.execute(create)


def row_of(rand: random.Random, number: int, makers: list[Maker]) -> str:
    values = (make(rand) if rand.random() > 0.05 else "NULL" for make in makers)
    return f"({number}, {', '.join(values)})"


def test_random_text_in_every_character_set_ends_as_on_the_server(server: Server) -> None:
    """Scenario 154: random text in each set a server has, and ENUM and SET literals in their own
    one; letters that a set lacks are question marks on the server already."""
    rand = random.Random(41)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        names = sorted(row[0] for row in cursor.fetchall() if row[0] != "binary")
        assert len(names) == 40
        columns = []
        for name in names:
            literal = "д" if name.startswith(("koi8", "cp1251", "cp866")) else "q"
            columns.append(f"{name} varchar(40) CHARACTER SET {name}")
            columns.append(f"e_{name} enum('{literal}','b') CHARACTER SET {name}")
            columns.append(f"s_{name} set('{literal}','b') CHARACTER SET {name}")
        _fresh(cursor, f"CREATE TABLE live.c (id int PRIMARY KEY, {', '.join(columns)})")
        pools = [_letters(cursor, name) for name in names]
        for i in range(300):
            values = []
            for pool in pools:
                value = "".join(rand.choices(pool, k=rand.randint(0, 12)))
                values.append("'" + value.replace("\\", "\\\\").replace("'", "''") + "'")
                values += [str(rand.randint(1, 2)), str(rand.randint(0, 3))]
            cursor.execute(f"INSERT INTO live.c VALUES ({i}, {', '.join(values)})")
        want = server_rows(cursor, "live", "c")
    assert replay(server, "live.c") == want


def _letters(cursor: Any, charset: str) -> str:
    """Letters that survive the way into the character set and back."""
    blocks = ((33, 127), (0xA0, 0x600), (0xE01, 0xE50), (0x2010, 0x2600), (0x3041, 0x3100))
    blocks += ((0x4E00, 0x5200), (0xAC00, 0xAD00), (0x1F600, 0x1F640))
    pool = "".join(chr(c) for low, high in blocks for c in range(low, high))
    cursor.execute(f"SELECT CONVERT(CONVERT(%s USING {charset}) USING utf8mb4)", (pool,))
    back = cursor.fetchone()[0]
    return "".join(a for a, b in zip(pool, back, strict=True) if a == b)


def test_wide_tables_large_blobs_and_invisible_keys_end_as_on_the_server(server: Server) -> None:
    """1,017 columns; a blob of 40 MB; generated, invisible columns and an invisible key."""
    with server.connect() as connection, connection.cursor() as cursor:
        columns = ", ".join(f"c{i} tinyint" for i in range(1016))
        _fresh(cursor, f"CREATE TABLE live.w (id int PRIMARY KEY, {columns})")
        cursor.execute("INSERT INTO live.w (id, c0, c1015) VALUES (1, 1, -1), (2, NULL, 5)")
        cursor.execute("SET binlog_row_image = MINIMAL")
        cursor.execute("UPDATE live.w SET c700 = 7")
        cursor.execute("CREATE TABLE live.big (id int PRIMARY KEY, b longblob, t longtext)")
        cursor.execute(
            "INSERT INTO live.big VALUES (1, REPEAT('x', 40000000), REPEAT('ä', 9000000))"
        )
        cursor.execute("SET sql_generate_invisible_primary_key = ON")
        cursor.execute(
            "CREATE TABLE live.g (a int, v int AS (a + 1) VIRTUAL, s int AS (a * 2) STORED,"
            " h int INVISIBLE DEFAULT 7)"
        )
        cursor.execute("INSERT INTO live.g (a, h) VALUES (1, 2), (NULL, 3)")
        cursor.execute("UPDATE live.g SET a = 5 WHERE h = 3")
        want = {name: server_rows(cursor, "live", name) for name in ("w", "big", "g")}
    for name, rows in want.items():
        assert replay(server, f"live.{name}") == rows, name


@pytest.mark.parametrize("compressed", ["OFF", "ON"])
def test_read_changes_and_dump_see_what_mysqlbinlog_sees(
    server: Server, compressed: str, tmp_path: Path
) -> None:
    """Boundaries, positions, types and checksums of every event; the number of row changes."""
    with server.connect() as connection, connection.cursor() as cursor:
        _fresh(cursor, "CREATE TABLE live.t (id int PRIMARY KEY, v varchar(300), j json)")
        cursor.execute(f"SET binlog_transaction_compression = {compressed}")
        cursor.execute("SET binlog_rows_query_log_events = ON")
        for i in range(40):
            cursor.execute(f"INSERT INTO live.t VALUES ({i}, REPEAT('v', {i * 7}), '[1, 2]')")
        cursor.execute("UPDATE live.t SET v = 'w' WHERE id < 20")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("DELETE FROM live.t WHERE id > 20")
        cursor.execute("FLUSH BINARY LOGS")
    folder = tmp_path / "log"
    folder.mkdir()
    for path in server.logs():
        (folder / path.name).write_bytes(path.read_bytes())
    lines = list(dump(open_log(str(folder))))
    for path in sorted(folder.iterdir()):
        events = mysqlbinlog(server, path)
        mine = {line.offset: line for line in lines if line.file == path.name}
        outer = {at: event for at, event in events.items() if at in mine}
        assert sorted(outer) == sorted(mine)
        for at, event in outer.items():
            assert (event.end, event.crc) == (mine[at].end_log_pos, mine[at].crc), (path.name, at)
    changes = sum(batch.num_rows for batch in read_changes(str(folder)))
    assert changes == 40 + 20 + 19


@pytest.mark.parametrize(
    ("charset", "mode", "letter"),
    [
        ("latin1", "", "ä"), ("sjis", "", "ソ"), ("gbk", "", "誠"), ("utf8mb4", "", "漢"),
        ("latin1", "NO_BACKSLASH_ESCAPES", "ä\\\\"), ("sjis", "ANSI_QUOTES", "表"),
    ],
)  # fmt: skip
def test_statements_of_any_session(server: Server, charset: str, mode: str, letter: str) -> None:
    """With binlog_row_metadata=MINIMAL names and literals are the statement's."""
    with server.connect() as connection, connection.cursor() as cursor:
        _fresh(cursor, "CREATE TABLE live.other (id int)")
        cursor.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", charset=charset, autocommit=True
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(f"SET sql_mode = '{mode}'")
        kinds = f"`c{letter}` enum('b', '{letter}') CHARACTER SET utf8mb4"
        cursor.execute(f"CREATE TABLE live.`t{letter[0]}` (id int PRIMARY KEY, {kinds})")
        cursor.execute(f"INSERT INTO live.`t{letter[0]}` VALUES (1, 2)")
        cursor.execute(f"SELECT * FROM live.`t{letter[0]}`")
        want = dict(
            zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True)
        )
        cursor.execute("SET GLOBAL binlog_row_metadata = FULL")
    (batch,) = read_changes(str(server.folder / "binlog.index"), tables={f"live.t{letter[0]}"})
    assert batch.column("after").to_pylist() == [want]

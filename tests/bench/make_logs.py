"""Records the benchmarks' logs: one folder each, FOLDER/<name>/binlog.000001, ...

    python -m tests.bench.make_logs HOST PORT FOLDER [NAME...]

The server (user root, no password, binlog_row_metadata=FULL) loses its binary logs: run it on a
throw-away one only. Names: the functions below; default all but ``giant``, ``narrow``,
``rows_10m``, ``rows_100m`` and ``single_rows``. If a log first loads rows that are not measured,
the position after them is printed, for ``--prepared``, and written to FOLDER/<name>.prepared, for
``by_turns``.
"""

from __future__ import annotations

import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql

WIDE = """
    id int PRIMARY KEY AUTO_INCREMENT, a tinyint, b smallint unsigned, c mediumint, d int unsigned,
    e bigint, f bigint unsigned, g float, h double, i decimal(10,2), j decimal(30,10), k bit(1),
    l bit(20), m char(20), n varchar(40), o varchar(300) CHARACTER SET latin1, p text, q tinytext,
    r binary(16), s varbinary(60), t blob, u date, v datetime, w datetime(6), x timestamp(3) NULL,
    y time, z time(3), aa year, ab enum('one','two','three'), ac set('x','y','z'), ad json
"""
WIDE_ROW = """
    SELECT NULL, RAND()*100, RAND()*60000, -RAND()*8000000, RAND()*4000000000, RAND()*1e15,
    RAND()*1e19, RAND(), RAND()*1e100, RAND()*1e6, RAND()*1e15, RAND() > 0.5, RAND()*1000000,
    LEFT(SHA2(RAND(), 256), 20), LEFT(SHA2(RAND(), 256), 40), REPEAT(SHA2(RAND(), 256), 2),
    REPEAT(SHA2(RAND(), 256), 2), SHA2(RAND(), 256), RANDOM_BYTES(16), RANDOM_BYTES(16),
    REPEAT(RANDOM_BYTES(16), 5),
    '2000-01-01' + INTERVAL RAND()*9000 DAY, NOW() - INTERVAL RAND()*1e8 SECOND,
    NOW(6) - INTERVAL RAND()*1e8 SECOND, NOW(3) - INTERVAL RAND()*1e8 SECOND,
    SEC_TO_TIME(RAND()*80000), SEC_TO_TIME(RAND()*80000), 1970 + RAND()*100, 1 + RAND()*2,
    RAND()*7, JSON_OBJECT('n', RAND(), 'text', SHA2(RAND(), 256), 'list', JSON_ARRAY(1, 2, RAND()))
"""
CLIENTS = 4
PREPARED: list[str] = []
NUMBERS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < {})"


def wide(cursor: Any) -> None:
    """Twenty rows a statement: inserts, then updates of all of them."""
    cursor.execute(f"CREATE TABLE bench.w ({WIDE})")
    for first in range(0, 20_000, 20):
        cursor.execute(f"INSERT INTO bench.w {NUMBERS.format(20)} {WIDE_ROW} FROM r")
        cursor.execute(
            "UPDATE bench.w SET e = e + 1, n = LEFT(SHA2(n, 256), 32)"
            f" WHERE id BETWEEN {first} AND {first + 20}"
        )


def bulk(cursor: Any) -> None:
    """A million rows in transactions of 20,000."""
    cursor.execute(
        "CREATE TABLE bench.b (id int PRIMARY KEY AUTO_INCREMENT, n bigint, d double, v char(120),"
        " at datetime, t varchar(100))"
    )
    for _ in range(50):
        cursor.execute(
            f"INSERT INTO bench.b {NUMBERS.format(20000)} SELECT NULL, i, i / 7,"
            " SHA2(i, 256), NOW(), REPEAT('x', i % 100) FROM r"
        )


def packed(cursor: Any) -> None:
    """One row a statement, ten statements a transaction, each transaction compressed."""
    cursor.execute("CREATE TABLE bench.p (id int PRIMARY KEY, k int, c char(120), pad char(60))")
    cursor.execute("SET binlog_transaction_compression = ON")
    for i in range(8000):
        cursor.execute("BEGIN")
        for j in range(10):
            cursor.execute(
                f"INSERT INTO bench.p VALUES ({i * 10 + j}, {i * 7919 % 99991},"
                f" SHA2('{i + j}', 256), LEFT(SHA2('{i * j}', 256), 60))"
            )
        cursor.execute("COMMIT")
    cursor.execute("SET binlog_transaction_compression = OFF")


def inserts(cursor: Any) -> None:
    """Two million rows in transactions of 20,000."""
    cursor.execute("CREATE TABLE bench.i (id int PRIMARY KEY, k int, c char(120), pad char(60))")
    for first in range(0, 2_000_000, 20_000):
        cursor.execute(
            f"INSERT INTO bench.i {NUMBERS.format(20000)} SELECT {first} + i, i * 7919 % 99991,"
            " SHA2(i, 256), LEFT(SHA2(i * 7, 256), 60) FROM r"
        )


def mixed(cursor: Any) -> None:
    """Two million changes of eight tables: 75 % inserts, 19 % updates, 6 % deletes."""
    for number in range(8):
        cursor.execute(
            f"CREATE TABLE bench.x{number} (id int PRIMARY KEY, n bigint, d decimal(12,2),"
            " f double, at datetime(3), v varchar(100), w char(40) CHARACTER SET latin1,"
            " on_day date)"
        )
    loaded(cursor)
    for number in range(8):
        for first in range(0, 187_500, 12_500):
            cursor.execute(
                f"INSERT INTO bench.x{number} {NUMBERS.format(12_500)} SELECT {first} + i,"
                " i * 7919, i / 7, i / 13, NOW(3), REPEAT(SHA2(i, 256), 1 + i % 2), SHA2(i, 160),"
                " '2000-01-01' + INTERVAL i % 9000 DAY FROM r"
            )
        cursor.execute(f"UPDATE bench.x{number} SET n = n + 1, v = w WHERE id % 4 = 1")
        cursor.execute(f"DELETE FROM bench.x{number} WHERE id % 12 = 1")


def oltp(cursor: Any) -> None:
    """680,000 changes of four tables by four clients, like those of sysbench's oltp_write_only."""
    for number in range(4):
        cursor.execute(
            f"CREATE TABLE bench.o{number} (id int PRIMARY KEY, k int NOT NULL,"
            " c char(120) NOT NULL, pad char(60) NOT NULL, KEY (k))"
        )
        cursor.execute(
            f"INSERT INTO bench.o{number} {NUMBERS.format(100_000)} SELECT i, i * 7919 % 99991,"
            " SHA2(i, 256), LEFT(SHA2(i * 7, 256), 60) FROM r"
        )
    loaded(cursor)
    transaction = """
        START TRANSACTION;
        UPDATE bench.o{n} SET k = k + 1 WHERE id = a;
        UPDATE bench.o{n} SET c = SHA2(a + i, 256) WHERE id = b;
        DELETE FROM bench.o{n} WHERE id = d;
        INSERT INTO bench.o{n} VALUES (d, i, SHA2(i, 256), LEFT(SHA2(d + i, 256), 60));
        COMMIT;"""
    key = f"FLOOR(RAND() * 25000) * {CLIENTS} + client + 1"  # no client waits for another's lock
    by_clients(
        cursor,
        42_500,
        f"SET a = {key}, b = {key}, d = {key};"
        + one_of("FLOOR(RAND() * 4)", [transaction.format(n=number) for number in range(4)]),
    )


def single_rows(cursor: Any) -> None:
    """Ten million changes of single rows in ten tables by four clients, each committed by itself: a
    fifth inserts, three fifths updates, a fifth deletes. 4 GB. Wirekite publishes its rate for such
    a workload."""
    for number in range(10):
        cursor.execute(
            f"CREATE TABLE bench.r{number} (id int PRIMARY KEY, k int, c char(60), at datetime)"
        )
        cursor.execute(
            f"INSERT INTO bench.r{number} {NUMBERS.format(100_000)} SELECT i, i,"
            " LEFT(SHA2(i, 256), 60), NOW() FROM r"
        )
    loaded(cursor)
    # after ``a`` rounds a client's keys begin with its key ``a`` and end with its key a + 25000
    key = f"{{}} * {CLIENTS} + client + 1"
    insert = (
        f"INSERT INTO bench.r{{n}} VALUES ({key.format('(a + 25000)')}, i, SHA2(i, 224), NOW());"
    )
    delete = f"DELETE FROM bench.r{{n}} WHERE id = {key.format('a')};"
    update = "UPDATE bench.r{n} SET k = k + 1 WHERE id = d;"
    changes = [insert, update, update, update, delete]
    by_clients(
        cursor,
        2_500_000,
        f"SET a = i DIV 50, d = {key.format('(a + 1 + FLOOR(RAND() * 24998))')};"
        + one_of("i % 50", [changes[n // 10].format(n=n % 10) for n in range(50)]),
    )


def one_of(number: str, statements: list[str]) -> str:
    """Return a statement that runs the one of ``statements`` whose number ``number`` gives."""
    cases = " ".join(f"WHEN {n} THEN {text}" for n, text in enumerate(statements))
    return f"CASE {number} {cases} END CASE;"


def by_clients(cursor: Any, times: int, body: str) -> None:
    """Run ``body`` on the server, ``times`` times by each client. Its variable ``i`` counts from 0;
    ``a``, ``b`` and ``d`` are free."""
    cursor.execute(
        "CREATE PROCEDURE bench.work(client int) BEGIN DECLARE i, a, b, d int DEFAULT 0;"
        f" WHILE i < {times} DO {body} SET i = i + 1; END WHILE; END"
    )
    cursor.execute("SET GLOBAL sync_binlog = 0, innodb_flush_log_at_trx_commit = 0")

    def work(client: int) -> None:
        with pymysql.connect(
            host=cursor.connection.host, port=cursor.connection.port, user="root", autocommit=True
        ) as connection:
            connection.cursor().execute(f"CALL bench.work({client})")

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(work, range(CLIENTS)))


def spread(cursor: Any, tables: int) -> None:
    """100,000 changes of single rows in transactions of ten, each of a random table of 10,000."""
    dice = random.Random(tables)
    for number in range(tables):
        cursor.execute(f"CREATE TABLE bench.s{number} (id int PRIMARY KEY, k int, c char(40))")
        cursor.execute(
            f"INSERT INTO bench.s{number} {NUMBERS.format(10000)} SELECT i, i, SHA2(i, 160) FROM r"
        )
    loaded(cursor)
    for _ in range(10_000):
        cursor.execute("BEGIN")
        for _ in range(10):
            cursor.execute(
                f"UPDATE bench.s{dice.randrange(tables)} SET k = k + 1"
                f" WHERE id = {dice.randrange(1, 10_001)}"
            )
        cursor.execute("COMMIT")


def spread_8(cursor: Any) -> None:
    spread(cursor, 8)


def spread_100(cursor: Any) -> None:
    spread(cursor, 100)


def moves(cursor: Any) -> None:
    """10,000 transactions, each a change of two tables of 1,000 rows and a row more in a third one:
    twenty seconds of ``bench endurance``."""
    dice = random.Random(1)
    cursor.execute("CREATE TABLE bench.m2 (id int PRIMARY KEY AUTO_INCREMENT, k int, at datetime)")
    for number in range(2):
        cursor.execute(f"CREATE TABLE bench.m{number} (id int PRIMARY KEY, k int, c char(40))")
        cursor.execute(
            f"INSERT INTO bench.m{number} {NUMBERS.format(1000)} SELECT i, i, SHA2(i, 160) FROM r"
        )
    loaded(cursor)
    cursor.execute("SET GLOBAL sync_binlog = 0, innodb_flush_log_at_trx_commit = 0")
    for _ in range(10_000):
        cursor.execute("BEGIN")
        for number in range(2):
            cursor.execute(
                f"UPDATE bench.m{number} SET k = k + 1 WHERE id = {dice.randrange(1, 1001)}"
            )
        cursor.execute("INSERT INTO bench.m2 VALUES (NULL, 1, NOW())")
        cursor.execute("COMMIT")


def updates(cursor: Any, rows: int) -> None:
    """100,000 updates of random rows, a hundred a transaction, in a table of so many rows."""
    dice = random.Random(1)
    cursor.execute("CREATE TABLE bench.u (id int PRIMARY KEY, k int, c char(16))")
    for first in range(0, rows, 500_000):
        cursor.execute(
            f"INSERT INTO bench.u {NUMBERS.format(500000)}"
            f" SELECT {first} + i, i, LEFT(SHA2(i, 256), 16) FROM r"
        )
    loaded(cursor)
    for _ in range(1000):
        keys = ", ".join(str(dice.randrange(1, rows + 1)) for _ in range(100))
        cursor.execute(f"UPDATE bench.u SET k = k + 1 WHERE id IN ({keys})")


def rows_1m(cursor: Any) -> None:
    updates(cursor, 1_000_000)


def rows_10m(cursor: Any) -> None:
    updates(cursor, 10_000_000)


def rows_100m(cursor: Any) -> None:
    updates(cursor, 100_000_000)


def giant(cursor: Any) -> None:
    """A transaction of five million inserts, then one that updates them all."""
    cursor.execute("CREATE TABLE bench.g (id int PRIMARY KEY, k int, c char(40))")
    cursor.execute("SET SESSION cte_max_recursion_depth = 5000001")
    cursor.execute(
        f"INSERT INTO bench.g {NUMBERS.format(5_000_000)}"
        " SELECT i, i, LEFT(SHA2(i, 256), 40) FROM r"
    )
    cursor.execute("UPDATE bench.g SET k = k + 1")


def narrow(cursor: Any) -> None:
    """A transaction of 30 million inserts of two INTs, one that updates them all, one that deletes
    them all. 1.1 GB."""
    cursor.execute("CREATE TABLE bench.n (id int PRIMARY KEY, k int)")
    cursor.execute("BEGIN")
    for first in range(0, 30_000_000, 1_000_000):
        cursor.execute(
            f"INSERT INTO bench.n {NUMBERS.format(1_000_000)} SELECT {first} + i, i FROM r"
        )
    cursor.execute("COMMIT")
    cursor.execute("UPDATE bench.n SET k = k + 1")
    cursor.execute("DELETE FROM bench.n")


def loaded(cursor: Any) -> None:
    cursor.execute("SHOW BINARY LOG STATUS")
    name, position = cursor.fetchone()[:2]
    PREPARED.append(f"source:{name}:{position}")
    print(f"  --prepared {PREPARED[-1]}", flush=True)


LOGS = (
    wide, bulk, packed, inserts, mixed, oltp, spread_8, spread_100, moves, rows_1m,
    giant, narrow, rows_10m, rows_100m, single_rows,
)  # fmt: skip


def main(host: str, port: int, folder: Path, names: list[str]) -> None:
    with (
        pymysql.connect(
            host=host, port=port, user="root", charset="utf8mb4", autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET cte_max_recursion_depth = 1000000, sql_mode = ''")
        cursor.execute("SET GLOBAL max_binlog_size = 1073741824")
        for make in LOGS:
            if make.__name__ not in (names or {log.__name__ for log in LOGS[:-5]}):
                continue
            print(make.__name__, flush=True)
            cursor.execute("DROP DATABASE IF EXISTS bench")
            cursor.execute("RESET BINARY LOGS AND GTIDS")
            cursor.execute("CREATE DATABASE bench")
            cursor.execute("USE bench")
            PREPARED.clear()
            make(cursor)
            cursor.execute("SHOW BINARY LOGS")
            made = [row[0] for row in cursor.fetchall()]
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("SELECT @@datadir")
            (folder / make.__name__).mkdir(parents=True, exist_ok=True)
            held = Path(cursor.fetchone()[0])
            (folder / f"{make.__name__}.prepared").write_text("".join(PREPARED))
            for name in made:
                shutil.copy(held / name, folder / make.__name__ / name)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])

"""Clauses that few statements have, on a real server whose log says as little as it can."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support.live.following import Following
from tests.support.live.server import Server
from tests.support.local_delta import cuts, run

_STATEMENTS = (
    "CREATE DATABASE r CHARACTER SET utf8mb4", "USE r",
    "SET sql_mode = '', binlog_row_image = 'MINIMAL', explicit_defaults_for_timestamp = OFF",
    "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT _gbk x'D6D0', b VARBINARY(9) DEFAULT"
    " _gbk x'D6D0', l CHAR(9) CHARACTER SET latin1 DEFAULT _utf8mb4 x'C3A4', w VARBINARY(9) DEFAULT"
    " _utf32 x'65E5', i INT DEFAULT _latin1 x'3132', t BIT(16) DEFAULT _latin1'ä')",
    "INSERT INTO a (id) VALUES (1)",
    "ALTER TABLE a ADD k VARCHAR(9) NOT NULL DEFAULT _gbk 0xD6D0,"
    " ALTER t SET DEFAULT _latin1 x'E4'",
    "INSERT INTO a (id) VALUES (2)",
    "CREATE TABLE l (id INT PRIMARY KEY, a LONG CHARACTER SET latin1, b LONG, c LONG VARBINARY,"
    " d LONG CHAR VARYING CHARACTER SET latin1, e LONG ASCII, f LONG CHAR SET latin1)",
    "INSERT INTO l VALUES (1, 'ä', 'ä', 'ä', 'ä', 'ä', 'ä')",
    "ALTER TABLE l ADD g LONG CHARACTER SET latin1",
    "INSERT INTO l VALUES (2, 'ä', 'ä', 'ä', 'ä', 'ä', 'ä', 'ö')",
    "CREATE TABLE d (id INT PRIMARY KEY, a INT DEFAULT 5, b CHAR(5) NOT NULL DEFAULT 'x',"
    " c ENUM('q', 'w') DEFAULT 'w', e TIMESTAMP NULL DEFAULT '2020-01-01', f TEXT)",
    "ALTER TABLE d ALTER a DROP DEFAULT, ALTER b DROP DEFAULT, ALTER c DROP DEFAULT,"
    " ALTER e DROP DEFAULT, ALTER f SET DEFAULT (CONCAT('x', id))",
    "INSERT INTO d (id) VALUES (1)",
    "ALTER TABLE d ALTER f DROP DEFAULT, ADD g INT",
    "INSERT INTO d (id) VALUES (2)",
    "CREATE TABLE s (id INT PRIMARY KEY, d DATE)", "INSERT INTO s (id) VALUES (1), (2)",
    "ALTER TABLE s ADD t TIMESTAMP", "INSERT INTO s (id) VALUES (3)",
    "ALTER TABLE s ADD u TIMESTAMP(3)", "INSERT INTO s (id) VALUES (4)",
    "CREATE TABLE q (id INT PRIMARY KEY, a ENUM('ä', 'a', '中') CHARACTER SET gbk, b SET('€', 'a'),"
    " c ENUM('{', 'å') CHARACTER SET swe7, d ENUM('😀', '中') CHARACTER SET ucs2, e SET('～', '~',"
    " '¥') CHARACTER SET sjis) CHARACTER SET latin2",
    "INSERT INTO q VALUES (1, 1, 1, 1, 1, 7), (2, 3, 3, 2, 2, 1)",
    "ALTER TABLE q ADD f ENUM('é', 'a') CHARACTER SET ascii NOT NULL",
)  # fmt: skip


def test_rare_clauses_with_minimal_metadata_end_as_on_the_server(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server("--binlog-row-metadata=MINIMAL")
    with Following(server, tmp_path, zero_dates="string") as following:
        connection = server.connect(charset="utf8mb4")
        with connection.cursor() as cursor:
            for statement in _STATEMENTS:
                cursor.execute(statement)
        connection.close()
        following.catch_up()
        found = following.verify()
    assert {name: table["differing"] for name, table in found.tables.items()} == dict.fromkeys(
        ("r.a", "r.d", "r.l", "r.q", "r.s"), 0
    )


def test_members_that_are_no_text_any_more(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """CONVERT TO takes the bytes of an ENUM's members for letters of the new character set. The
    table waits for a copy; what follows is applied, also from a start of its own."""
    server, log, target = make_server(), tmp_path / "log", tmp_path / "lake"
    server.query(
        "SET NAMES utf8mb4", "CREATE DATABASE r", "CREATE TABLE r.o (id INT PRIMARY KEY)",
        "CREATE TABLE r.e (id INT PRIMARY KEY, a ENUM('ä', 'b') CHARACTER SET latin1)",
        "INSERT INTO r.e VALUES (1, 1)", "ALTER TABLE r.e CONVERT TO CHARACTER SET utf8mb4",
    )  # fmt: skip
    for number in (1, 2):
        server.query(
            f"INSERT INTO r.e VALUES (1{number}, 2)", f"UPDATE r.e SET a = 1 WHERE id = 1{number}",
            f"INSERT INTO r.o VALUES ({number})", "FLUSH BINARY LOGS",
        )  # fmt: skip
        log.mkdir(exist_ok=True)
        for path in server.data.glob("binlog.0*"):
            shutil.copy(path, log)
        assert run(log, target, copies=True)
        assert cuts(target)[-1].waiting.keys() == {"r.e"}
        assert cuts(target)[-1].gtid_executed == server.executed

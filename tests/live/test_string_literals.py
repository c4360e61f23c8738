"""Strings of sessions with other character sets: rows that are there get the server's values."""

from __future__ import annotations

from pathlib import Path

from pymysql.constants import COMMAND

from tests.support.live.schema_load import State, table_state
from tests.support.live.server import Server
from tests.support.local_delta import run

from .test_schema_changes import assert_equal

# (client, connection, what is added as its bytes go over the wire)
_ADDED = (
    ("sjis", "sjis", b"`\x83\x5c` ENUM('\x83\x5c', 'b') DEFAULT '\x83\x5c' COMMENT '\x83\x5c'"),
    ("sjis", "utf8mb4", b"b VARCHAR(20) DEFAULT '\x81\x5fn\x83\x60'"),
    ("ujis", "utf8mb4", b"c VARCHAR(20) AS (concat('\xa1\xc0n', '\xa1\xc0')) STORED"),
    ("gbk", "gbk", b"`d\xd5\x5c` VARCHAR(20) DEFAULT ('\xd5\x5c') COMMENT '\xd5\x5c'"),
    ("utf8mb4", "utf8mb4", "e VARCHAR(20) AS (concat(v, _latin1'ä')) STORED".encode()),
    ("utf8mb4", "latin1", "f VARCHAR(20) DEFAULT '漢ä'".encode()),
    ("utf8mb4", "latin1", "g ENUM('漢', 'ä') NOT NULL".encode()),
    ("utf8mb4", "latin1", "h VARBINARY(20) DEFAULT 'ä'".encode()),
    ("utf8mb4", "utf8mb4", b"i VARBINARY(20) DEFAULT '\xff\xc3'"),
    ("binary", "binary", b"j CHAR(9) CHARACTER SET latin1 DEFAULT '\xc3\xa4'"),
    ("latin1", "latin1", "k VARCHAR(20) DEFAULT _utf8mb4'漢'".encode()),
)


def test_strings_of_any_session(shared_server: Server, tmp_path: Path) -> None:
    shared_server.query(
        "RESET BINARY LOGS AND GTIDS", "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20)) CHARACTER SET utf8mb4",
        "INSERT INTO d.t VALUES (1, 'x'), (2, 'y')",
    )  # fmt: skip
    states: dict[int, State] = {}
    connection = shared_server.connect(database="d", charset="utf8mb4")
    with connection, connection.cursor() as cursor:
        for number, (client, other, added) in enumerate(_ADDED):
            cursor.execute(f"SET character_set_client={client}, character_set_connection={other}")
            connection._execute_command(COMMAND.COM_QUERY, b"ALTER TABLE t ADD " + added)
            connection._read_query_result()
            cursor.execute("SET NAMES utf8mb4")
            states[4 + number] = {"d.t": table_state(cursor, "d", "t")}
    log = tmp_path / "log"
    log.mkdir()
    for path in shared_server.data.glob("binlog.0*"):
        (log / path.name).write_bytes(path.read_bytes())
    assert run(log, tmp_path / "lake", group_max_transactions=1)
    assert assert_equal(tmp_path / "lake", states) >= len(states)

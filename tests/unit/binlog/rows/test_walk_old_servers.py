"""What servers before 8.0 write: no optional metadata, types without fractions, ROWS v1."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_repl import read_changes
from spark_repl.alter.schema_history import SchemaHistory
from spark_repl.binlog.events.event import Query
from spark_repl.binlog.rows.walk import walk
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import DecodeError, LogError
from spark_repl.relay.log import open_log
from tests.support.binlog_writer import LogWriter, Table, insert

CREATE = """CREATE TABLE d.o (id int unsigned NOT NULL PRIMARY KEY, t time, dt datetime,
 ts timestamp NULL, v varchar(10) CHARACTER SET latin1, e enum('a','b')
 CHARACTER SET latin1, big bigint unsigned)"""
# LONG, TIME, DATETIME, TIMESTAMP as 5.5 stored them, VARCHAR(10), ENUM, LONGLONG.
MAP = (
    struct.pack("<Q", 5) + b"\x01d\0\x01o\0" + bytes((7, 3, 11, 12, 7, 15, 254, 8))
    + bytes((4, 10, 0, 0xF7, 1)) + b"\x7e"
)  # fmt: skip


def event(kind: int, body: bytes) -> bytes:
    return struct.pack("<IBIIIH", 1, kind, 1, 19 + len(body), 0, 0) + body


def row(time: int, moment: int, stamp: int) -> bytes:
    values = struct.pack("<I", 4294967295) + struct.pack("<i", time)[:3]
    values += struct.pack("<qI", moment, stamp)
    return b"\0" + values + b"\x02\xe9!" + b"\x02" + struct.pack("<Q", 2**64 - 1)


def decode(statement: str, *rows: bytes, policy: str = "error") -> list[dict[str, Any]]:
    history = SchemaHistory()
    history.see(Query(1, 0, 0, "d", statement.encode(), b""))
    body = struct.pack("<Q", 5)[:6] + b"\0\0\x07\x7f" + b"".join(rows)
    data = np.frombuffer(event(19, MAP) + event(23, body), np.uint8)
    (images,) = walk(
        data, np.array([0]), np.array([data.size]), np.array([1 << 40]), False,
        definitions=history.definitions,
    )  # fmt: skip
    assert images.definition.primary_key == (0,)
    return images.decode(np.arange(len(images.flags)), Forms(policy)).to_pylist()


def test_temporal_types_before_5_6_are_decoded() -> None:
    rows = decode(CREATE, row(-8385959, 19991231235959, 1), row(70809, 10101000000, 2**32 - 1))
    assert [r["t"] for r in rows] == ["-838:59:59", "07:08:09"]
    assert [str(r["dt"]) for r in rows] == ["1999-12-31 23:59:59", "0001-01-01 00:00:00"]
    assert [str(r["ts"]) for r in rows] == [
        "1970-01-01 00:00:01+00:00",
        "2106-02-07 06:28:15+00:00",
    ]
    assert (rows[0]["id"], rows[0]["v"], rows[0]["e"]) == (4294967295, "é!", "b")
    assert int(rows[0]["big"]) == 2**64 - 1


def test_zero_dates_before_5_6_follow_the_setting() -> None:
    zero = row(0, 0, 0), row(0, 20230231000000, 1)
    with pytest.raises(DecodeError, match="column dt: 2 zero or partial dates, the first 0000-00"):
        decode(CREATE, *zero)
    rows = decode(CREATE, *zero, policy="null")
    assert [(r["dt"], r["ts"] is None) for r in rows] == [(None, True), (None, False)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("id int", "id bigint"), "column id is LONGLONG by the statements"),
        (("latin1", "utf8mb4"), "column v is VARCHAR by the statements"),
        ((", big bigint unsigned", ""), "the log has 7 columns, the statements seen so far give 6"),
    ],
)
def test_a_history_that_does_not_fit(change: tuple[str, str], words: str) -> None:
    with pytest.raises(DecodeError, match=words) as caught:
        decode(CREATE.replace(*change), row(0, 0, 1))
    assert caught.value.table == "d.o"
    assert caught.value.position == "000001:0"
    _, _, both = caught.value.message.partition("by statements (id LONG")
    mine, _, theirs = both.partition("), in the log (LONG, ")
    assert "v VARCHAR" in mine and "VARCHAR" in theirs
    assert ("character set" in str(caught.value.hint)) == ("VARCHAR" in words)


def test_a_log_without_previous_gtids_is_read(tmp_path: Path) -> None:
    """5.5, and 5.6 without gtid_mode: FORMAT_DESCRIPTION is all that a file's head has."""
    log = LogWriter(tmp_path / "log")
    log.ddl(Table("a").create)
    log.transaction(insert(Table("a"), (1, "x")))
    data = log.path.read_bytes()
    first = 4 + int.from_bytes(data[13:17], "little")
    second = first + int.from_bytes(data[first + 9 : first + 13], "little")
    log.path.write_bytes(data[:first] + data[second:])
    (batch,) = read_changes(str(log.folder))
    assert batch.column("after").to_pylist() == [{"id": 1, "v": "x"}]
    log.path.write_bytes(data[:first])
    assert not open_log(str(log.folder)).head_complete(1)


@pytest.mark.parametrize("at", [8, 15])
def test_a_head_that_is_none(tmp_path: Path, at: int) -> None:
    """Its type, its length: whatever follows, that is no file that was only just begun."""
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(Table("a"), (1, "x")))
    data = bytearray(log.path.read_bytes())
    data[at] ^= 0x10
    log.path.write_bytes(data)
    with pytest.raises(LogError, match="does not begin with a whole FORMAT_DESCRIPTION"):
        list(read_changes(str(log.folder)))

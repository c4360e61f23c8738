"""Masked and withheld columns, under another database's name, beside a live server: rows of the log
and rows that are read from the source become the same, and no value is seen."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.copy.read_repair_rows import read
from spark_repl.copy.repair_request import KEY, THERE, RepairRequest
from spark_repl.copy.source_tables import list_tables
from spark_repl.errors import SchemaError
from spark_repl.rules.replication_filters import ReplicationFilters
from spark_repl.source.connection import DumpConnection
from spark_repl.write.rows.certain_rows import key_digests
from tests.support.live.following import Following
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.local_delta import cuts, last_shown

SECRET = "planted-secret-hunter2"
TYPES = {
    "v": ("VARCHAR(60)", f"'{SECRET}'"), "b": ("VARBINARY(60)", f"'{SECRET}'"),
    "t": ("TEXT", f"'{SECRET}ä'"), "l": ("VARCHAR(60) CHARACTER SET latin1", f"'{SECRET}é'"),
    "i": ("BIGINT UNSIGNED", "18446744073709551615"), "d": ("DECIMAL(20, 4)", "-12345678.5"),
    "day": ("DATE", "'2026-01-02'"), "at": ("DATETIME(6)", "'2026-01-02 03:04:05.060708'"),
    "ts": ("TIMESTAMP(3) NULL", "'2026-01-02 03:04:05.678'"), "y": ("YEAR", "2026"),
    "tm": ("TIME(2)", "'-12:34:56.78'"), "e": ("ENUM('x', 'yy')", "'yy'"),
    "s": ("SET('x', 'yy')", "'x,yy'"), "bit1": ("BIT(1)", "b'1'"), "bit9": ("BIT(9)", "b'101'"),
}  # fmt: skip
OTHERS = {
    "keep": ("VARCHAR(60)", f"'{SECRET}7788'"), "cut": ("CHAR(60)", f"'ab{SECRET}'"),
    "bcut": ("VARBINARY(60)", f"'ab{SECRET}'"), "gone": ("TEXT", f"'{SECRET}'"),
    "j": ("JSON", f"'{{\"a\": \"{SECRET}\"}}'"), "c": ("VARCHAR(60)", f"'{SECRET}'"),
    "n": ("INT", "7"),
}  # fmt: skip
MASKS = dict.fromkeys(TYPES, "sha256") | {
    "keep": "keep_last:4", "cut": "truncate:2", "bcut": "truncate:2", "j": "null",
    "c": "constant:-",
}  # fmt: skip


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.query("DROP DATABASE IF EXISTS t", "RESET BINARY LOGS AND GTIDS")
    columns = ", ".join(f"`{name}` {kind}" for name, (kind, _) in {**TYPES, **OTHERS}.items())
    values = ", ".join(value for _, value in {**TYPES, **OTHERS}.values())
    nulls = ", ".join("NULL" for _ in {**TYPES, **OTHERS})
    shared_server.query(
        "CREATE DATABASE t", f"CREATE TABLE t.a (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO t.a VALUES (1, {values}), (2, {nulls})",
        "ALTER TABLE t.a ADD w VARCHAR(20) DEFAULT 'w'",
        f"INSERT INTO t.a VALUES (3, {values}, 'x')", "UPDATE t.a SET n = 8 WHERE id = 3",
    )  # fmt: skip
    return shared_server


def test_copy_and_log_mask_columns_alike(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASK_KEY", "planted-key-2718")
    rule = {"match": "u.a", "exclude": ["gone"], "mask": MASKS}
    given = {"tables": [rule], "filters": {"rewrite_db": ["t->u"]}, "mask_key_env": "MASK_KEY"}
    with Following(server, tmp_path, **given) as following:  # type: ignore[arg-type]
        following.catch_up()
        found = following.verify()
        assert found.tables["u.a"] == {"rows": 3, "ranges": 1, "differing": 0, "undecided": 0}
        monkeypatch.setenv("OTHER_KEY", "another")
        other = replace(following.config.target, mask_key_env="OTHER_KEY")
        following.config = replace(following.config, target=other)
        found = following.verify()
        assert found.tables == {} and "by another key" in found.not_compared["u.a"]
        assert found.looks == 0, "nothing is read for it"
    target = Path(following.config.target.path)
    one, nulls, other = last_shown(target)["u.a"]
    assert one[len(TYPES) + 1 :] == ("*" * len(SECRET) + "7788", "ab", b"ab", None, "-", 7, "w")
    assert nulls == (2, *[None] * (len(TYPES) + 4), "-", None, "w")
    assert one[1] == one[2] and all(len(text) == 64 for text in one[1 : len(TYPES) + 1])
    assert (other[:-2], other[-2:]) == ((3, *one[1:-2]), (8, "x"))
    files = [path for path in target.rglob("*") if path.is_file()]
    assert [f for f in files if SECRET.encode() in f.read_bytes()] == []


@contextmanager
def changing(path: Path) -> Iterator[str]:
    """The file of a secret key that is another one each time it is read."""
    os.mkfifo(path)
    ended = threading.Event()

    def give() -> None:
        for number in itertools.count():
            with suppress(BrokenPipeError), open(path, "w") as file:
                if ended.is_set():
                    return
                file.write(f"key {number}\n")

    giving = threading.Thread(target=give)
    giving.start()
    try:
        yield str(path)
    finally:
        ended.set()
        while giving.is_alive():
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            giving.join(0.05)


def test_a_key_that_changes_while_rows_are_read(server: Server, tmp_path: Path) -> None:
    """The definition's key is the one of its rows, of each range and each look."""
    server.query(
        "CREATE TABLE t.k (id INT PRIMARY KEY, mail VARCHAR(9))",
        "INSERT INTO t.k VALUES (1, 'one'), (2, 'two')",
    )
    own = tmp_path / "own"
    own.write_text("key 0")
    rule = {"match": "t.k", "mask": {"mail": "sha256"}}
    with Following(server, tmp_path, tables=[rule], mask_key_file=str(own)) as following:
        following.catch_up()
        config = following.config
        with changing(tmp_path / "verified") as path:
            target = replace(config.target, mask_key_file=path)
            following.config = replace(config, target=target)
            found = following.verify("t.k")
        assert found.tables["t.k"] == {"rows": 2, "ranges": 1, "differing": 0, "undecided": 0}
    digests = key_digests(pa.table({"id": pa.array([1, 2], pa.int32())}), (0,))
    asked = pa.table({KEY: digests, THERE: [True, True], "0": pa.array([1, 2], pa.int32())})
    wheres = ("WHERE id = 1", "WHERE id = 2")
    (tmp_path / "request").write_bytes(
        RepairRequest("t.k", wheres, ("id int32",), asked).to_bytes()
    )
    used = list[bytes]()

    def run(function: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
        used.extend(task.mask for task in tasks if hasattr(task, "mask"))
        return [function(task) for task in tasks]

    with changing(tmp_path / "repaired") as path:
        config = replace(config, target=replace(config.target, mask_key_file=path))
        cut = cuts(config.target.path)[-1]
        made = read(config, run, tmp_path / "request", cut, tmp_path)
    assert used == [b"key 0", b"key 0"] and sum(part.rows for part in made.parts) == 2


def test_tables_that_would_share_a_name_are_not_copied(server: Server, tmp_path: Path) -> None:
    server.query("CREATE DATABASE IF NOT EXISTS u", "CREATE TABLE u.a (id INT PRIMARY KEY)")
    connection = DumpConnection(config_for(server, tmp_path).source)
    try:
        with pytest.raises(SchemaError, match=r"t\.a and u\.a would share u\.a"):
            list_tables(connection.rows, (), ReplicationFilters(rewrite_db=("t->u",)))
        rules = ReplicationFilters(
            rewrite_db=("t->u",), ignore_table=("u.b",), wild_do_table=("z.%",)
        )
        assert list_tables(connection.rows, (), rules) == []
    finally:
        connection.close()
        server.query("DROP DATABASE u")


def test_a_masked_column_that_came_back_plain(server: Server, tmp_path: Path) -> None:
    """It was dropped, taken out of the rule, and added again: masks of the cut count, not those
    that the table was made with."""
    server.query(
        "CREATE TABLE t.b (id INT PRIMARY KEY, mail VARCHAR(9), n INT)",
        "INSERT INTO t.b VALUES (1, 'secret', 7)",
    )
    rule = {"match": "t.b", "mask": {"mail": "keep_last:1"}}
    with Following(server, tmp_path, tables=[rule]) as following:
        following.catch_up()
        server.query("ALTER TABLE t.b DROP mail")
        following.catch_up()
    with Following(server, tmp_path) as following:
        server.query("ALTER TABLE t.b ADD mail VARCHAR(9)", "UPDATE t.b SET mail = 'plain'")
        following.catch_up()
        found = following.verify("t.b")
    assert found.not_compared == {}
    assert found.tables["t.b"] == {"rows": 1, "ranges": 1, "differing": 0, "undecided": 0}

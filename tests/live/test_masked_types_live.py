"""A secret in a masked column of each type, with a live server: it is neither in the decoded values
of a file, nor in a file's bytes, nor in the log lines."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from spark_repl.cli.main import main
from spark_repl.config import Config
from spark_repl.control.records.copies import last_copy
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import RowError
from tests.support.kept_stage import kept_too
from tests.support.live.following import Following
from tests.support.live.receiving import config_for, toml
from tests.support.live.server import Server
from tests.support.local_delta import last_shown

from .test_copy import _catch_up, _copy, _rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Planted(NamedTuple):
    """A column with a secret; ``looks``: how its bytes, or text, may look in a file."""

    kind: str
    value: str
    mask: str
    looks: tuple[bytes, ...]


TEXT = (b"masked-secret",)
SECRETS = {
    "v": Planted("VARCHAR(60)", "'masked-secret1'", "sha256", TEXT),
    "l": Planted("CHAR(30) CHARACTER SET latin1", "'masked-secret2'", "sha256", TEXT),
    "t": Planted("MEDIUMTEXT", "'masked-secret3'", "sha256", TEXT),
    "b": Planted("BINARY(24)", "'masked-secret4'", "sha256", TEXT),
    "vb": Planted("VARBINARY(60)", "'masked-secret5'", "sha256", TEXT),
    "blob": Planted("BLOB", "'masked-secret6'", "null", TEXT),
    "j": Planted("JSON", "'{\"k\": \"masked-secret7\"}'", "null", TEXT),
    "i": Planted("BIGINT UNSIGNED", "18446744073709551557", "sha256",
                 (b"18446744073709551557", struct.pack("<Q", 18446744073709551557),
                  struct.pack(">Q", 18446744073709551557))),
    "n": Planted("INT", "1987654321", "sha256", (b"1987654321", struct.pack("<i", 1987654321))),
    "d": Planted("DECIMAL(24, 4)", "-98765432109876.5432", "sha256",
                 (b"98765432109876.5432", struct.pack("<q", -987654321098765432))),
    "f": Planted("FLOAT", "3141592.75", "null", (b"3141592.75",)),
    "g": Planted("DOUBLE", "2.718281828459045e200", "null",
                 (b"2.718281828459045e", struct.pack("<d", 2.718281828459045e200))),
    "day": Planted("DATE", "'1987-06-05'", "sha256", (b"1987-06-05",)),
    "at": Planted("DATETIME(6)", "'1986-05-04 03:02:01.010203'", "sha256",
                  (b"1986-05-04", struct.pack("<q", 515559721010203))),
    "ts": Planted("TIMESTAMP(3) NULL", "'1988-07-06 05:04:03.020'", "sha256", (b"1988-07-06",)),
    "tm": Planted("TIME(2)", "'-123:45:06.78'", "sha256", (b"123:45:06.78",)),
    "bits": Planted("BIT(48)", "0x123456789ABC", "sha256", (bytes.fromhex("123456789abc"),)),
    "p": Planted("POINT", "ST_GeomFromText('POINT(12345.678 98765.432)')", "null",
                 (struct.pack("<d", 12345.678), b"12345.678")),
    "vec": Planted("VECTOR(3)", "STRING_TO_VECTOR('[12345.5,6.25,7.125]')", "null",
                   (struct.pack("<3f", 12345.5, 6.25, 7.125), b"12345.5")),
}  # fmt: skip
NAMED = {"e": ("ENUM('x', 'planted-enum')", "'planted-enum'"),
         "s": ("SET('x', 'planted-set')", "'planted-set'"), "y": ("YEAR", "1907")}  # fmt: skip
"""Their words are in the table's definition, which says no row's: looked for among its rows alone,
as a year is, which is in many numbers"""


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.query("DROP DATABASE IF EXISTS t", "RESET BINARY LOGS AND GTIDS")
    kinds = {name: one.kind for name, one in SECRETS.items()} | {
        n: k for n, (k, _) in NAMED.items()
    }
    values = [one.value for one in SECRETS.values()] + [value for _, value in NAMED.values()]
    columns = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    insert = f"INSERT INTO t.a VALUES (%d, 7, {', '.join(values)})"
    shared_server.query(
        "CREATE DATABASE t", f"CREATE TABLE t.a (id INT PRIMARY KEY, free INT, {columns})",
        insert % 1, "SET binlog_row_image = MINIMAL",
        "SET binlog_row_value_options = PARTIAL_JSON", insert % 2,
        "UPDATE t.a SET v = 'masked-secret8', j = JSON_SET(j, '$.l', 'masked-secret9')",
        "UPDATE t.a SET free = 8 WHERE id = 2", "DELETE FROM t.a WHERE id = 1",
    )  # fmt: skip
    shared_server.query(insert % 3)
    return shared_server


def test_no_masked_value_of_any_type_is_in_a_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("MASK_KEY", "planted-key-2718")
    caplog.set_level(logging.DEBUG, logger="spark_repl")
    masks = {name: one.mask for name, one in SECRETS.items()} | dict.fromkeys(NAMED, "sha256")
    given = {"tables": [{"match": "t.a", "mask": masks}], "mask_key_env": "MASK_KEY"}
    parts = kept_too(tmp_path / "lake" / "kept")
    with Following(server, tmp_path, parts=parts, **given) as following:  # type: ignore[arg-type]
        following.catch_up()
        found = following.verify()
        assert found.tables["t.a"] == {"rows": 2, "ranges": 1, "differing": 0, "undecided": 0}
    target = Path(following.config.target.path)
    looks = {look for one in SECRETS.values() for look in one.looks} | {b"planted-key-2718"}
    files = [path for path in target.rglob("*") if path.is_file()]
    raw = {p: look for p in files for look in looks if look in p.read_bytes()}
    assert raw == {}
    tables = [path for path in files if path.suffix == ".parquet"]
    own = [path for path in tables if "_repl" not in path.parts]
    assert own and len(own) < len(tables), "the control table's are among them"
    assert any(path.suffix == ".arrow" for path in files), "and what was staged"
    decoded = {p: v for p in tables for v in _values(p) for look in looks if look in v}
    assert decoded == {}
    words = (b"planted-enum", b"planted-set", b"1907")
    assert [v for p in own for v in _values(p) if v in words] == []
    assert [look for look in looks if look.isascii() and look.decode() in caplog.text] == []


HASHED = {name: one for name, one in SECRETS.items() if one.mask == "sha256" and name != "t"}
_PLACES = {"d": "PRIMARY KEY (k, id)", "n": "PRIMARY KEY (id, k)"}
"""keys of several columns; a TEXT is no key without a length"""


def keyed(server: Server) -> None:
    """A table for each type, whose key is a column of it; its rows come in three transactions."""
    for name, one in HASHED.items():
        key = _PLACES.get(name, "PRIMARY KEY (k)")
        kind = one.kind.removesuffix(" NULL")
        server.query(
            f"CREATE TABLE t.k_{name} (id INT, k {kind} NOT NULL, free INT, {key})",
            f"INSERT INTO t.k_{name} VALUES (1, {one.value}, 7)",
            "SET binlog_row_image = MINIMAL", f"UPDATE t.k_{name} SET free = 8",
        )  # fmt: skip


RULE = {"match": "t.k\\_%", "mask": {"k": "sha256"}, "mask_keys": True}
GIVEN = {"filters": {"wild_do_table": ["t.k\\_%"]}, "tables": [RULE]}
KEY_LOOKS = {look for one in HASHED.values() for look in one.looks}


def shown(folder: Path, text: str) -> list[Any]:
    """Return the places below a folder, and in printed texts, that have a secret of a key."""
    files = [path for path in folder.rglob("*") if path.is_file() and "relay" not in path.parts]
    found: list[Any] = [(p, look) for p in files for look in KEY_LOOKS if look in p.read_bytes()]
    tables = [path for path in files if path.suffix == ".parquet"]
    found += [(p, v) for p in tables for v in _values(p) if any(look in v for look in KEY_LOOKS)]
    return found + [one for one in KEY_LOOKS if one.isascii() and one.decode() in text]


def test_no_secret_of_a_key_is_shown(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Whatever verify reads of it."""
    monkeypatch.setenv("MASK_KEY", "planted-key-2718")
    caplog.set_level(logging.DEBUG, logger="spark_repl")
    keyed(server)
    more = {**GIVEN, "mask_key_env": "MASK_KEY", "parts": kept_too(tmp_path / "kept")}
    with Following(server, tmp_path, **more) as following:  # type: ignore[arg-type]
        following.catch_up()
        found = following.verify()
        alike = {"rows": 1, "ranges": 1, "differing": 0, "undecided": 0}
        assert found.tables == {f"t.k_{name}": alike for name in HASHED}
        assert following.verify(percent=50).tables == found.tables
    assert {len(row[1]) for (row,) in last_shown(tmp_path / "lake").values()} == {64}
    assert shown(tmp_path, caplog.text) == []


@pytest.mark.slow
def test_a_copy_and_a_repair_by_a_masked_key(
    server: Server, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: Any, capsys: pytest.CaptureFixture[str], chunk_rows: Callable[[int], None],
) -> None:  # fmt: skip
    """Each table is copied in one chunk, and the plan has no bound of it. Rows of the log and of
    the copy are equal. Errors about a row that was changed by hand, and about a missing row (1032),
    name the masked key."""
    monkeypatch.setenv("MASK_KEY", "planted-key-2718")
    caplog.set_level(logging.DEBUG, logger="spark_repl")
    chunk_rows(1)
    keyed(server)
    more = [f"INSERT INTO t.k_v VALUES ({i}, 'masked-secret{i}', 1)" for i in range(10, 20)]
    server.query(*more)
    with Following(server, tmp_path / "log", **GIVEN, mask_key_env="MASK_KEY") as following:  # type: ignore[arg-type]
        following.catch_up()
    plain = config_for(server, tmp_path, target__mask_key_env="MASK_KEY",
                       target__on_foreign_change="accept",
                       filters__wild_do_table=["t.k\\_%"])  # fmt: skip
    config = Config.from_mapping({**plain.to_mapping(), "tables": [RULE]})
    file = tmp_path / "my.toml"
    rule = "match = 't.k\\_%'\nmask = { k = 'sha256' }\nmask_keys = true"
    file.write_text(f"{toml(plain)}\n[[tables]]\n{rule}\n")
    _copy(spark, config)
    copied = last_copy(Control(Layout.of(config.target).control))
    assert copied is not None and set(copied.bounds.values()) == {()}
    server.query("UPDATE t.k_v SET free = 9 WHERE id = 12")
    _catch_up(spark, config, server.executed)
    by_log = last_shown(tmp_path / "log" / "lake")
    assert by_log.keys() == {f"t.k_{name}" for name in HASHED}
    for name, rows in by_log.items():
        there = {(*row[:2], 9) if row[0] == 12 else row for row in rows}
        assert {*_rows(config, name)} == there
    wanted = _rows(config, "t.k_v")
    v = f"delta.`{config.target.path}/t/k_v`"
    spark.sql(f"UPDATE {v} SET free = 77 WHERE id = 11")
    spark.sql(f"DELETE FROM {v} WHERE id = 13")
    server.query("UPDATE t.k_n SET free = 10")
    _catch_up(spark, config, server.executed)
    command = ["verify", "--config", str(file), "--json", "--table", "t.k_v", "--repair"]
    assert main(command) == 1
    said = capsys.readouterr().out
    found = json.loads(said.splitlines()[-1])
    assert {(one["kind"], len(one["row"]["k"])) for one in found["differences"]} == {
        ("different", 64), ("missing", 64)
    }  # fmt: skip
    assert found["repaired_rows"] == {"t.k_v": 2} and _rows(config, "t.k_v") == wanted
    server.query("SET sql_log_bin = 0", "INSERT INTO t.k_v VALUES (30, 'masked-secret30', 1)",
                 "SET sql_log_bin = 1", "DELETE FROM t.k_v WHERE id = 30")  # fmt: skip
    with pytest.raises(RowError, match="1032") as stopped:
        _catch_up(spark, config, server.executed)
    main(["status", "--config", str(file), "--json"])
    said += f"{stopped.value} {capsys.readouterr()}"
    assert shown(tmp_path, caplog.text + said) == []


def _values(path: Path) -> Iterator[bytes]:
    """Each value of a Parquet file, as bytes: text as UTF-8, what is nested in parts."""
    for column in pq.read_table(path).columns:
        for value in column.to_pylist():
            yield from _parts(value)


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    elif value is not None:
        yield value if isinstance(value, bytes) else str(value).encode()

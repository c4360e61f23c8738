"""Names of shards: which can be, what statements do to them, what commands and errors call them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.control.table.cut import reader_tables
from spark_repl.errors import SchemaError, SettingError
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import cuts, last_shown, run, stopped
from tests.support.shards import BOTH, TWO, alike, begun, columns, filled, shard


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def test_commands_show_the_delta_table_of_shards(
    log: LogWriter, tmp_path: Path, capsys: Any
) -> None:
    """The Delta table, as ``cut()`` has it, and no path that is the applier's own."""
    target = str(tmp_path / "lake")
    assert run(filled(log).folder, tmp_path / "lake", **BOTH)
    (want,) = [(name, at.path) for name, at in reader_tables(cuts(tmp_path / "lake")[-1]).items()]
    assert want[0] == "lake.orders"
    assert main(["cut", "show", "--target", target, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["tables"]
    assert [(name, at["path"]) for name, at in shown.items()] == [want]
    assert main(["cut", "list", "--target", target, "--json"]) == 0
    last = json.loads(capsys.readouterr().out)["cuts"][-1]
    assert last["tables"] == shown
    for command, says in (("show", want[1]), ("list", " 1 ")):
        assert main(["cut", command, "--target", target]) == 0
        printed = capsys.readouterr().out
        assert says in printed and "//" not in printed


@pytest.mark.parametrize("more", ["", ", ADD w INT"])
def test_its_own_name_again(log: LogWriter, tmp_path: Path, more: str) -> None:
    """MySQL takes it, and logs it, though the name stays."""
    filled(log)
    log.ddl(f"ALTER TABLE orders RENAME TO orders{more}", "shop_1")
    log.transaction(delete(TWO, (1, "c")))
    alike(log, tmp_path)
    assert columns(tmp_path / "lake") == ["id", "v", "shop", *(["w"] if more else [])]


def test_a_shards_name_may_have_64_characters(tmp_path: Path) -> None:
    """A database's name has up to 64 characters, of which a shard's has almost all."""
    log = LogWriter(tmp_path / "log")
    values = [sign * (64 - len("shop_")) for sign in ("x", "é")]
    for one in map(shard, values):
        log.ddl(one.create, one.database)
        log.transaction(insert(one, (1, "a")))
        log.ddl("ALTER TABLE orders ADD w INT", one.database)
    assert run(log.folder, tmp_path / "lake", **BOTH)
    assert last_shown(tmp_path / "lake") == {
        "lake.orders": [(1, "a", value, None) for value in values]
    }


def test_a_first_row_of_another_type_says_where_it_is(log: LogWriter, tmp_path: Path) -> None:
    """No CREATE TABLE of the shard is in the log, whose place its error would have."""
    filled(log)
    log.transaction(
        insert(Table("orders", (("id", "int"), ("v", "int")), database="shop_3"), (1, 2))
    )
    error = stopped(log.folder, tmp_path / "lake", **BOTH)
    assert isinstance(error, SettingError) and "column v is string" in str(error)
    assert error.gtid == f"{log.source}:4" and error.table == "lake.orders//3"
    assert error.file and error.position


def test_names_that_can_not_be(log: LogWriter, tmp_path: Path) -> None:
    for number, (table, says) in enumerate(
        [
            (Table("orders", database="shop_"), "nothing tells it apart"),
            (Table("orders", database="lake"), "where many tables of the source are in one"),
        ]
    ):
        made = LogWriter(tmp_path / f"log{number}")
        made.transaction(insert(table, (1, "a")))
        error = stopped(made.folder, tmp_path / f"lake{number}", **BOTH)
        assert isinstance(error, SchemaError) and says in str(error)

"""``verify --between``: two cuts of one target, without a source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import at_cut, cuts, run

A, B, BAG = Table("a"), Table("b"), Table("bag", key=())
ROWS = [(key, f"v{key}") for key in range(50)]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Cuts of two states: between them rows of ``a`` and of ``bag`` change, and none of ``b``."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE DATABASE t")
    for table in (A, B, BAG):
        log.ddl(table.create)
        log.transaction(insert(table, *ROWS))
    assert run(log.folder, target)
    log.transaction(update(A, ((7, "v7"), (7, "seven"))), delete(A, ROWS[9]), insert(A, (99, "n")))
    log.transaction(insert(BAG, ROWS[3], ROWS[3]))
    assert run(log.folder, target)
    return target


def compared(
    capsys: pytest.CaptureFixture[str], target: Path, *words: str, code: int
) -> dict[str, Any]:
    file = target.parent / "my.toml"
    file.write_text(f'[target]\npath = "{target}"\n')
    options = ["--config", str(file), "--connections", "1", "--json"]
    assert main(["verify", "--between", *words, *options]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_differences_between_cuts_are_named_by_shard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    one, two = (Table("a", database=f"s{number}") for number in (1, 2))
    rule = {"match": "s%.a", "to": "t.all", "key_prefix": "shop"}
    given: dict[str, Any] = {"tables": [rule], "keys": {"column_mapping": True}}
    log.transaction(insert(one, *ROWS), insert(two, *ROWS))
    assert run(log.folder, target, **given)
    log.transaction(update(two, ((7, "v7"), (7, "seven"))), delete(two, ROWS[9]))
    assert run(log.folder, target, **given)
    first = cuts(target)[0].gtid_executed
    for only in ((), ("--table", "t.all"), ("--table", "t.all//2")):
        found = compared(capsys, target, first, "latest", *only, code=1)
        rows = [(one["table"], one["kind"], one["row"]["id"]) for one in found["differences"]]
        assert sorted(rows) == [("t.all//2", "different", 7), ("t.all//2", "gone", 9)]
    assert [*found["by_table"]] == ["t.all//2"]


def test_rows_that_differ_between_two_cuts_are_named(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = next(cut for cut in cuts(lake) if len(at_cut(lake, cut).get("t.bag", ())) == 50)
    for file in (lake / "t" / "b").glob("*.parquet"):
        file.unlink()  # what is the same in both is not read
    found = compared(capsys, lake, first.gtid_executed, "latest", code=1)
    rows = [(one["table"], one["kind"], one["row"].get("id")) for one in found["differences"]]
    assert sorted(rows, key=str) == [
        ("t.a", "different", 7), ("t.a", "gone", 9), ("t.a", "new", 99), ("t.bag", "count", 3),
    ]  # fmt: skip
    counts = next(one for one in found["differences"] if one["kind"] == "count")
    assert (counts["first"], counts["second"]) == (1, 3)
    assert {name: one["differing"] for name, one in found["by_table"].items()} == {
        "t.a": 3, "t.b": 0, "t.bag": 1,
    }  # fmt: skip
    assert (found["tables"], found["rows"], found["differing"]) == (3, 50 + 50 + 52, 4)
    assert found["by_table"]["t.b"]["ranges"] == 0
    assert compared(capsys, lake, "latest", "latest", code=0)["differing"] == 0
    assert not list((lake / "_repl" / "verify").glob("between/*"))


def test_tables_that_one_cut_alone_has(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are said to be so: nothing is taken for equal."""
    first = next(cut for cut in cuts(lake) if set(cut.tables) == {"t.a"})
    found = compared(capsys, lake, first.gtid_executed, "latest", code=1)
    assert found["not_compared"]["t.b"] == "the second cut alone has it"
    words = ("latest", first.gtid_executed, "--table", "t.bag", "--table", "t.none")
    found = compared(capsys, lake, *words, code=1)
    assert found["not_compared"] == {
        "t.bag": "the first cut alone has it", "t.none": "neither cut has it",
    }  # fmt: skip
    options = ["--config", str(lake.parent / "my.toml"), "--repair"]
    assert main(["verify", "--between", "latest", "latest", *options]) == 2
    assert "--between has no --repair" in capsys.readouterr().err


def test_a_file_that_is_gone(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its table is named, and the others are compared."""
    first = next(cut for cut in cuts(lake) if len(at_cut(lake, cut).get("t.bag", ())) == 50)
    for file in (lake / "t" / "bag").glob("*.parquet"):
        file.unlink()
    found = compared(capsys, lake, first.gtid_executed, "latest", code=1)
    assert sorted(found["by_table"]) == ["t.a", "t.b"]
    (reason,) = found["not_compared"].values()
    assert reason.startswith("a data file is gone: ")
    assert str(lake / "t" / "bag") in reason

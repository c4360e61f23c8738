"""``cut export`` and ``wait``: what other engines and programs are told of a cut."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from spark_repl.cli.main import main
from spark_repl.control.records.retention import pins
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import cuts, run

A, HOSTILE = Table("a"), Table("t%41 'ä")
ROWS = [(key, f"v{key}") for key in range(6)]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    for table in (A, HOSTILE):
        made.ddl(table.create.replace(f"t.{table.name}", f"t.`{table.name}`"))
        made.transaction(insert(table, *ROWS))
    return made


def exported(capsys: pytest.CaptureFixture[str], target: Path, *words: str) -> dict[str, Any]:
    assert main(["cut", "export", "--target", str(target), *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def read(table: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows that delta-rs finds at the manifest's place."""
    opened = DeltaTable(table["path"], version=table["version"])
    rows = QueryBuilder().register("t", opened).execute("SELECT * FROM t").read_all()
    return sorted(tuple(row.values()) for row in json_rows(rows))


def json_rows(rows: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    found: list[dict[str, Any]] = pa.table(rows).to_pylist()
    return found


def test_files_are_the_rows_until_one_is_deleted(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "lake"
    run(log.folder, target)
    before = exported(capsys, target)
    log.transaction(delete(A, ROWS[0]))
    run(log.folder, target)
    after = exported(capsys, target)
    assert before["gtid_executed"] == cuts(target)[-2].gtid_executed
    assert before["tables"].keys() == after["tables"].keys() == {"t.a", f"t.{HOSTILE.name}"}
    for name, table in before["tables"].items():
        assert table["plain"], name
        assert sum(file["rows"] for file in table["files"]) == len(ROWS)
        for file in table["files"]:
            assert Path(file["path"]).stat().st_size == file["size"]
        names = [field["name"] for field in table["schema"]["fields"]]
        assert names == ["id", "v"]
    rows = pa.concat_tables(
        pq.read_table(file["path"]) for file in before["tables"]["t.a"]["files"]
    )
    assert sorted(map(tuple, map(dict.values, rows.to_pylist()))) == ROWS
    assert read(before["tables"]["t.a"]) == ROWS
    now = after["tables"]["t.a"]
    assert not now["plain"]
    assert sum(file["rows"] - file["deleted_rows"] for file in now["files"]) == len(ROWS) - 1
    assert read(now) == ROWS[1:]
    assert exported(capsys, target, "--at", before["gtid_executed"]) == before


@pytest.mark.parametrize("keys", [{"column_mapping": True}, {"partition_by": ["t.a(v)"]}])
def test_an_export_tells_what_files_lack(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: dict[str, Any]
) -> None:
    target = tmp_path / "lake"
    run(log.folder, target, keys=keys)
    found = exported(capsys, target)["tables"]["t.a"]
    assert not found["plain"]
    assert read(found) == ROWS
    assert found["partition_columns"] == (["v"] if "partition_by" in keys else [])


ENGINES = {"plain": {}, "mapped": {"column_mapping": True}, "parts": {"partition_by": ["t.a(v)"]}}


@pytest.fixture
def with_deleted(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str], request: Any
) -> dict[str, Any]:
    """The manifest's t.a behind a DELETE of one of its rows."""
    target, keys = tmp_path / "lake", ENGINES[request.param]
    run(log.folder, target, keys=keys)
    log.transaction(delete(A, ROWS[0]))
    run(log.folder, target, keys=keys)
    found: dict[str, Any] = exported(capsys, target)["tables"]["t.a"]
    assert not found["plain"]
    return found


@pytest.mark.parametrize("with_deleted", [*ENGINES], indirect=True)
def test_duckdb_reads_an_exported_cut_by_delta_rs(with_deleted: dict[str, Any]) -> None:
    duckdb: Any = pytest.importorskip("duckdb", reason="duckdb: pip install -e '.[readers]'")
    table = DeltaTable(with_deleted["path"], version=with_deleted["version"])
    rows = QueryBuilder().register("t", table).execute("SELECT * FROM t")
    found = duckdb.connect().from_arrow(rows).fetchall()
    assert sorted(found) == ROWS[1:]


@pytest.mark.parametrize("with_deleted", [*ENGINES], indirect=True)
def test_polars_reads_an_exported_cut(with_deleted: dict[str, Any]) -> None:
    polars: Any = pytest.importorskip("polars", reason="polars: pip install -e '.[readers]'")
    frame = polars.scan_delta(with_deleted["path"], version=with_deleted["version"])
    names = [field["name"] for field in with_deleted["schema"]["fields"]]
    table = DeltaTable(with_deleted["path"], version=with_deleted["version"])
    rows = QueryBuilder().register("t", table).execute("SELECT * FROM t")
    assert sorted(polars.DataFrame(rows).rows()) == ROWS[1:]
    if any(
        "delta.columnMapping.id" in field["metadata"] for field in with_deleted["schema"]["fields"]
    ):
        with pytest.raises(Exception, match="columnMapping"):
            frame.collect()
        return
    assert sorted(frame.select(names).collect().rows()) == ROWS[1:]


def test_an_export_is_written_to_a_file_and_pinned(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, out = tmp_path / "lake", tmp_path / "cut.json"
    run(log.folder, target)
    words = ["cut", "export", "--target", str(target), "--json", "--pin", "month_end"]
    assert main([*words, "--out", str(tmp_path / "none" / "cut.json")]) == 2
    assert "can't write the manifest" in capsys.readouterr().err
    assert main([*words, "--out", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["tables"] == 2
    assert json.loads(out.read_text("utf-8")) == exported(capsys, target, "--at", "month_end")
    assert pins(Control(Layout(str(target)).control)).keys() == {"month_end"}
    assert [path.name for path in tmp_path.glob("cut.json*")] == ["cut.json"]


def test_wait_from_the_command_line(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "lake"
    run(log.folder, target)
    executed = cuts(target)[-1].gtid_executed
    words = ["wait", "--target", str(target), "--json", "--timeout", "0"]
    assert main([*words, "--gtid", executed]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gtid_executed"] == executed and found["seconds"] >= 0
    uuid = executed.partition(":")[0]
    assert main([*words, "--gtid", f"{uuid}:1-99"]) == 1
    said = capsys.readouterr().err
    assert f"{uuid}:6-99" in said and "no applier works on the target" in said
    assert main([*words, "--gtid", "all of them"]) == 2


def test_a_pin_says_from_when_on_others_can_not_be_let_vacuum(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the tables' retention, 168 hours: it knows of no pin."""
    target = tmp_path / "lake"
    run(log.folder, target)
    assert main(["cut", "pin", "--name", "mine", "--json", "--target", str(target)]) == 0
    said = json.loads(capsys.readouterr().out)
    at = cuts(target)[-1].at
    assert at is not None
    assert said["pinned"] == "mine"
    assert said["others_may_vacuum_until"] == (at + timedelta(hours=168)).isoformat("T", "seconds")

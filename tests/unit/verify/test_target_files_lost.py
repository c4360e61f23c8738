"""A table that lacks a data file is named, and the others are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl import Config
from spark_repl.control.table.layout import Layout
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.table_snapshot import NewTable
from spark_repl.errors import SourceLostError
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.verify.cut_files import CutFiles
from spark_repl.verify.table_check import TableCheck
from spark_repl.verify.target_files import FileSet, digest_files
from spark_repl.verify.verifier import Verifier, VerifyLimits
from tests.support.local_delta import LocalDelta, metadata_action, put

ROWS = pa.table({"id": pa.array([1, 2], pa.int32())})
SCHEMA, APP = schema_json(ROWS.schema), "spark_repl:default"


def live(folder: str, version: int) -> FileSet:
    files = live_files(folder, version)
    assert files is not None
    return FileSet(folder, version, "", Columns.of(SCHEMA), files)


def table(tmp_path: Path, name: str) -> tuple[TableCheck, FileSet]:
    definition = classify(f"CREATE TABLE t.{name} (id INT PRIMARY KEY)", "t").definition
    assert definition is not None
    folder, work = tmp_path / name, tmp_path / "work" / name
    folder.mkdir()
    work.mkdir(parents=True)
    pq.write_table(ROWS, folder / "one")
    put(str(folder), 0, [metadata_action(NewTable(SCHEMA, {}), "1")])
    put(str(folder), 1, [{"add": {"path": "one"}}], APP, 1)
    return TableCheck(Config(), TargetTable.mirror_of(definition), (), str(work)), live(
        str(folder), 1
    )


def rewritten(tmp_path: Path, *, changes: bool = False) -> None:
    """Somebody has another file in the place of t.a's, and has the old one removed."""
    pq.write_table(ROWS, tmp_path / "a" / "two")
    removed = {"remove": {"path": "one", "dataChange": changes}}
    put(str(tmp_path / "a"), 2, [removed, {"add": {"path": "two", "dataChange": changes}}])
    (tmp_path / "a" / "one").unlink()


def begun(tmp_path: Path, *names: str) -> CutFiles:
    """What is about to read the files of these tables."""
    made = {f"t.{name}": table(tmp_path, name) for name in names}
    sets = {name: files for name, (_, files) in made.items()}
    checks = {name: check for name, (check, _) in made.items()}
    return CutFiles(checks, sets, dict(sets), live, APP)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    found = begun(tmp_path, "a", "b")
    (tmp_path / "a" / "one").unlink()
    found.digest(digest_files)
    assert list(found.sets) == ["t.b"]
    assert found.left_out["t.a"].startswith("a data file is gone: ")
    assert len(list(found.sets["t.b"].live(found.checks["t.b"].work, (0,)))) == 1


def test_a_file_that_was_rewritten_is_read_in_its_new_place(tmp_path: Path) -> None:
    """Its rows are those of the version in which they were: nothing is lost."""
    found = begun(tmp_path, "a")
    rewritten(tmp_path)
    found.digest(digest_files)
    assert (found.sets["t.a"].version, list(found.sets["t.a"].files)) == (2, ["two"])
    found.compare({}, digest_files)
    assert found.checks["t.a"].looks == 1 and not found.left_out


def test_a_file_in_whose_place_somebody_has_other_rows(tmp_path: Path) -> None:
    found = begun(tmp_path, "a")
    rewritten(tmp_path, changes=True)
    found.digest(digest_files)
    assert not found.sets and "t.a" in found.left_out


def test_a_vector_that_is_gone_when_rows_are_compared(tmp_path: Path) -> None:
    """Behind the digests of the files, which are whole."""
    found = begun(tmp_path, "a")
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "sizeInBytes": 34,
    }
    marked = {"one": {"path": "one", "deletionVector": vector}}
    found.sets["t.a"] = replace(found.sets["t.a"], files=marked)
    found.digest(digest_files)
    rewritten(tmp_path)
    found.compare({}, digest_files)
    assert found.checks["t.a"].looks == 1 and found.sets["t.a"].version == 2


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    found = begun(tmp_path, "a")
    (tmp_path / "a" / "one").write_bytes(b"no Parquet")
    with pytest.raises(pa.ArrowInvalid):
        found.digest(digest_files)


def test_a_source_that_is_down_at_the_start(tmp_path: Path, monkeypatch: Any) -> None:
    """Is said after a few attempts; once something was compared it is waited for."""
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    layout = Layout(str(tmp_path))
    found = Verifier(Config(), layout, LocalDelta(), MagicMock(), VerifyLimits())
    found.config = Config().override({"source.socket": str(tmp_path / "none.sock")})
    with pytest.raises(SourceLostError):
        found._executed()
    assert len(waits) == 3
    found.comparison.looks = 1
    with pytest.raises(SourceLostError):
        found._executed()
    assert len(waits) == 3 + Config().source.connect_retry_count

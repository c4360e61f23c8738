"""A table that lacks a data file is named, and the others are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl import Config
from spark_repl.control.layout import Layout
from spark_repl.ddl.effect import classify
from spark_repl.delta.columns import Columns, schema_json
from spark_repl.errors import SourceLostError
from spark_repl.verify.table_check import TableCheck
from spark_repl.verify.target_files import FileSet
from spark_repl.verify.verifier import Verifier, VerifyLimits

ROWS = pa.table({"id": pa.array([1, 2], pa.int32())})


class Here:
    """Workers that are this thread."""

    def run(self, function: Any, tasks: Any) -> list[Any]:
        return [function(task) for task in tasks]


def verifier(tmp_path: Path, *, repairs: bool) -> Verifier:
    limits = VerifyLimits(repairs=repairs)
    return Verifier(Config(), Layout(str(tmp_path)), MagicMock(), Here(), limits)


def table(tmp_path: Path, name: str) -> tuple[TableCheck, FileSet]:
    definition = classify(f"CREATE TABLE t.{name} (id INT PRIMARY KEY)", "t").definition
    assert definition is not None
    folder, work = tmp_path / name, tmp_path / "work" / name
    folder.mkdir()
    work.mkdir(parents=True)
    pq.write_table(ROWS, folder / "one")
    columns = Columns.of(schema_json(ROWS.schema))
    files = FileSet(str(folder), 1, "", columns, {"one": {"path": "one"}})
    return TableCheck(Config(), definition, (), str(work)), files


@pytest.mark.parametrize("repairs", [False, True])
def test_a_file_that_is_gone(tmp_path: Path, repairs: bool) -> None:
    found = verifier(tmp_path, repairs=repairs)
    both = {f"t.{name}": table(tmp_path, name) for name in ("a", "b")}
    checks = {name: check for name, (check, _) in both.items()}
    sets = {name: files for name, (_, files) in both.items()}
    (tmp_path / "a" / "one").unlink()
    found._digest(checks, sets)
    assert list(checks) == list(sets) == ["t.b"]
    assert found.comparison.not_compared["t.a"].startswith("a data file is gone: ")
    assert found.comparison.repairs == ({"t.a": "a data file is gone"} if repairs else {})
    assert len(list(sets["t.b"].live(checks["t.b"].work, (0,)))) == 1


def test_another_error_is_raised(tmp_path: Path) -> None:
    found, (check, files) = verifier(tmp_path, repairs=False), table(tmp_path, "a")
    (tmp_path / "a" / "one").write_bytes(b"no Parquet")
    with pytest.raises(pa.ArrowInvalid):
        found._digest({"t.a": check}, {"t.a": files})


def test_a_source_that_is_down_at_the_start(tmp_path: Path, monkeypatch: Any) -> None:
    """Is said after a few attempts; once something was compared it is waited for."""
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    found = verifier(tmp_path, repairs=False)
    found.config = Config().override({"source.socket": str(tmp_path / "none.sock")})
    with pytest.raises(SourceLostError):
        found._executed()
    assert len(waits) == 3
    found.comparison.looks = 1
    with pytest.raises(SourceLostError):
        found._executed()
    assert len(waits) == 3 + Config().source.connect_retry_count

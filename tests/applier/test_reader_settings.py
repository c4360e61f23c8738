"""What ``init --reader`` writes: each engine reads a table with those settings, and refuses one
with the defaults, instead of showing other rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, QueryBuilder

from spark_repl.cli.init_plan import reader_values
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import applier, apply_without_stream

A = Table("a")


def by_deltalake(path: str) -> int:
    query = QueryBuilder().register("a", DeltaTable(path))
    return sum(batch.num_rows for batch in query.execute("SELECT * FROM a"))


def by_pyarrow(path: str) -> int:
    return int(DeltaTable(path).to_pyarrow_table().num_rows)


def by_polars(path: str) -> int:
    polars: Any = pytest.importorskip("polars", reason="polars: pip install -e '.[readers]'")
    return int(polars.scan_delta(path).collect().height)


READ: dict[str, Callable[[str], int]] = {
    "deltalake": by_deltalake,
    "pandas": by_pyarrow,
    "polars": by_polars,
}


def filled(log: LogWriter, target: Path, keys: dict[str, Any]) -> str:
    """The path of a table that has two of three rows; the third is deleted by a later group."""
    log.transaction(insert(A, (1, "x"), (2, "x"), (3, "x")))
    for change in (None, delete(A, (2, "x"))):
        if change is not None:
            log.transaction(change)
        with applier(log.folder, target, keys=keys) as replica:
            apply_without_stream(replica)
    return str(target / "t" / "a")


@pytest.mark.parametrize("name", READ)
def test_an_engine_reads_with_its_settings(log: LogWriter, target: Path, name: str) -> None:
    keys = {"column_mapping": True, "deletion_vectors": True}  # the defaults
    keys |= {key.removeprefix("target."): value for key, value in reader_values([name]).items()}
    assert READ[name](filled(log, target, keys)) == 2


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_an_engine_refuses_the_defaults(log: LogWriter, target: Path, name: str) -> None:
    path = filled(log, target, {"column_mapping": True})
    with pytest.raises(Exception, match=r"(?i)unsupported|not supported|columnMapping|deletion"):
        READ[name](path)

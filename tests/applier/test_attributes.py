"""NULL and NOT NULL of columns as statements were taken, against what TABLE_MAPs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.errors import SchemaError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import stopped

NULLABLE = Table("a", (("id", "int"), ("n", "int")))
NOT_NULL = Table("a", (("id", "int"), ("n", "int")), not_null=(1,))


@pytest.mark.parametrize(
    ("written", "logged", "ours", "theirs"),
    [("n INT", NOT_NULL, "n LONG)", "n LONG NOT NULL)"),
     ("n INT NOT NULL", NULLABLE, "n LONG NOT NULL)", "n LONG)")],
)  # fmt: skip
def test_null_that_is_taken_wrongly_stops(
    tmp_path: Path, written: str, logged: Table, ours: str, theirs: str
) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(f"CREATE TABLE t.a (id INT PRIMARY KEY, {written})")
    log.transaction(insert(logged, (1, 2)))
    error = stopped(log.folder, tmp_path / "lake")
    assert isinstance(error, SchemaError) and error.table == "t.a"
    before, _, after = error.message.partition("by the statements seen so far")
    assert theirs in before and ours in after

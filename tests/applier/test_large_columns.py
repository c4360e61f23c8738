"""Columns of more than 2 GiB in one array: they are joined, read again, compacted and altered as
others are. The bound is set to nothing, so that every column which is joined is large."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.delta.files import large_columns
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import last_shown, run

TEXTS = (("id", "varchar(20)"), ("v", "varchar(20)"))
A, BAG = Table("a", columns=TEXTS), Table("bag", columns=TEXTS, key=())


def key(number: int) -> tuple[str, str]:
    return f"k{number}", f"v{number}"


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", A.create, BAG.create):
        made.ddl(statement)
    for first in (0, 10, 20, 30):
        some = [key(number) for number in range(first, first + 10)]
        made.transaction(insert(A, *some), insert(BAG, *some, *some[:3]))
        made.transaction(
            update(A, (key(first), ("moved", "w")), (key(first + 1), (f"k{first + 1}", "w"))),
            delete(A, key(first + 2)), delete(BAG, key(first), key(first)),
            update(BAG, (key(first + 1), ("k", "w"))),
        )  # fmt: skip
        made.transaction(update(A, (("moved", "w"), (f"m{first}", "w"))))
    made.ddl("ALTER TABLE t.a ADD COLUMN n INT NOT NULL DEFAULT 7")
    wider = Table("a", columns=(*TEXTS, ("n", "int")), not_null=(len(TEXTS),))
    made.transaction(update(wider, ((*key(3), 7), (*key(3), 8))), delete(wider, (*key(4), 7)))
    return made


@pytest.mark.parametrize(
    ("vectors", "divided", "count"),
    [(True, False, 1), (False, True, 3), (True, True, 3)],
    ids=["marked", "written again", "partitions"],
)
def test_large_columns_behave_as_other_columns(
    log: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, vectors: bool, divided: bool, count: int,
) -> None:  # fmt: skip
    by = ["t.a(v)"] if divided else []
    options = {"group_max_transactions": count, "vectors": vectors, "feed": vectors}
    assert run(log.folder, tmp_path / "usual", partition_by=by, **options)
    monkeypatch.setattr(large_columns, "BYTES_MAX", 0)
    caplog.clear()
    assert run(log.folder, tmp_path / "large", partition_by=by, **options)
    assert "put off" not in caplog.text, "compaction goes on beside what is applied"
    assert last_shown(tmp_path / "large") == last_shown(tmp_path / "usual")
    files = [
        path for name in ("a", "bag") for path in (tmp_path / "large" / "t" / name).glob("*.p*")
    ]
    kinds = {pq.read_schema(path).field("v").type for path in files}
    assert pa.large_string() in kinds

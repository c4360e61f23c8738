"""read_changes: the row changes of recorded logs, without Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_repl import read_changes
from spark_repl.errors import DecodeError, StatementError
from spark_repl.position import RelayPosition
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

FIXTURES = Path(__file__).parents[2] / "fixtures"
T = Table("a", (("id", "int"), ("v", "varchar(40)"), ("w", "int")))
BAG = Table("bag", (("a", "int"),), key=())


def rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    found = []
    for batch in read_changes(str(path), **options):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def test_changes_of_a_table(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(T.create)
    log.transaction(
        insert(T, (1, "x", None), (2, "y", 5)), update(T, ((1, "x", None), (3, "z", 4)))
    )
    log.rotate()
    log.transaction(delete(T, (2, "y", 5)), insert(BAG, (7,), (7,)), update(BAG, ((7,), (8,))))
    found = rows(log.folder)
    assert [(r["table"], r["operation"]) for r in found] == [
        ("t.a", "INSERT"), ("t.a", "INSERT"), ("t.a", "UPDATE"), ("t.a", "DELETE"),
        ("t.bag", "INSERT"), ("t.bag", "INSERT"), ("t.bag", "UPDATE"),
    ]  # fmt: skip
    assert found[2]["before"] == {"id": 1, "v": "x", "w": None}
    assert found[2]["after"] == {"id": 3, "v": "z", "w": 4}
    assert (found[0]["before"], found[3]["after"]) == (None, None)
    assert (found[6]["before"], found[6]["after"]) == ({"a": 7}, {"a": 8})
    assert [r["gtid"] for r in found] == [log.gtid(1)] * 3 + [log.gtid(2)] * 4
    starts = [1 << 40 | log.spans[1][1], 2 << 40 | log.spans[2][1]]
    assert [r["position"] for r in found] == [starts[0]] * 3 + [starts[1]] * 4
    assert rows(log.folder, tables={"t.bag"}) == found[4:]


def test_partial_images_name_the_absent_columns(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(update(T, ({0: 1}, {1: None})), insert(T, (2, "x", 3)), delete(T, {0: 2}))
    first, second, third = rows(log.folder)
    assert first["before"] == {"id": 1, "v": None, "w": None}
    assert (first["before_absent"], first["after_absent"]) == (["v", "w"], ["w"])
    assert (second["after"], second["after_absent"]) == ({"id": 2, "v": "x", "w": 3}, None)
    assert (third["before_absent"], third["after_absent"]) == (["v", "w"], None)


def test_json_diffs_are_given_without_their_document() -> None:
    found = rows(FIXTURES / "row_images", tables={"images.wide"})
    diffs = [r for r in found if r["after_diffs"]]
    assert diffs
    assert all("j" in r["after_absent"] and r["after"]["j"] is None for r in diffs)
    assert "JSON_REMOVE(`j`, '$.l[0]')" in diffs[0]["after_diffs"]


def test_minimal_metadata_gives_what_full_metadata_gives() -> None:
    # Scenario 143: MINIMAL and FULL.
    full, minimal = FIXTURES / "all_types", FIXTURES / "minimal_metadata"
    pairs = zip(
        read_changes(str(full), zero_dates="null"),
        read_changes(str(minimal), zero_dates="null"),
        strict=True,
    )
    for one, other in pairs:
        for name in ("table", "operation", "before", "after"):
            assert one.column(name).equals(other.column(name)), one.column("table")[0]


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["ALTER TABLE types.integers ADD COLUMN c INT"], "column c is LONG by the statements"),
        (["ALTER TABLE types.integers DROP COLUMN c"], "no statement seen so far does"),
        (["DROP TABLE types.integers"], "no statement seen so far does"),
        (["RENAME TABLE types.x TO types.integers"], "no statement seen so far does"),
        (["CREATE TABLE types.integers (id int)"], "the log has 13 columns"),
        (["CREATE TABLE types.integers (id text, c0 int)"], "column id is BLOB by the statements"),
    ],
)
def test_columns_without_names_are_refused(statements: list[str], words: str) -> None:
    # Scenarios 155, 156: a type or length that is not the table's is no row of it.
    from spark_repl.alter.schema_history import SchemaHistory
    from spark_repl.binlog.events.event import Query
    from spark_repl.binlog.rows.walk import walk
    from tests.support.decoder_log import read_log

    args = read_log(FIXTURES / "minimal_metadata" / "binlog.000001", compressed=False)
    history = SchemaHistory()
    for statement in ["CREATE TABLE types.integers (id int PRIMARY KEY)", *statements]:
        history.see(Query(1, 0, 0, "types", statement.encode(), b""))
    with pytest.raises(DecodeError, match=words) as caught:
        walk(*args, True, definitions=history.definitions)
    assert caught.value.table == "types.integers"
    assert "binlog_row_metadata=FULL" in str(caught.value.hint)


def test_text_is_in_the_databases_character_set(tmp_path: Path) -> None:
    """Before 8.0 no TABLE_MAP says it."""
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE l CHARACTER SET latin1")
    log.ddl("CREATE TABLE l.a (id INT PRIMARY KEY, v VARCHAR(40))")
    latin = Table("a", (("id", "int"), ("v", "varchar(10)")), database="l", bare=True)  # 40 bytes
    log.transaction(insert(latin, (1, b"\xc3\xa9")))
    [found] = rows(log.folder)
    assert found["after"] == {"id": 1, "v": "Ã©"}


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t.a RENAME COLUMN v TO x",
        "ALTER TABLE t.a RENAME TO t.b",
        "DROP TABLE t.a",
        "DROP DATABASE t",
        "RENAME TABLE t.a TO t.b",
        "CREATE TABLE t.a (i INT PRIMARY KEY, x VARCHAR(40), y INT)",
        "CREATE TABLE t.c SELECT 1",
        "FROBNICATE TABLE t.a",
    ],
)
def test_what_failed_on_the_source_changes_no_names(tmp_path: Path, statement: str) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(T.create)
    log.ddl(statement, error=1205)
    log.transaction(insert(replace(T, bare=True), (1, "x", 2)))
    [found] = rows(log.folder)
    assert (found["table"], found["after"]) == ("t.a", {"id": 1, "v": "x", "w": 2})


def test_a_drop_that_failed_halfway_leaves_no_guess(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(T.create)
    log.ddl("DROP TABLE t.a, t.b", error=1217)
    log.transaction(insert(replace(T, bare=True), (1, "x", 2)))
    with pytest.raises(DecodeError, match="no statement seen so far does"):
        rows(log.folder)


def test_xa_rows_come_where_they_are_committed() -> None:
    found = rows(FIXTURES / "logs" / "compressed")
    counts = Counter((r["table"], r["gtid"].rpartition(":")[2]) for r in found)
    prepared, committed = "6", "7"
    assert counts["d.t", committed] == 1
    assert counts["d.t", prepared] == 0
    assert counts["d.copied", "9"] == 6  # CREATE TABLE ... SELECT


def test_a_logged_statement_stops_read_changes_with_a_hint(tmp_path: Path) -> None:
    # Scenario 130: rows alone are applied.
    with pytest.raises(StatementError) as caught:
        rows(FIXTURES / "logs" / "kinds")
    assert caught.value.gtid and caught.value.position and caught.value.file
    assert "binlog_format=ROW" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("INSERT INTO a VALUES (1)", 0),
        ("INSERT INTO a VALUES (1), (1)", 1062),
        ("LOAD DATA INFILE 'x' INTO TABLE a", 0),
        ("CREATE TABLE b SELECT 1 c", 0),
    ],
)
def test_statements_without_begin_stop(tmp_path: Path, statement: str, error: int) -> None:
    """As 5.0 and 5.1 logged a change of tables that have no transactions; one that failed had
    changed rows by then."""
    log = LogWriter(tmp_path / "log")
    log.ddl(T.create)
    log.ddl(statement, error=error)
    with pytest.raises(StatementError, match="changes rows by statements") as caught:
        rows(log.folder)
    assert caught.value.gtid == log.gtid(1)


def test_errors_name_the_place(tmp_path: Path) -> None:
    target = tmp_path / "log"
    shutil.copytree(FIXTURES / "all_types", target)
    with pytest.raises(DecodeError, match="zero or partial dates") as caught:
        rows(target)
    error = caught.value
    assert (error.table, error.row) == ("types.zero_dates", 0)
    assert str(error.file).endswith("binlog.000001")
    dates = rows(target, zero_dates="null", tables={"types.zero_dates"})
    assert error.position == str(RelayPosition.unpack(dates[0]["position"]))
    assert error.gtid == dates[0]["gtid"]


def test_a_value_that_is_none_is_found_among_many(tmp_path: Path) -> None:
    """The row's own transaction is named, and the JSON diff's that doesn't apply."""
    log = LogWriter(tmp_path / "log")
    log.ddl(T.create)
    for i in range(9):
        log.transaction(insert(T, (i, "x", 0)), insert(T, (i + 10, "y", 0)))
    data = bytearray(log.path.read_bytes())
    where = log.spans[6]
    at = data.index(b"\1y", where[1])
    assert at < where[2]
    data[at + 1] = 0xFF
    log.path.write_bytes(mended(data, where[1], where[2]))
    with pytest.raises(DecodeError, match="column v: bytes ff are not text") as caught:
        rows(log.folder)
    assert (caught.value.gtid, caught.value.row) == (log.gtid(6), 11)
    assert caught.value.position == f"000001:{where[1]}"


def mended(data: bytearray, start: int, end: int) -> bytes:
    """The events of one transaction with checksums that fit again."""
    while start < end:
        size = int.from_bytes(data[start + 9 : start + 13], "little")
        crc = zlib.crc32(data[start : start + size - 4])
        data[start + size - 4 : start + size] = crc.to_bytes(4, "little")
        start += size
    return bytes(data)


@pytest.mark.parametrize(
    ("size", "words"),
    [(-3, "event cut at the end"), (-31, "transaction cut at the end"), (60, "head is cut")],
)
def test_a_tail_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int, words: str
) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(T, (1, "x", 0)))
    whole = log.path.read_bytes()
    rows(log.folder)
    assert not caplog.records
    log.path.write_bytes(whole[:size])
    assert rows(log.folder) == []
    (record,) = caplog.records
    assert words in record.message and "bin.000001:" in record.message


def test_changes_are_flattened_into_pandas() -> None:
    table = pa.Table.from_batches(
        read_changes(str(FIXTURES / "row_images"), tables={"images.uniq"})
    )
    frame = table.flatten().to_pandas()
    assert {"operation", "after.u", "after.n"} <= set(frame.columns)
    assert len(frame) == table.num_rows > 10


def test_read_changes_needs_no_spark() -> None:
    code = (
        "import sys, spark_repl;"
        f"sum(b.num_rows for b in spark_repl.read_changes({str(FIXTURES / 'row_images')!r}));"
        "assert not {'pyspark', 'py4j', 'deltalake'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_read_changes_gives_the_logged_statements(tmp_path: Path) -> None:
    # Scenario 160: ROWS_QUERY events, which may be passed over.
    log = LogWriter(tmp_path / "log")
    log.ddl(T.create)
    log.transaction(
        insert(T, (1, "x", 0), (2, "y", 0)), update(T, ((1, "x", 0), {1: "z"})), query="one"
    )
    log.transaction(insert(T, (3, "x", 0)))
    log.transaction(delete(T, (3, "x", 0)), query="two " + "é" * 400)
    texts = [row["rows_query"] for row in rows(log.folder, rows_query=True)]
    assert texts == ["one"] * 3 + [None, "two " + "é" * 400]
    assert "rows_query" not in rows(log.folder)[0]

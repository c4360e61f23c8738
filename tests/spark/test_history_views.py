"""Views and SQL functions of tables of mode history, beside what ``history_at`` gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_repl import cut, history_at, joint_cut
from spark_repl.control.cuts.history_views import create_history_views
from spark_repl.errors import TargetError
from tests.spark import lab
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A = Table("a", (("id", "int"), ("gtid_executed", "int"), ("it s", "varchar(9)")))
B = Table("b")
_EPOCH = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """t.a has versions of five transactions, one of them of another server."""
    folder = tmp_path_factory.mktemp("history")
    log = LogWriter(folder / "log")
    for table in (A, B):
        log.ddl(table.create)
    log.transaction(insert(A, (1, 1, "x"), (2, 2, "y")), insert(B, (1, "mirror")))
    log.transaction(update(A, ((1, 1, "x"), (1, 5, "xx"))), update(A, ((1, 5, "xx"), (1, 6, "z"))))
    log.transaction(delete(A, (2, 2, "y")), insert(A, (3, 3, "w")))
    log.transaction(update(A, ((3, 3, "w"), (2, 3, "w"))))
    lab.run(spark, log.folder, folder / "lake",
            keys={"tables": [{"match": "t.a", "mode": "history"}]})  # fmt: skip
    return folder / "lake"


def rows(frame: DataFrame) -> list[Any]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.slow
def test_history_views_show_what_history_at_gives(spark: SparkSession, lake: Path) -> None:
    now = cut(spark, str(lake))
    assert now.create_history_views("then_") == [
        "then_t_a_versions", "then_t_a_current", "then_t_a_at", "then_t_a_at_time",
        "then_t_a_at_position",
    ]  # fmt: skip
    table = now.table("t.a")
    source = now.gtid_executed.partition(":")[0]
    assert rows(spark.table("then_t_a_versions")) == rows(table)
    current = spark.table("then_t_a_current")
    assert current.columns == ["id", "gtid_executed", "it s"]
    assert rows(current) == rows(history_at(table, gtid_executed=now.gtid_executed))
    sets = [f"{source}:1-4", f" {source.upper()}:6:1-3", f"{source}:x:3:1-9", f"{source}:2:5"]
    for gtids in sets:
        found = spark.sql(f"SELECT * FROM then_t_a_at('{gtids}')")
        assert found.columns == current.columns
        assert rows(found) == rows(history_at(table, gtid_executed=gtids)), gtids
    for step in (2, 4, 5):
        moment = _EPOCH + timedelta(seconds=step)
        found = spark.sql(f"SELECT * FROM then_t_a_at_time(TIMESTAMP '{moment}')")
        assert rows(found) == rows(history_at(table, time=moment)), step
    position = table.agg({"_valid_from_position": "min"}).first()[0]
    found = spark.sql(f"SELECT * FROM then_t_a_at_position({position})")
    assert rows(found) == rows(history_at(table, position=position)) == [(1, 1, "x"), (2, 2, "y")]


def test_what_a_row_of_another_table_asks_for(spark: SparkSession, lake: Path) -> None:
    cut(spark, str(lake)).create_history_views()
    uuid = cut(spark, str(lake)).gtid_executed.partition(":")[0]
    found = spark.sql(
        f"SELECT g.last, count(*) FROM VALUES (3), (4), (5) AS g(last),"
        f" LATERAL t_a_at(concat('{uuid}:1-', g.last)) GROUP BY g.last"
    )
    assert rows(found) == [(3, 2), (4, 2), (5, 2)]


@pytest.mark.parametrize(
    ("asked", "says"),
    [("t_a_at('nonsense')", "nonsense"), ("t_a_at(NULL)", "GTID set"),
     ("t_a_at('')", "GTID set"), ("t_a_at_time(NULL)", "say a time"),
     ("t_a_at_position(NULL)", "say a position")],
)  # fmt: skip
def test_views_refuse_arguments_that_name_no_moment(
    spark: SparkSession, lake: Path, asked: str, says: str
) -> None:
    cut(spark, str(lake)).create_history_views()
    with pytest.raises(PySparkException, match=says):
        spark.sql(f"SELECT * FROM {asked}").collect()


SCHEMA = (
    "id INT, _valid_from_gtid STRING, _valid_from_time TIMESTAMP, _valid_from_position BIGINT,"
    " _valid_from_order BIGINT, _valid_to_gtid STRING, _valid_to_time TIMESTAMP,"
    " _valid_to_position BIGINT, _current BOOLEAN"
)


@pytest.mark.parametrize(
    ("row", "says"),
    [((1, "{}:1-9", None, None, None, None, None, None, True), "the table was copied behind"),
     ((1, None, None, 7, 0, None, None, None, True), "anonymous transactions")],
    ids=["copied", "anonymous"],
)  # fmt: skip
def test_a_state_that_is_not_known(
    spark: SparkSession, tmp_path: Path, row: tuple[Any, ...], says: str
) -> None:
    """As history_at has it: a table of rows of a copy, or of anonymous transactions."""
    source = "11111111-2222-3333-4444-555555555555"
    made = tuple(one.format(source) if isinstance(one, str) else one for one in row)
    frame = spark.createDataFrame([made], SCHEMA)
    create_history_views({"t.a": frame}, [])
    with pytest.raises(PySparkException, match=says):
        spark.sql(f"SELECT * FROM t_a_at('{source}:1-8')").collect()
    assert spark.sql("SELECT * FROM t_a_at_position(7)").count() == 1
    if row[1]:
        assert spark.sql(f"SELECT * FROM t_a_at('{source}:1-9')").count() == 1


def test_names_that_would_be_two_tables(spark: SparkSession, lake: Path) -> None:
    """Of views that create_views makes, too, and of tables whose names differ in case alone."""
    frame = cut(spark, str(lake)).table("t.a")
    with pytest.raises(TargetError, match=r"the view of t\.a_current"):
        create_history_views({"t.a": frame}, ["t.a", "t.a_current"])
    with pytest.raises(TargetError, match="would be this table's, too"):
        create_history_views({"t.a": frame, "T.A": frame}, [])


def test_history_views_name_tables_of_several_channels(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    other = LogWriter(tmp_path / "log", source="22222222-2222-3333-4444-555555555555")
    other.ddl("CREATE TABLE u.h (id INT PRIMARY KEY)", "u")
    other.transaction(insert(Table("h", (("id", "int"),), database="u"), (1,)))
    lab.run(spark, other.folder, lake, keys={
        "channel": "u", "tables": [{"match": "u.h", "mode": "history"}]})  # fmt: skip
    now = joint_cut(spark, str(lake))
    made = now.create_history_views("j_")
    assert {"j_t_a_at", "j_u_h_at"} <= {*made} and len(made) == 10
    gtids = now.gtid_executed["u"]
    assert rows(spark.sql(f"SELECT * FROM j_u_h_at('{gtids}')")) == [(1,)]
    assert cut(spark, str(lake), channel="u").create_history_views("c_")[0] == "c_u_h_versions"

"""Cuts are read from the control table by the SQL of docs/python.md. ``spark/test_cut_sql.py`` has
Spark read it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from tests.support.cut_queries import CHOSEN, QUERY, expected, publish_cuts
from tests.support.readers import by_duckdb_query

Rows = list[tuple[str, str, int]]


def by_duckdb(control: str, query: str) -> Rows:
    with duckdb.connect() as connection:
        connection.register("control", DeltaTable(control).to_pyarrow_table())
        return connection.execute(query).fetchall()


def by_duckdb_delta(control: str, query: str) -> Rows:
    (rows,) = by_duckdb_query(
        [(query.replace("FROM control", f"FROM delta_scan('{control}')"), ())]
    )
    return rows


def by_data_fusion(control: str, query: str) -> Rows:
    rows = pa.table(QueryBuilder().register("control", DeltaTable(control)).execute(query))
    return [tuple(row.values()) for row in rows.to_pylist()]


ENGINES = pytest.mark.parametrize("engine", [by_duckdb, by_duckdb_delta])
Engine = Callable[[str, str], Rows]


@pytest.fixture
def cuts(tmp_path: Path) -> tuple[str, list[Cut]]:
    control = Control(str(tmp_path / "control"))
    return control.path, publish_cuts(control)


@pytest.mark.parametrize("engine", [by_duckdb, by_duckdb_delta, by_data_fusion])
def test_sql_reads_the_newest_cut(cuts: tuple[str, list[Cut]], engine: Engine) -> None:
    control, published = cuts
    assert engine(control, QUERY) == expected(published[-1])


@ENGINES
@pytest.mark.parametrize("number", range(4))
def test_a_cut_by_time(cuts: tuple[str, list[Cut]], engine: Engine, number: int) -> None:
    control, published = cuts
    at = published[number].at
    assert isinstance(at, datetime)
    chosen = CHOSEN["time"].replace("2026-11-24 14:00:00+00:00", at.isoformat(sep=" "))
    assert engine(control, QUERY.replace(CHOSEN["newest"], chosen)) == expected(published[number])


@ENGINES
@pytest.mark.parametrize(("gtid", "number"), [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3)])
def test_a_cut_by_gtid(cuts: tuple[str, list[Cut]], engine: Engine, gtid: int, number: int) -> None:
    control, published = cuts
    chosen = CHOSEN["gtid"].replace("AND 7 <=", f"AND {gtid} <=")
    assert engine(control, QUERY.replace(CHOSEN["newest"], chosen)) == expected(published[number])


@ENGINES
@pytest.mark.parametrize(("second", "number"), [(10, 0), (19, 0), (20, 2), (29, 2), (31, 3)])
def test_a_cut_by_source_time(
    cuts: tuple[str, list[Cut]], engine: Engine, second: int, number: int
) -> None:
    control, published = cuts
    chosen = CHOSEN["source time"].replace("1795528800000000", f"{second}000000")
    assert engine(control, QUERY.replace(CHOSEN["newest"], chosen)) == expected(published[number])

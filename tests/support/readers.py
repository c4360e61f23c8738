"""Readers: every engine that reads Delta tables here, asked for the rows of one condition.

A condition is (column, operator, value); the rows that fulfil it are known by Python's own
comparison. Texts are compared by their UTF-8 bytes, as all engines do.
"""

from __future__ import annotations

import operator
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

DUCKDB = Path(__file__).parents[2] / ".venv" / "duckdb_delta"
_SCAN = r"""
import duckdb, duckdb_extension_delta, duckdb_extension_httpfs, glob, pickle, sys, time
connection = duckdb.connect()
for extension in (duckdb_extension_httpfs, duckdb_extension_delta):
    path, = glob.glob(f"{extension.__path__[0]}/**/*.duckdb_extension", recursive=True)
    connection.execute(f"LOAD '{path}'")
connection.execute("SET TimeZone = 'UTC'")
connection.execute("SET enable_progress_bar = false")  # it is printed to the same output
answers = []
for query, values in pickle.load(sys.stdin.buffer):
    began = time.perf_counter()
    rows = connection.execute(query, values).fetchall()
    answers.append((time.perf_counter() - began, rows))
sys.stdout.buffer.write(pickle.dumps(answers))
"""
_EPOCH = datetime(1970, 1, 1)
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
COMPARISONS = tuple(_COMPARISONS)


class Rows(NamedTuple):
    """What is compared of rows that were found: how many, and the sum of their ids."""

    count: int
    ids: int

    @classmethod
    def of(cls, row: Sequence[Any]) -> Rows:
        return cls(int(row[0]), int(row[1] or 0))


_ROWS = "count(*), sum(id)"


class Condition(NamedTuple):
    """``value`` of IS NULL and IS NOT NULL is None."""

    column: str
    operator: str
    value: Any = None

    def holds(self, row: Mapping[str, Any]) -> bool:
        value: Any = row
        for name in self.column.split("."):
            value = value and value[name]
        if self.value is None:
            return (value is None) == (self.operator == "IS NULL")
        if value is None:
            return False
        return _COMPARISONS[self.operator](_ordered(value), _ordered(self.value))

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> Rows:
        """The rows that fulfil it."""
        ids = [row["id"] for row in rows if self.holds(row)]
        return Rows(len(ids), sum(ids))


def _ordered(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


Query = tuple[str, Sequence[Any]]
"""a query, and the values of its question marks"""


def by_duckdb_query(queries: Sequence[Query]) -> list[list[tuple[Any, ...]]]:
    """The rows of each query, by DuckDB 1.5 and its Delta extension, in a process of its own."""
    return [rows for _, rows in timed_by_duckdb(queries)]


def timed_by_duckdb(queries: Sequence[Query]) -> list[tuple[float, list[tuple[Any, ...]]]]:
    """Return the seconds and the rows of each query."""
    if not DUCKDB.is_dir():
        pytest.skip(f"no DuckDB with its Delta extension in {DUCKDB}: make setup")
    environment = {**os.environ, "PYTHONPATH": str(DUCKDB)}
    ran = subprocess.run(
        [sys.executable, "-c", _SCAN], input=pickle.dumps([*queries]), env=environment,
        capture_output=True, check=False,
    )  # fmt: skip
    if ran.returncode:
        raise OSError(ran.stderr.decode()[-2000:])
    answers: list[tuple[float, list[tuple[Any, ...]]]] = pickle.loads(ran.stdout)
    return answers


def by_duckdb(folder: str, schema: pa.Schema, conditions: Sequence[Condition]) -> list[Rows]:
    return by_duckdb_over(f"delta_scan({_quoted(folder)})", schema, conditions)


def by_duckdb_over(relation: str, schema: pa.Schema, conditions: Sequence[Condition]) -> list[Rows]:
    def query(column: str, comparison: str, value: Any) -> tuple[str, list[Any]]:
        name = ".".join(f'"{part}"' for part in column.split("."))
        asked = f"SELECT {_ROWS} FROM {relation} WHERE {name} {comparison}"
        if value is None:
            return asked, []
        kind = kind_of(schema, column)
        if isinstance(value, datetime) and kind.tz:
            value = value.replace(tzinfo=UTC)
        if isinstance(value, Decimal):  # as a parameter one of 38 digits is a double
            value = f"{value:f}"
        return f"{asked} CAST(? AS {_duckdb_type(kind)})", [value]

    answers = by_duckdb_query([query(*one) for one in conditions])
    return [Rows.of(rows[0]) for rows in answers]


def kind_of(schema: pa.Schema, column: str) -> pa.DataType:
    """The type of a column, or of a struct's field (``column.field``)."""
    name, _, field = column.partition(".")
    kind = schema.field(name).type
    return kind.field(field).type if field else kind


def _duckdb_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    return {
        pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER",
        pa.int64(): "BIGINT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR",
        pa.binary(): "BLOB", pa.date32(): "DATE",
    }[kind]  # fmt: skip


def by_delta_rs(folder: str, schema: pa.Schema, conditions: Sequence[Condition]) -> list[Rows]:
    engine, answers = QueryBuilder().register("t", DeltaTable(folder)), []
    for column, comparison, value in conditions:
        name, _, field = column.partition(".")
        asked = f't."{name}"{f"[{_quoted(field)}]" if field else ""} {comparison}'
        if value is not None:
            asked += f" {_datafusion(value, kind_of(schema, column))}"
        rows = pa.table(engine.execute(f"SELECT {_ROWS} FROM t WHERE {asked}").read_all())
        answers.append(Rows.of([column[0].as_py() for column in rows.columns]))
    return answers


def _datafusion(value: Any, kind: pa.DataType) -> str:
    """A value in DataFusion's SQL, of the column's own type. A moment is a number: given as a text
    it goes through nanoseconds, which end in 2262."""
    if isinstance(value, str):
        parts = ["chr(0)" if part == "\0" else _quoted(part) for part in re.split("(\0)", value)]
        return f"concat({', '.join(parts)})"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime):
        unit = 'us, "UTC"' if kind.tz else "us"
        return f"arrow_cast({microseconds(value)}, 'Timestamp({unit})')"
    if isinstance(value, date):
        return f"CAST('{value}' AS DATE)"
    if isinstance(value, Decimal):
        return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if isinstance(value, float):
        return f"arrow_cast('{value!r}', '{'Float32' if pa.types.is_float32(kind) else 'Float64'}')"
    if isinstance(value, bool):
        return str(value)
    return f"arrow_cast('{value}', 'Int{kind.bit_width}')"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def by_polars(folder: str, schema: pa.Schema, conditions: Sequence[Condition]) -> list[Rows]:
    polars: Any = pytest.importorskip("polars", reason="polars: pip install -e '.[readers]'")
    frame, answers = polars.scan_delta(folder), []
    for column, comparison, value in conditions:
        name, _, field = column.partition(".")
        asked = polars.col(name).struct.field(field) if field else polars.col(name)
        if value is None:
            chosen = asked.is_null() if comparison == "IS NULL" else asked.is_not_null()
        else:
            kind = kind_of(schema, column)
            if isinstance(value, datetime) and kind.tz:
                value = value.replace(tzinfo=UTC)
            literal = polars.lit(value, dtype=polars.from_arrow(pa.array([], kind)).dtype)
            chosen = _COMPARISONS[comparison](asked, literal)
        found = frame.filter(chosen).select(polars.len(), polars.col("id").sum())
        answers.append(Rows.of(found.collect().row(0)))
    return answers


def by_mysql(cursor: Any, table: str, conditions: Sequence[Condition]) -> list[Rows]:
    answers = []
    for column, comparison, value in conditions:
        asked = f"SELECT {_ROWS} FROM {table} WHERE `{column}` {comparison}"
        values = () if value is None else (int(value) if isinstance(value, bool) else value,)
        cursor.execute(f"{asked}{' %s' if values else ''}", values)
        answers.append(Rows.of(cursor.fetchone()))
    return answers


def by_spark(
    spark: Any, folder: str, schema: pa.Schema, conditions: Sequence[Condition]
) -> list[Rows]:
    from pyspark.sql.functions import expr

    table, answers = spark.read.format("delta").load(folder), []
    for column, comparison, value in conditions:
        asked = f"`{column.replace('.', '`.`')}` {comparison}"
        if value is not None:
            asked += f" {_spark(value, kind_of(schema, column))}"
        found = table.where(expr(asked)).selectExpr("count(*)", "sum(id)")
        answers.append(Rows.of(found.collect()[0]))
    return answers


def _spark(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, str):
        return f"decode(X'{value.encode().hex()}', 'UTF-8')"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime):
        if kind.tz:
            return f"timestamp_micros({microseconds(value)})"
        return f"CAST('{value.isoformat()}' AS TIMESTAMP_NTZ)"
    if isinstance(value, bool):
        return str(value)
    text = f"{value:f}" if isinstance(value, Decimal) else f"{value!s}"
    if pa.types.is_decimal(kind):
        return f"CAST('{text}' AS DECIMAL({kind.precision}, {kind.scale}))"
    name = {
        pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
        pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.date32(): "DATE",
    }[kind]  # fmt: skip
    return f"CAST('{text}' AS {name})"

"""Rows split by partition, and what a table can't be partitioned by."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_repl import Config
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.delta.files.partitions import check, split, unplaced
from spark_repl.errors import ConfigError, SchemaError, TargetError
from spark_repl.sql.classify import classify

KINDS = [pa.int64(), pa.string(), pa.bool_(), pa.date32(), pa.large_string()]
VALUES: dict[pa.DataType, Any] = {
    pa.int64(): st.integers(-3, 3),
    pa.string(): st.sampled_from(["a", "b", " ", "ä/b=c", "a,b"]),
    pa.large_string(): st.sampled_from(["x", "y"]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(date(1, 1, 1), date(1, 1, 4)),
}
ROWS = st.lists(st.tuples(*[st.none() | VALUES[kind] for kind in KINDS]), max_size=30)


@given(ROWS, st.lists(st.sampled_from(range(5)), unique=True))
def test_each_row_is_in_its_partition_once_and_in_order(
    rows: list[tuple[Any, ...]], by: list[int]
) -> None:
    fields = [pa.field(f"c{i}", kind) for i, kind in enumerate([*KINDS, pa.int64()])]
    numbered = [(*row, number) for number, row in enumerate(rows)]
    arrays = [pa.array([row[i] for row in numbered], field.type) for i, field in enumerate(fields)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    parts = list(split(table, {f"p{i}": i for i in by}))
    seen = []
    for values, part in parts:
        assert values.keys() == ({f"p{i}" for i in by} if rows else set())
        for row in zip(*(column.to_pylist() for column in part.columns), strict=True):
            seen.append(row)
            for name, text in values.items():
                value = row[int(name[1:])]
                said = str(value).lower() if isinstance(value, bool) else str(value)
                assert text == (None if value is None else said)
        numbers = part.column(5).to_pylist()
        assert numbers == sorted(numbers)
    assert sorted(row[5] for row in seen) == list(range(len(rows)))
    told_apart = [tuple(values.items()) for values, _ in parts]
    assert len(set(told_apart)) == len(parts)


def test_what_spark_takes_for_null_is_no_partition() -> None:
    for taken_for_null in ("", "__HIVE_DEFAULT_PARTITION__"):
        rows = pa.table({"v": ["a", taken_for_null, None]})
        with pytest.raises(TargetError, match="a text can't be a partition's value"):
            next(split(rows, {"v": 0}))
        assert unplaced(rows, [0]).tolist() == [False, True, False]


def test_columns_name_their_partitions_physically() -> None:
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("day", pa.date32())])
    columns = Columns.of(schema_json(schema).replace('"metadata": {}',
        '"metadata": {"delta.columnMapping.physicalName": "col-1"}'), ("day",))  # fmt: skip
    rows = pa.table({"id": [1], "day": [date(2024, 2, 29)]})
    assert [values for values, _ in columns.split(rows)] == [{"col-1": "2024-02-29"}]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("nowhere",), "there is no column nowhere"),
        (("d",), "d is double"),
        (("id", "d"), "d is double"),
        (("id", "v"), "names all columns"),
    ],
)
def test_what_a_table_is_not_partitioned_by(columns: tuple[str, ...], said: str) -> None:
    sql = "d double" if "d" in columns else "v varchar(10)"
    definition = classify(f"CREATE TABLE d.t (id int PRIMARY KEY, {sql})", "d").definition
    assert definition is not None
    with pytest.raises(SchemaError, match=said) as found:
        check(definition, columns)
    assert found.value.table == "d.t"


def test_partition_by_is_parsed_and_malformed_entries_are_refused() -> None:
    target = Config().override({"target.partition_by": ["s.a(day)", "s.b(x, y z)"]}).target
    assert target.partitions() == {"s.a": ("day",), "s.b": ("x", "y z")}
    for wrong in (
        ["a(day)"], ["s.a"], ["s.a()"], ["s.a(x,)"], [1], "s.a(x)", ["s.a(x)", "s.a(y)"],
        ["s.a (x)"], [" s.a(x)"], ["`s`.`a`(x)"], ["s.a(x, X)"], ["s.a( )"], ["s.a(`x`)"],
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=r"target\.partition_by"):
            Config().override({"target.partition_by": wrong})

"""Delta's data skipping by our statistics: it finds the rows, at the edges of files, and skips."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from functools import reduce
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import col, lit

from spark_repl.delta.files.delta_columns import Columns, schema_json, write_file
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable
from spark_repl.write.tables.target_options import TargetOptions
from tests.support.random_rows import SCHEMA, random_table
from tests.support.readers import by_spark

_DAY, _MOMENT = datetime.date, datetime.datetime
_BIG = Decimal(10**26)
_LONG = "a text of more than thirty-two letters: "
# (Spark's own pushed-down filters find no row at 1582-10-05 to 14, which the old calendar hadn't.)
# Of each type two values for the first file and two for the second; each edge is asked for.
VALUES = {
    pa.int8(): ([-128, -1], [1, 127]),
    pa.int64(): ([-(2**63), 0], [1, 2**63 - 1]),
    pa.float32(): ([-1.5, 0.1], [0.2, 3e38]),
    pa.float64(): ([-1e300, 0.1], [0.2, 1e300]),
    pa.decimal128(30, 3): ([Decimal("-1.5"), _BIG], [_BIG + 1, _BIG * 9]),
    pa.string(): ([_LONG, _LONG + "b"], [_LONG + "c", _LONG + "\U0010ffff"]),
    pa.date32(): ([_DAY(1, 1, 1), _DAY(1582, 10, 4)], [_DAY(1582, 10, 15), _DAY(9999, 12, 31)]),
    pa.timestamp("us"): (
        [_MOMENT(1000, 1, 1), _MOMENT(2024, 1, 1, 0, 0, 0, 1)],
        [_MOMENT(2024, 1, 1, 0, 0, 0, 1002), _MOMENT(9999, 12, 31, 23, 59, 59, 999_999)],
    ),
    pa.timestamp("us", "UTC"): (
        [_MOMENT(1969, 12, 31, 23, 59, 59, 999_999), _MOMENT(1970, 1, 1)],
        [_MOMENT(1970, 1, 1, 0, 0, 0, 2001), _MOMENT(2038, 1, 19, 3, 14, 7, 999_999)],
    ),
}  # fmt: skip


@pytest.mark.slow
def test_every_edge_is_found(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    delta = TableLog()
    schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(VALUES)])
    made = NewTable(schema_json(schema), TargetOptions().properties())
    delta.create(folder, made, Stamp("us", 1, ""))
    snapshot = delta.snapshot(folder)
    assert snapshot is not None
    columns = Columns.of(snapshot.schema_string)
    adds = [
        write_file(
            folder,
            columns,
            pa.table([pa.array([*pair[n], None], kind) for kind, pair in VALUES.items()], schema),
        )
        for n in (0, 1)
    ]
    delta.commit(snapshot, [{"add": add} for add in adds], Stamp("us", 2, ""))
    table = spark.read.format("delta").load(folder)
    files = {Path(add["path"]).name: n for n, add in enumerate(adds)}

    def equal(i: int, value: object) -> Column:
        return col(f"c{i}") == lit(str(value)).cast(table.schema[i].dataType)

    for n, at in itertools.product((0, 1), (0, 1)):  # no column's filter loses the row
        row = [equal(i, pair[n][at]) for i, pair in enumerate(VALUES.values())]
        assert table.where(reduce(Column.__and__, row)).count() == 1, (n, at)
    for i, (kind, pair) in enumerate(VALUES.items()):
        for n in (0, 1):
            for value in pair[n]:
                found = table.where(equal(i, value))
                said = {files[Path(path).name] for path in found.inputFiles()}
                assert n in said
                # Texts that begin alike can't be told apart; everything else is skipped by.
                assert said == {n} or pa.types.is_string(kind), (kind, value)


@pytest.mark.slow
@pytest.mark.parametrize("features", [{}, {"mapped": True, "parted": True, "marked": True}])
def test_every_comparison_finds_the_rows(
    spark: SparkSession, tmp_path: Path, features: dict[str, bool]
) -> None:
    """What ``unit/delta/files/test_statistics_readers`` asks the engines without Spark."""
    random = Random(3)
    table = random_table(tmp_path / "t", random, **features)
    conditions = table.conditions(random, 1)
    expected = [condition.rows(table.rows) for condition in conditions]
    answers = by_spark(spark, table.folder, SCHEMA, conditions)
    wrong = [one for one, a, b in zip(conditions, expected, answers, strict=True) if a != b]
    assert not wrong

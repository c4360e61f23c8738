"""Every type end to end: the tables of a recorded server that has each of them at its edges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl import Config
from spark_repl.delta.store.delta_rs_read import read as read_elsewhere
from tests.spark.lab import read, replica_of
from tests.support.decoder_log import printed
from tests.support.local_delta import apply_without_stream

FOLDER = Path(__file__).parents[1] / "fixtures" / "all_types"
_FLOATING = (4, 5)

USUAL = {"zero_dates": "null"}


def config(log: Path, target: Path, bound: int, kept: dict[str, str]) -> Config:
    return Config.from_mapping(
        {
            "relay": {"path": str(log)},
            "target": {"path": str(target), **kept},
            "apply": {"group_max_transactions": bound},
        }
    )


def check(
    spark: SparkSession | None, log: Path, target: Path, kept: dict[str, str], bound: int
) -> None:
    """Applies the log and compares with the server's rows; without ``spark`` read by delta-rs."""
    with replica_of(spark, config(log, target, bound, kept)) as replica:
        apply_without_stream(replica)
        definitions = {name: table.definition for name, table in replica.tracking.tables.items()}
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))
    assert definitions.keys() == expected.keys()
    for name, definition in definitions.items():
        if name == "types.zero_dates" and kept is USUAL:
            continue  # NULL here, the server's text there
        folder = str(target / name.replace(".", "/"))
        found = read(spark, target, name).toArrow() if spark else read_elsewhere(folder)
        (batch,) = found.combine_chunks().to_batches()
        kinds = [column.type for column in definition.columns]
        got, want = (
            [
                [float(v) if v is not None and k in _FLOATING else v
                 for v, k in zip(row, kinds, strict=True)]
                for row in rows
            ]
            for rows in (printed(batch, definition), expected[name])
        )  # fmt: skip
        assert sorted(got, key=repr) == sorted(want, key=repr), name


@pytest.mark.slow
@pytest.mark.parametrize("bound", [1000, pytest.param(1, marks=pytest.mark.soak)])
def test_tables_end_as_the_servers(spark, target, bound):
    check(spark, FOLDER, target, USUAL, bound)

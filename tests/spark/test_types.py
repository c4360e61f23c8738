"""Every type end to end: the tables of a recorded server that has each of them at its edges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_repl import Config, Replica
from spark_repl.binlog.definition import TableDefinition
from spark_repl.binlog.rows import walk
from tests.decoder_log import printed, read_log
from tests.spark import lab
from tests.spark.lab import read

FOLDER = Path(__file__).parents[1] / "fixtures" / "all_types"
_FLOATING = (4, 5)


def definitions() -> dict[str, TableDefinition]:
    args = read_log(FOLDER / "binlog.000001", compressed=False)
    return {images.definition.name: images.definition for images in walk(*args, True)}


@pytest.mark.usefixtures("either_writer")
@pytest.mark.parametrize("bound", [1000, pytest.param(1, marks=pytest.mark.soak)])
def test_tables_end_as_the_servers(spark, target, bound):
    config = Config.from_mapping(
        {
            "relay": {"path": str(FOLDER)},
            "target": {"path": str(target), "zero_dates": "null"},
            "apply": {"writer": lab.WRITER, "group_max_transactions": bound},
        }
    )
    with Replica(spark, config) as replica:
        replica.apply()
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))
    for name, definition in definitions().items():
        if name == "types.zero_dates":
            continue
        (batch,) = read(spark, target, name).toArrow().combine_chunks().to_batches()
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

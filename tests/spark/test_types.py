"""Every type end to end: the tables of a recorded server that has each of them at its edges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_repl import Config, Replica
from tests.spark import lab
from tests.spark.lab import read
from tests.support.decoder_log import printed
from tests.support.local_delta import apply_without_stream

FOLDER = Path(__file__).parents[1] / "fixtures" / "all_types"
MINIMAL = FOLDER.with_name("minimal_metadata")
_FLOATING = (4, 5)

USUAL = {"zero_dates": "null"}
OTHER = {"zero_dates": "string", "time_as": "microseconds", "geometry_as": "binary"}


def config(log: Path, target: Path, bound: int, kept: dict[str, str]) -> Config:
    return Config.from_mapping(
        {
            "relay": {"path": str(log)},
            "target": {"path": str(target), **kept},
            "apply": {"writer": lab.WRITER, "group_max_transactions": bound},
        }
    )


@pytest.mark.usefixtures("either_writer")
@pytest.mark.parametrize("bound", [1000, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("log", "kept"), [(FOLDER, USUAL), (MINIMAL, OTHER)])
def test_tables_end_as_the_servers(spark, target, log, kept, bound):
    """With the usual forms; with the others, and from the log of the same statements whose events
    name no columns (binlog_row_metadata=MINIMAL)."""
    with Replica(spark, config(log, target, bound, kept)) as replica:
        apply_without_stream(replica)
        definitions = {name: table.definition for name, table in replica.tracking.tables.items()}
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))
    assert definitions.keys() == expected.keys()
    for name, definition in definitions.items():
        if name == "types.zero_dates" and kept is USUAL:
            continue  # NULL here, the server's text there
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

"""Row images without all columns and JSON diffs, end to end into the tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_repl.binlog.rows.walk import walk
from tests.spark.lab import assert_applied_once, read, run
from tests.support.binlog_writer import Table
from tests.support.decoder_log import printed, read_log

FOLDER = Path(__file__).parents[1] / "fixtures" / "row_images"
ABC = Table("abc", (("id", "int"), ("a", "int"), ("b", "varchar(20)"), ("c", "int")))
BAG = Table("bag", (("a", "int"), ("b", "varchar(20)")), key=())


@pytest.mark.parametrize("bound", [1000, pytest.param(40, marks=pytest.mark.soak)])
def test_ends_as_the_server(spark, target, bound):
    """All row images alternate in this log of a real server."""
    run(spark, FOLDER, target, group_max_transactions=bound)
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))
    images = walk(*read_log(FOLDER / "binlog.000001"), True)
    definitions = {found.definition.name: found.definition for found in images}
    for name, want in expected.items():
        (batch,) = read(spark, target, name).toArrow().combine_chunks().to_batches()
        got = printed(batch, definitions[name])
        assert sorted(got, key=repr) == sorted(want, key=repr), name
    assert_applied_once(target)

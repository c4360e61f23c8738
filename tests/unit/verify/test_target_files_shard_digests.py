"""Digests of data files that have a shard's columns in a wider type than the shard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.rules.metadata_columns import with_extra
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.verify.target_files import FileSet


def shard(kind: str) -> TargetTable:
    made = classify(f"CREATE TABLE orders (id {kind}, PRIMARY KEY (id))", "lake").definition
    assert made is not None
    made = replace(made, table="orders//1")
    return with_extra(TargetTable.mirror_of(made), ["shard"], shard="shop")


@pytest.mark.parametrize(("before", "after"), [("INT", "DECIMAL(9,4)"), ("INT", "BIGINT")])
def test_digests_of_a_shard_depend_on_its_type(before: str, after: str) -> None:
    """Digests that a verify which was killed has left are of the type that the shard had then."""
    schema = schema_json(shard("DECIMAL(23,4)").arrow_schema())
    whole = FileSet("t", 1, schema, Columns.of(schema, ("shop",)), {})
    outs = [whole.of_shard(shard(kind)).out("", "x", (0,)) for kind in (before, after, before)]
    assert outs[0] == outs[2] != outs[1]

"""JSON columns kept as VARIANT: written by the applier, read by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_repl.delta.log import checkpoint_schedule
from spark_repl.write.upkeep.scheduler import UpkeepScheduler
from tests.spark.lab import read, run, versions
from tests.spark.test_upkeep import operations
from tests.support.binlog_writer import Table, delete, insert, update
from tests.support.json_binary import item

DOCS = Table(
    "docs", (("id", "int"), ("v", "varchar(40)"), ("j", "json"), ("k", "json")), not_null=(3,)
)
BAG = Table("bag", (("id", "int"), ("j", "json")), key=())
ONE, TWO = {"a": 1, "b": ["x", {"c": 2**40}], "": "é" * 40000}, {"b": {}, "a": -1}


def documents(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows, the documents as Spark prints them."""
    columns = {field.name: field.dataType.typeName() for field in frame.schema}
    shown = [f"to_json({n})" if kind == "variant" else n for n, kind in columns.items()]
    places = [i for i, kind in enumerate(columns.values()) if kind == "variant"]
    assert places
    return sorted(
        tuple(json.loads(v) if i in places and v else v for i, v in enumerate(row))
        for row in frame.selectExpr(*shown).collect()
    )


def feed(spark: SparkSession, target: Path, first: int) -> list[tuple[Any, ...]]:
    folder = str(target / "t" / "docs")
    options = {"readChangeFeed": "true", "startingVersion": str(first)}
    found = spark.read.format("delta").options(**options).load(folder)
    return documents(found.where("id = 2").select("_change_type", "id", "j"))


def look_at_once(self: UpkeepScheduler, tables: Iterable[str]) -> None:
    """Upkeep in the stream's own thread, so that it is there when the test looks."""
    self._changed.update(tables)
    self._work()


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_json_columns_are_variants(spark, log, target, monkeypatch, vectors):
    monkeypatch.setattr(checkpoint_schedule, "EVERY", 2)
    monkeypatch.setattr(UpkeepScheduler, "schedule", look_at_once)
    keys = {
        "target.json_as": "variant", "target.change_data_feed": True,
        "target.compact_files": 2, "target.deletion_vectors": vectors,
    }  # fmt: skip
    log.ddl(DOCS.create)
    log.ddl(BAG.create)
    log.transaction(
        insert(DOCS, *[(i, "x", item(ONE), item(i)) for i in range(6)], (9, "x", None, b"\4\0")),
        insert(BAG, (1, item(ONE)), (1, item(ONE)), (1, item(TWO)), (2, None), (2, None)),
    )
    run(spark, log.folder, target, keys=keys)
    docs = read(spark, target, "t.docs")
    want = [*[(i, "x", ONE, i) for i in range(6)], (9, "x", None, None)]
    assert documents(docs) == want
    assert docs.where("variant_get(j, '$.b[1].c', 'bigint') > id AND k::int = 3").count() == 1
    # Images without all columns: the documents are the row's in the table.
    log.transaction(update(DOCS, ({0: 1}, {1: "y"}), ({0: 9}, {1: "z"})))
    log.transaction(update(DOCS, ({0: 2}, {2: item(TWO)})))
    log.transaction(delete(DOCS, (0, "x", item(ONE), item(0))))
    log.transaction(delete(BAG, (1, item(ONE)), (2, None)), insert(BAG, (3, item({}))))
    before = versions(target)["t/docs"]
    run(spark, log.folder, target, keys=keys)
    want = [(1, "y", ONE, 1), (2, "x", TWO, 2), *want[3:6], (9, "z", None, None)]
    assert documents(read(spark, target, "t.docs")) == want
    assert feed(spark, target, before + 1) == [
        ("update_postimage", 2, TWO), ("update_preimage", 2, ONE),
    ]  # fmt: skip
    # Rows of a table without a key are found by the bytes of their documents, in Spark's files too.
    spark.sql(f"OPTIMIZE delta.`{target}/t/bag`")
    old, new = (3, "x", item(ONE), item(3)), (3, "x", item(TWO), item(3))
    log.transaction(delete(BAG, (1, item(ONE)), (3, item({}))), update(DOCS, (old, new)))
    run(spark, log.folder, target, keys=keys)
    want[2] = (3, "x", TWO, 3)
    assert documents(read(spark, target, "t.bag")) == [(1, TWO), (2, None)]
    assert documents(read(spark, target, "t.docs")) == want
    assert "OPTIMIZE" in operations(target, "t/docs")
    assert checkpoint_schedule.last(str(target / "t" / "docs")) > 0

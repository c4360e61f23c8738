"""A table's schemaString through public APIs: the same text each time, by which it is told whether
its columns were changed."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_repl.delta.columns import schema_json
from spark_repl.delta.public_log import PublicLog
from spark_repl.delta.stamp import Stamp
from spark_repl.delta.table_log import NewTable
from tests.support.local_delta import LocalDelta


def test_the_same_text_each_time(tmp_path: Path) -> None:
    columns = pa.schema([(f"c{number}", pa.int32()) for number in range(4)])
    mapped = {"delta.columnMapping.mode": "name"}
    LocalDelta().create(str(tmp_path), NewTable(schema_json(columns), mapped), Stamp("a", 1, "{}"))
    log = PublicLog(cast("SparkSession", None))
    seen = [log.snapshot(str(tmp_path)) for _ in range(20)]
    texts = {one.schema_string for one in seen if one}
    assert len(texts) == 1 and "physicalName" in texts.pop()

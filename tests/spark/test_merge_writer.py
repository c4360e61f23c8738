"""The merge writer's lanes serve groups that run at once, each idempotent for tables of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from spark_repl import Config, Replica
from spark_repl.decode.stage import stage
from spark_repl.decode.staged import Span, StageTask
from spark_repl.write.merge import stage_net
from spark_repl.write.written import WriteTask
from tests.spark.lab import run
from tests.support.binlog_writer import Table, delete, insert

A = Table("a")


def test_each_call_knows_what_is_idempotent(spark, log, target, tmp_path):
    log.transaction(insert(A, (1, "x")))
    run(spark, log.folder, target, writer="merge")
    log.transaction(delete(A, (7, "is not there")))
    _, start, end = log.spans[-1]
    span = Span(str(log.path), 1, *np.array([[start], [end], [0]], np.int64), True)
    (part,) = stage(StageTask(0, (span,), 1, None)).parts
    config = Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)},
         "apply": {"writer": "merge"}}
    )  # fmt: skip
    with Replica(spark, config) as replica, ThreadPoolExecutor(2) as pool:
        writer = replica.coordinator._pipeline._landing._writer._writer
        table = replica.tracking.tables["t.a"]
        strict = WriteTask(
            table.name, table.folder, "", table.columns, (0,), (part,), (), False, False,
            table.definition, str(tmp_path / "staged"),
        )  # fmt: skip
        written = [stage_net(replace(strict, idempotent=lenient)) for lenient in (False, True) * 2]
        found = list(pool.map(lambda one: writer.finish({table.name: table}, [one]), written))
    assert [[fault.number for part in parts for fault in part.violations] for parts in found] == [
        [1032],
        [],
        [1032],
        [],
    ]

"""The order in which tables and the rows that announce them become durable."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.files.delta_columns import schema_json
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable


class Counted(DurabilityBarrier):
    passed = 0

    def __call__(self, *, checkpoint: bool = False) -> None:
        self.passed += 1
        super().__call__(checkpoint=checkpoint)


def test_the_barrier_is_passed_before_the_first_sync_of_a_table_and_no_more(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    control = Control(layout.control)
    control.claim()
    folder = layout.table("t/a")
    new = NewTable(schema_json(pa.schema([("id", pa.int64())])), {})
    TableLog().create(folder, new, Stamp("app", 1, "{}"))
    barrier = Counted(control, layout)
    assert not barrier.durable.has_synced(folder)
    barrier.before_first_sync(folder)
    assert barrier.passed == 1
    assert barrier.durable.has_synced(control.path), "its rows are durable first"
    barrier.durable.sync(folder)
    barrier.before_first_sync(folder)
    assert barrier.passed == 1


def test_a_table_on_an_object_store_needs_no_sync(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    barrier = Counted(Control(layout.control), layout)
    barrier.before_first_sync("s3://bucket/t/a")
    assert barrier.passed == 0

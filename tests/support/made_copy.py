"""Copies of tables beside an applier, as ``copy.recopy`` plans and makes them, of rows that the
test says: without a source, and without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_repl.config import Config
from spark_repl.control.control import Control
from spark_repl.control.copies import Copy, last_copy, record_copy, standing
from spark_repl.control.layout import Layout
from spark_repl.control.table_paths import used_paths
from spark_repl.ddl.effect import classify
from spark_repl.delta.columns import write_file
from spark_repl.delta.stamp import Stamp
from spark_repl.gtid import GtidSet
from spark_repl.write.table_options import TableOptions
from spark_repl.write.tracking import Tracking

from .binlog_writer import Table
from .local_delta import LocalDelta

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = tuple[Any, ...]


@contextmanager
def _owned(target: Path) -> Iterator[tuple[Control, Layout]]:
    layout = Layout(str(target))
    control = Control(layout.control, "default")
    control.claim()
    try:
        yield control, layout
    finally:
        control.release()


def plan(target: Path, *names: str, asked: str = "") -> Copy:
    """Plans a copy of tables (db.table) behind the newest cut."""
    with _owned(target) as (control, layout):
        behind = standing(control).cut
        assert behind is not None
        used = used_paths(control)
        paths = {name: layout.fresh_path(*name.split("."), used) for name in names}
        start = GtidSet.parse(behind.gtid_executed)
        copy = Copy(start, dict.fromkeys(names, ()), paths, behind=behind, asked=asked)
        record_copy(control, copy)
        return copy


def plan_first(target: Path, held: str, *names: str) -> Copy:
    """Plans a copy of all tables into an empty target."""
    with _owned(target) as (control, layout):
        paths = {name: layout.fresh_path(*name.split(".")) for name in names}
        start = GtidSet.parse(held)
        copy = Copy(start, dict.fromkeys(names, ()), paths, held=start)
        record_copy(control, copy)
        return copy


def read(target: Path, table: Table, rows: Sequence[Row], **keys: Any) -> None:
    """Copies the rows of one table that is planned; ``keys``: more of the configuration."""
    with _owned(target) as (control, layout):
        copy = last_copy(control)
        assert copy is not None
        aim = {"path": str(target), "column_mapping": False}
        config = Config.from_mapping({"target": aim, **keys})
        tracking = Tracking(layout, control, LocalDelta(), TableOptions.of(config))
        definition = classify(table.create, table.database).definition
        assert definition is not None
        behind = copy.behind
        made = tracking.create_copy(
            definition,
            copy.paths[definition.name],
            tracking.stamp(behind) if behind else Stamp(tracking.app, 0, "{}"),
        )
        schema = made.definition.arrow_schema()
        columns = [
            pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        written = write_file(
            made.folder, made.columns, pa.Table.from_arrays(columns, schema=schema)
        )
        stamp = Stamp(f"{tracking.app}:copy", 1, "{}")
        tracking.delta.commit(made.snapshot, [{"add": written}], stamp)


def finish(target: Path, until: str, **more: Any) -> None:
    """Records that all rows were read when the source had executed ``until``."""
    with _owned(target) as (control, _):
        copy = last_copy(control)
        assert copy is not None
        record_copy(control, replace(copy, until=GtidSet.parse(until), **more))

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
from spark_repl.config.renaming import SHARD, whole_of
from spark_repl.control.records import recorded_filters
from spark_repl.control.records.channels import opened
from spark_repl.control.records.copies import Copy, last_copy, record_copy, standing
from spark_repl.control.records.table_paths import used_paths
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.files.delta_columns import write_file
from spark_repl.delta.log.stamp import Stamp
from spark_repl.gtid import GtidSet
from spark_repl.rules.replication_filters import ReplicationFilters
from spark_repl.sql.classify import classify
from spark_repl.write.tables.table_metadata import copies_of
from spark_repl.write.tables.target_options import TargetOptions
from spark_repl.write.tables.tracking import Tracking

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


def plan(target: Path, *names: str, asked: str = "", empty: Sequence[str] = ()) -> Copy:
    """Plans a copy of tables (db.table) behind the newest cut; the ``empty`` ones without rows."""
    with _owned(target) as (control, layout):
        behind = standing(control).cut
        assert behind is not None
        used = used_paths(control)
        paths = {name: layout.fresh_path(*name.split("."), used) for name in names}
        start = GtidSet.parse(behind.gtid_executed)
        copy = Copy(
            start, dict.fromkeys(names, ()), paths, behind=behind, asked=asked,
            exact=dict.fromkeys(empty, start), without_rows=tuple(empty),
        )  # fmt: skip
        record_copy(control, copy)
        return copy


def plan_first(
    target: Path, held: str, *names: str, tables: Sequence[Any] = (), empty: Sequence[str] = ()
) -> Copy:
    """Plans a copy of all tables into an empty target, the ``empty`` ones without rows; all shards
    are of one Delta table."""
    with _owned(target) as (control, layout):
        paths: dict[str, str] = {}
        for name in names:
            path = layout.fresh_path(*whole_of(name).split("."))
            paths[name] = layout.shard_path(path, paths.values()) if SHARD in name else path
        config = Config.from_mapping({"tables": list(tables)})
        recorded_filters.record(control, ReplicationFilters.of(config))
        start = GtidSet.parse(held)
        copy = Copy(
            start, dict.fromkeys(names, ()), paths, held=start,
            exact=dict.fromkeys(empty, start), without_rows=tuple(empty),
        )  # fmt: skip
        record_copy(control, copy)
        return copy


def read(
    target: Path, table: Table, rows: Sequence[Row], *, name: str = "",
    column_mapping: bool = False, **keys: Any,
) -> None:  # fmt: skip
    """Copies the rows of one table that is planned; ``name``: of a shard, in the target; ``keys``:
    more of the configuration."""
    aim = {"path": str(target), "column_mapping": column_mapping}
    read_into(Config.from_mapping({"target": aim, **keys}), table, rows, name)


def read_into(config: Config, table: Table, rows: Sequence[Row], name: str = "") -> None:
    """The same by a channel's configuration."""
    at = opened(config)
    control, layout = at.control, at.layout
    control.claim()
    try:
        copy = last_copy(control)
        assert copy is not None
        tracking = Tracking(layout, control, LocalDelta(), TargetOptions.of(config))
        definition = classify(table.create, table.database).definition
        assert definition is not None
        if name:
            database, _, own = name.partition(".")
            definition = replace(definition, database=database, table=own)
        behind = copy.behind
        made = tracking.create_copy(
            definition,
            copy.paths[definition.name],
            tracking.stamp(behind) if behind else Stamp(tracking.app, 0, "{}"),
            without_rows=definition.name in copy.without_rows,
        )
        if definition.name in copy.without_rows:
            return
        schema = made.definition.arrow_schema()
        columns = [
            pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        parts = made.columns.split(pa.Table.from_arrays(columns, schema=schema))
        written = [write_file(made.folder, made.columns, part, values) for values, part in parts]
        stamp = Stamp(copies_of(tracking.app, made.path), 1, "{}")
        tracking.delta.commit(made.snapshot, [{"add": one} for one in written], stamp)
    finally:
        control.release()


def finish(target: Path, until: str, **more: Any) -> None:
    """Records that all rows were read when the source had executed ``until``."""
    with _owned(target) as (control, _):
        copy = last_copy(control)
        assert copy is not None
        record_copy(control, replace(copy, until=GtidSet.parse(until), **more))

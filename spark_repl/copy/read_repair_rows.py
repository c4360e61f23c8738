"""Rows of some keys, read from the source to repair a table whose rows differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from ..binlog.types.forms import Forms
from ..decode.metadata_values import metadata_of_deletions
from ..errors import RowsOutdated, RowsRefused
from ..gtid import GtidSet
from ..rules.column_rules import ColumnRules
from ..rules.masking import mask_key
from ..rules.replication_filters import ReplicationFilters
from ..rules.table_rules import TableRules
from ..source.connection import DumpConnection, begin_query, connect
from ..write.rows.certain_rows import key_digests, staged_rows
from ..write.rows.row_repair import RowsToRepair
from .copy_chunk import copied_rows, patiently
from .repair_request import KEY, THERE, RepairRequest, key_types
from .source_tables import case_of_names, full_name, list_tables
from .text_rows import read_rows, select_list

if TYPE_CHECKING:
    from ..config import Config, Source
    from ..control.table.cut import Cut
    from ..decode.stage_task import Part
    from ..tables.target_table import TargetTable
    from ..write.rows.certain_rows import Keys

T = TypeVar("T")
Run = Callable[[Callable[[Any], Any], list[Any]], list[Any]]

_SHOWS_S, _POLL_S = 30.0, 0.1
_SETTLED_S = 0.5
"""seconds to wait: rows are visible shortly before their transaction's GTID is in gtid_executed"""


@dataclass(frozen=True)
class _Range:
    """Arguments of one statement. ``position``: packed position of the cut after which it is read;
    ``out``: the file for the staged rows, "": they stay in memory; ``mask``: the key of masks."""

    source: Source
    definition: TargetTable
    where: str
    keys: Keys
    position: int
    out: str
    forms: Forms
    mask: bytes = field(default=b"", repr=False)
    gtid_executed: str = ""
    """the GTID set of that cut"""


@dataclass(frozen=True)
class _Gone:
    """Arguments of staging deletions: the request's keys of which the source has no row.
    ``source_keys``: keys that the source has, sorted; ``gtid_executed``: the GTID set of the cut at
    ``position``."""

    request: str
    definition: TargetTable
    source_keys: Keys
    position: int
    out: str
    gtid_executed: str = ""


def read_range(task: _Range) -> tuple[Part, Keys]:
    """Return the rows of the keys, staged, and the keys for which the source has rows. Raise
    SourceError or SchemaError. Runs on a worker."""

    def attempt() -> list[pa.Table]:
        connection = connect(task.source)
        try:
            return _rows(task, connection)
        finally:
            connection.close()

    parts = patiently(task.source, attempt)
    rows = pa.concat_tables([task.definition.arrow_schema().empty_table(), *parts])
    digests = np.unique(key_digests(rows, task.definition.primary_key))
    return staged_rows(task.out, task.definition, rows, task.position, exist=True), digests


def _rows(task: _Range, connection: Any) -> list[pa.Table]:
    logged, key = task.definition.source, task.definition.primary_key
    statement = f"SELECT {select_list(logged)} FROM {full_name(logged)} {task.where}"
    tables = []
    for columns in read_rows(*begin_query(connection, statement)):
        rows, _ = copied_rows(task.definition, columns, task.forms, task.mask, task.gtid_executed)
        tables.append(rows.filter(pa.array(np.isin(key_digests(rows, key), task.keys))))
    return tables


def stage_gone(task: _Gone) -> Part:
    """Stage deletions of the rows that only the target has, which need only their keys' values."""
    keys = RepairRequest.read(Path(task.request)).keys
    gone = ~np.isin(keys.column(KEY).to_numpy(), task.source_keys)
    rows = keys.filter(pa.array(gone & keys.column(THERE).to_numpy()))
    key, arrays = task.definition.primary_key, list[Any]()
    extra = metadata_of_deletions(task.definition.source, task.gtid_executed, rows.num_rows)
    for number, column in enumerate(task.definition.columns):
        if number in key:
            arrays.append(rows.column(str(key.index(number))).cast(column.arrow_type))
        elif column.extra in extra:
            arrays.append(extra[column.extra])
        else:
            arrays.append(pa.nulls(rows.num_rows, column.arrow_type))
    names = task.definition.arrow_schema().names
    whole = pa.Table.from_arrays(arrays, names=names)
    return staged_rows(task.out, task.definition, whole, task.position, exist=False)


def read(config: Config, run: Run, request: Path, cut: Cut, folder: Path | None) -> RowsToRepair:
    """Read the rows of a request as of a moment after ``cut``; write staged files to ``folder``.
    Without a folder (if workers can't write to one) the rows stay in memory.

    Raise RowsRefused, RowsOutdated, or the source's error.
    """
    wanted = RepairRequest.read(request)
    at = cut.tables.get(wanted.table)
    if at is None:
        raise RowsRefused("the target has no such table")
    executed = GtidSet.parse(cut.gtid_executed)
    _wait_for(config, executed)
    rules = ColumnRules(TableRules(config.tables), mask_key(config.target))
    definition = _query_source(config, partial(_definition, config, rules, wanted.table))
    if key_types(definition) != wanted.key:
        raise RowsRefused("its key is another one now")
    keys = wanted.digests
    tasks = [
        _Range(
            config.source, definition, where, keys, cut.position, _out(folder, str(number)),
            Forms.of_target(config.target), rules.key, str(executed),
        )
        for number, where in enumerate(wanted.wheres)
    ]  # fmt: skip
    ranges = run(read_range, tasks)
    time.sleep(_SETTLED_S)
    until = _query_source(config, _executed)
    source_keys = np.unique(np.concatenate([keys[:0], *(digests for _, digests in ranges)]))
    out = _out(folder, "gone")
    gone = _Gone(str(request), definition, source_keys, cut.position, out, str(executed))
    parts = [stage_gone(gone), *(part for part, _ in ranges)]
    staged = tuple(part for part in parts if part.rows)
    return RowsToRepair(definition, at.path, keys, cut, until, staged)


def _out(folder: Path | None, name: str) -> str:
    """Return the path of a staged file, or "" without a folder."""
    return str(folder / f"{name}.arrow") if folder else ""


def _wait_for(config: Config, executed: GtidSet) -> None:
    """Wait until the source has executed all that the cut contains: a replica may be ahead of it.
    Raise RowsOutdated after 30 s."""
    last = time.monotonic() + _SHOWS_S
    while not executed.issubset(_query_source(config, _executed)):
        if time.monotonic() > last:
            raise RowsOutdated("the source does not have all that the tables have")
        time.sleep(_POLL_S)


def _executed(source: DumpConnection) -> GtidSet:
    return source.server().executed


def _definition(
    config: Config, rules: ColumnRules, name: str, source: DumpConnection
) -> TargetTable:
    """Return the target's definition of the table that the source has under the name now."""
    rules = rules.folded() if case_of_names(source.rows) > 0 else rules
    (table,) = list_tables(source.rows, (name,), ReplicationFilters.of(config))
    target = config.target
    forms = Forms.of_target(target)
    return rules.shaped(forms.apply(table.definition))


def _query_source(config: Config, question: Callable[[DumpConnection], T]) -> T:
    def ask() -> T:
        connection = DumpConnection(config.source)
        try:
            return question(connection)
        finally:
            connection.close()

    return patiently(config.source, ask)

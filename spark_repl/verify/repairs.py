"""What repairs a table: the rows of the keys that were named, or where that can't be a new copy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..copy.repair_request import KEY, THERE, RepairRequest, key_types
from ..write.row_repair import key_digests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..config import Config
    from .table_check import TableCheck

log = logging.getLogger(__name__)

Repairs = RepairRequest | str
"""the request, or why the table has to be copied"""

_KEYS_MOST = 10_000


def repairs_of(check: TableCheck) -> Repairs:
    """What repairs a table that has named keys."""
    key, named, at = check.definition.primary_key, check.named, check.at
    if not key:
        return "it has no key"
    if len(named) > _KEYS_MOST:
        return f"more than {_KEYS_MOST:,} rows differ"
    assert at is not None
    schema = check.definition.arrow_schema()
    fields = [(str(i), schema.field(number).type) for i, number in enumerate(key)]
    there = [_keys(rows, key) for rows in check.target_rows(named, at)]
    found = np.concatenate([named[:0], *(one.column(KEY).to_numpy() for one in there)])
    alone = np.setdiff1d(named, found)
    nothing = [pa.nulls(len(alone), kind) for _, kind in fields]
    lacking = [pa.array(alone), pa.array(np.zeros(len(alone), bool)), *nothing]
    whole = pa.schema([(KEY, pa.uint64()), (THERE, pa.bool_()), *fields])
    keys = pa.concat_tables([*there, pa.Table.from_arrays(lacking, schema=whole)])
    return RepairRequest(check.name, check.wheres(named), key_types(check.definition), keys)


def _keys(rows: pa.Table, key: tuple[int, ...]) -> pa.Table:
    """The keys of rows that the target has."""
    there = pa.array(np.ones(rows.num_rows, bool))
    values = [rows.column(number) for number in key]
    names = [KEY, THERE, *map(str, range(len(key)))]
    return pa.Table.from_arrays([pa.array(key_digests(rows, key)), there, *values], names=names)


def carry_out(
    config: Config,
    repairs: Mapping[str, Repairs],
    session: Callable[[], SparkSession],
    master: str | None,
) -> dict[str, Any]:
    """Repairs tables, and copies those whose rows can't be; what a result says of it. Raises
    SourceError, TargetError, FencedError."""
    from ..copy.repairer import repair
    from ..service.following import snapshot

    rows, copied = dict[str, int](), dict[str, str]()
    for name, one in repairs.items():
        if isinstance(one, str):
            copied[name] = one
            continue
        done = repair(config, one, session)
        if done.refused:
            copied[name] = done.refused
        else:
            rows[name] = done.rows
    for name, reason in copied.items():
        log.warning("%s is copied as a whole: %s", name, reason)
    if copied:
        snapshot(config, tuple(copied), master=master)
    return {"repaired": list(repairs), "repaired_rows": rows, "copied": copied}

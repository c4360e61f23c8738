"""The repair of a table: a request for the rows of the named keys, or why the table needs a new
copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..copy.repair_request import KEY, THERE, RepairRequest, key_types
from ..write.rows.staged_rows import key_digests

if TYPE_CHECKING:
    from .table_check import TableCheck

Repairs = RepairRequest | str
"""the request, or the reason for a new copy"""

_KEYS_MOST = 10_000


def repairs_of(check: TableCheck) -> Repairs:
    """Return the repair of a table that has named keys."""
    key, named, at = check.definition.primary_key, check.named, check.at
    if not key:
        return "it has no key"
    if len(named) > _KEYS_MOST:
        return f"more than {_KEYS_MOST:,} rows differ"
    assert at is not None
    schema = check.definition.arrow_schema()
    fields = [(str(i), schema.field(number).type) for i, number in enumerate(key)]
    existing = [_keys(rows, key) for rows in check.target_rows(named, at)]
    target_keys = np.concatenate([named[:0], *(part.column(KEY).to_numpy() for part in existing)])
    alone = np.setdiff1d(named, target_keys)
    nothing = [pa.nulls(len(alone), kind) for _, kind in fields]
    lacking = [pa.array(alone), pa.array(np.zeros(len(alone), bool)), *nothing]
    whole = pa.schema([(KEY, pa.uint64()), (THERE, pa.bool_()), *fields])
    keys = pa.concat_tables([*existing, pa.Table.from_arrays(lacking, schema=whole)])
    return RepairRequest(check.name, check.wheres(named), key_types(check.definition), keys)


def _keys(rows: pa.Table, key: tuple[int, ...]) -> pa.Table:
    """Return the keys of rows that the target has."""
    exists = pa.array(np.ones(rows.num_rows, bool))
    values = [rows.column(number) for number in key]
    names = [KEY, THERE, *map(str, range(len(key)))]
    return pa.Table.from_arrays([pa.array(key_digests(rows, key)), exists, *values], names=names)

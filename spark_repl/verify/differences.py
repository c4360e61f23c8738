"""Rows that differ, as they are shown: the key's values, and which columns are not the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..delta.columns import equal, one_chunk
from ..delta.digests import digests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..binlog.definition import TableDefinition
    from .compare import Keys
    from .table_check import TableCheck

_VALUE_MAX = 200


def differences(check: TableCheck, most: int) -> list[dict[str, Any]]:
    """The first ``most`` of a table's named keys: ``kind`` is "missing" (the source alone has the
    row), "extra" (the target alone), "different", or, of a table without a key, "count"."""
    keys = check.named[:most]
    if not len(keys) or check.at is None:
        return []
    source = [check.values] if check.values is not None else []
    rows = shown(check.definition, keys, source, check.target_rows(keys, check.at))
    return [{**one, "table": check.name} for one in rows]


def shown(
    definition: TableDefinition, keys: Keys, source: list[pa.Table], target: list[pa.Table]
) -> list[dict[str, Any]]:
    """What is said of each key, by the rows of both sides."""
    left, right = (_by_key(definition, rows, keys) for rows in (source, target))
    return [_shown(definition, left.get(key, []), right.get(key, [])) for key in keys.tolist()]


def _by_key(
    definition: TableDefinition, tables: list[pa.Table], keys: Keys
) -> dict[int, list[pa.Table]]:
    rows_by_key: dict[int, list[pa.Table]] = {}
    for table in tables:
        arrays = [one_chunk(column) for column in table.columns]
        made = digests(arrays, definition.primary_key)[0]
        for row in np.flatnonzero(np.isin(made, keys)).tolist():
            rows_by_key.setdefault(int(made[row]), []).append(table.slice(row, 1))
    return rows_by_key


def _shown(
    definition: TableDefinition, source: list[pa.Table], target: list[pa.Table]
) -> dict[str, Any]:
    names = [definition.columns[number].name for number in definition.primary_key]
    row = (source or target)[:1]
    values = row[0].select(names) if row and names else row[0] if row else None
    shown = {n: _text(values.column(n)[0].as_py()) for n in values.column_names} if values else {}
    fields: dict[str, Any] = {"table": definition.name, "kind": "different", "row": shown}
    if not names:
        return fields | {"kind": "count", "source": len(source), "target": len(target)}
    if not source or not target:
        return fields | {"kind": "missing" if source else "extra"}
    if len(source) == len(target) == 1:
        fields["columns"] = list(_unlike(source[0], target[0]))
    return fields


def _unlike(left: pa.Table, right: pa.Table) -> Iterator[str]:
    for name in left.column_names:
        pair = (one_chunk(left.column(name)), one_chunk(right.column(name)))
        if not equal(*pair, bitwise=True).all():
            yield name


def _text(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _VALUE_MAX else text[:_VALUE_MAX] + "..."

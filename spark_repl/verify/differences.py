"""Differing rows as a result shows them: the key's values, and the columns that differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..delta.files.delta_columns import equal, one_chunk
from ..delta.files.digests import Digests, digests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..tables.target_table import TargetTable
    from .digest_sums import Keys

_VALUE_MAX = 200


@dataclass(frozen=True)
class Differing:
    """Keys whose rows differ, sorted, and the number of rows of each key on both sides."""

    keys: Keys
    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]

    def take(self, which: npt.NDArray[Any]) -> Differing:
        """Return some of the keys, selected by a mask or by indexes."""
        return Differing(self.keys[which], self.source[which], self.target[which])

    def kinds(self, definition: TargetTable) -> list[str]:
        """Return each key's kind, by the numbers of its rows: "missing" (only the source has the
        key), "extra" (only the target), "different", or "count" if the table has no key."""
        if not definition.primary_key:
            return ["count"] * len(self.keys)
        absent = np.where(self.target == 0, "missing", "different")
        return [str(kind) for kind in np.where(self.source == 0, "extra", absent)]

    def by_kind(self, definition: TargetTable) -> dict[str, int]:
        """Return the number of keys of each kind that occurs."""
        return dict(Counter(self.kinds(definition)))


def differences(
    definition: TargetTable,
    named: Differing,
    source: pa.Table | None,
    target_rows: Callable[[Keys], list[pa.Table]],
    most: int,
) -> list[dict[str, Any]]:
    """Describe at most ``most`` of a table's ``named`` keys. ``source``: rows of the source;
    ``target_rows`` returns the target's rows of some keys. A key is left out if its description
    needs the source's row and ``source`` lacks that row."""
    if not len(named.keys) or most <= 0:
        return []
    fetched = [source] if source is not None else []
    digested = [named.keys[:0], *(_digests(definition, rows) for rows in fetched)]
    by_target = named.source == 0 if definition.primary_key else named.target > 0
    complete = np.isin(named.keys, np.concatenate(digested)) | by_target
    chosen = named.take(np.flatnonzero(complete)[:most])
    return describe(definition, chosen, fetched, target_rows(chosen.keys))


def describe(
    definition: TargetTable,
    differing: Differing,
    source: list[pa.Table],
    target: list[pa.Table],
) -> list[dict[str, Any]]:
    """Describe each key by the rows of both sides: kind, key values, columns that differ."""
    left, right = (_by_key(definition, rows, differing.keys) for rows in (source, target))
    fields = list[dict[str, Any]]()
    for number, (key, kind) in enumerate(
        zip(differing.keys.tolist(), differing.kinds(definition), strict=True)
    ):
        pair = left.get(key, []), right.get(key, [])
        described: dict[str, Any] = {
            "table": definition.name,
            "kind": kind,
            "row": key_values(definition, pair[0] or pair[1]),
        }
        if kind == "count":
            counts = int(differing.source[number]), int(differing.target[number])
            described |= {"source": counts[0], "target": counts[1]}
        elif kind == "different" and len(pair[0]) == len(pair[1]) == 1:
            described["columns"] = list(_unlike(pair[0][0], pair[1][0]))
        fields.append(described)
    return fields


def _by_key(
    definition: TargetTable, tables: list[pa.Table], keys: Keys
) -> dict[int, list[pa.Table]]:
    rows_by_key: dict[int, list[pa.Table]] = {}
    for table in tables:
        digested = _digests(definition, table)
        for row in np.flatnonzero(np.isin(digested, keys)).tolist():
            rows_by_key.setdefault(int(digested[row]), []).append(table.slice(row, 1))
    return rows_by_key


def _digests(definition: TargetTable, rows: pa.Table) -> Keys:
    """Return the digest of each row's key."""
    digested: Digests = digests(
        [one_chunk(column) for column in rows.columns], definition.primary_key
    )
    return np.asarray(digested[0])


def key_values(definition: TargetTable, rows: list[pa.Table]) -> dict[str, Any]:
    """Return the values of the first row's key, or of the whole row if the table has no key."""
    names = [definition.columns[number].name for number in definition.primary_key]
    values = rows[0].select(names) if names else rows[0]
    return {name: _text(_readable(values.column(name)[0])) for name in values.column_names}


def _unlike(left: pa.Table, right: pa.Table) -> Iterator[str]:
    for name in left.column_names:
        pair = (one_chunk(left.column(name)), one_chunk(right.column(name)))
        if not equal(*pair, bitwise=True).all():
            yield name


def _readable(value: pa.Scalar) -> Any:
    """Return the value, in which invalid UTF-8 becomes U+FFFD: targets of version 0.1.0 may have
    some."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return bytes(value.as_buffer()).decode("utf-8", "replace")


def _text(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _VALUE_MAX else text[:_VALUE_MAX] + "..."

"""SharedKeysCheck: keys of which two channels have rows in a Delta table that both feed by row
filters.

The user declares that the filters are disjoint (``disjoint`` of ``[[tables]]``). Keys are compared
by their values: two texts that are equal by a collation are two keys here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..delta.files.delta_columns import Columns, arrow_type
from .differences import key_values
from .digest_sums import common_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tables.target_table import TargetTable
    from .digest_sums import Keys
    from .target_files import FileSet, FileTask

CLAIMED = "claimed"
"""kind of a difference: two channels have the key"""


@dataclass(frozen=True)
class SharedKeysCheck:
    """Keys that several channels have. ``keys``: sorted, those of the channel's table that
    ``channels`` also have; ``own``: the channel's files, with only the key's columns, of the types
    in ``schema``."""

    definition: TargetTable
    own: FileSet
    schema: pa.Schema
    keys: Keys
    channels: tuple[str, ...]

    @classmethod
    def find(
        cls,
        definition: TargetTable,
        whole: FileSet,
        work: str,
        run: Callable[[list[FileTask]], object],
    ) -> SharedKeysCheck:
        """Compare the keys of a channel's table with the other channels' keys in the same version
        of the Delta table. ``whole``: all its files; ``work``: the folder of digests; ``run``
        digests files."""
        own = whole.of_shard(definition)
        keys_only, schema = _key_columns(definition, own.columns)
        own, every = (replace(files, columns=keys_only) for files in (own, whole))
        key = tuple(range(len(schema)))
        run(every.tasks(work, schema, key))
        column, _ = own.shard
        values = {add["partitionValues"][column] for add in whole.files.values()}
        claimed, channels = [np.zeros(0, np.uint64)], []
        for channel in sorted(values - {own.shard[1]}):
            other = replace(every, shard=(column, channel)).with_files(every.files)
            if len(keys := common_keys(own.live(work, key), other.live(work, key))):
                claimed.append(keys)
                channels.append(channel)
        return cls(definition, own, schema, np.unique(np.concatenate(claimed)), tuple(channels))

    def differences(self, work: str, most: int) -> list[dict[str, Any]]:
        """Describe at most ``most`` of the keys, as ``differences`` of a result."""
        if not len(self.keys) or most <= 0:
            return []
        key = tuple(range(len(self.schema)))
        rows = self.own.rows_with(work, self.keys[:most], key, self.schema)
        fields = {"table": self.definition.name, "kind": CLAIMED}
        return [
            {**fields, "row": key_values(self.definition, [row]), "channels": [*self.channels]}
            for table in rows
            for row in (table.slice(number, 1) for number in range(table.num_rows))
        ]


def _key_columns(definition: TargetTable, own: Columns) -> tuple[Columns, pa.Schema]:
    """Return the key's columns, and their types in the files: another channel's values may need a
    wider type than the channel's own."""
    names = [definition.columns[number].name for number in definition.primary_key]
    numbers = [own.names.index(name) for name in names]
    wider, types = dict(own.wider), definition.arrow_schema()
    columns = Columns(
        tuple(names),
        tuple(own.physical[number] for number in numbers),
        tuple(own.ids[number] for number in numbers),
        tuple(
            json.dumps(wider[number]) if number in wider else own.types[number]
            for number in numbers
        ),
    )
    fields = [
        pa.field(name, arrow_type(wider[n]) if n in wider else types.field(name).type)
        for name, n in zip(names, numbers, strict=True)
    ]
    return columns, pa.schema(fields)

"""Versions of rows that end (mode history): what becomes of their rows in the target, by a change
or by TRUNCATE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ..rules.metadata_columns import numbers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..binlog.definition import TableDefinition

ENDS = {
    "valid_to_gtid": "valid_from_gtid",
    "valid_to_time": "valid_from_time",
    "valid_to_position": "valid_from_position",
}
"""the columns that say which transaction ended a version, and those that say it of its own"""


def ended(
    definition: TableDefinition, arrays: Sequence[pa.Array], by: Mapping[str, pa.Array]
) -> list[pa.Array]:
    """The columns [columns of the table] of versions that are current no more. ``by``: what ended
    each of them, as ENDS names it."""
    numbers, columns = numbers_of(definition), list(arrays)
    for name in ENDS:
        columns[numbers[name]] = by[name].cast(columns[numbers[name]].type)
    columns[numbers["current"]] = pa.repeat(False, len(columns[0]))
    return columns


@dataclass(frozen=True)
class TruncatedVersions:
    """What a TRUNCATE makes of a table's rows: those that are current end by it. ``gtid``: its own,
    "" of an anonymous one; ``at``: when it was committed, microseconds UTC; ``position``: where it
    begins in the relay log, packed."""

    definition: TableDefinition
    gtid: str
    at: int
    position: int

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns [columns of the table] of some rows behind it."""
        count = len(arrays[0])
        said = {
            "valid_to_gtid": pa.repeat(pa.scalar(self.gtid or None, pa.string()), count),
            "valid_to_time": pa.repeat(self.at, count),
            "valid_to_position": pa.repeat(self.position, count),
        }
        current = pc.fill_null(arrays[numbers_of(self.definition)["current"]], False)
        after = ended(self.definition, arrays, said)
        return [
            new if new is old else pc.if_else(current, new, old)
            for old, new in zip(arrays, after, strict=True)
        ]

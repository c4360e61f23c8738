"""Tables that keep rows which the source has deleted (``extra_columns``: deleted): which of their
rows are those of the source, and what TRUNCATE makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...delta.columns import read_rows
from ...rules.metadata_columns import TRUNCATE, deleted_column
from ...tables.table_name import plain_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ...tables.table_definition import TableDefinition
    from ..files.write_task import WriteTask


def are_deleted(task: WriteTask, path: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of ``rows`` of one data file the source has deleted: none where such rows go."""
    number = deleted_column(task.definition)
    if number < 0 or not len(rows):
        return np.zeros(len(rows), bool)
    (values,) = read_rows(task.folder, path, [task.columns.physical[number]], rows)
    return np.asarray(pc.fill_null(values, False))


@dataclass(frozen=True)
class Truncated:
    """What a TRUNCATE makes of a table's rows: those that are not deleted are then, by it.
    ``gtid``: its own, "" of an anonymous one; ``at``: when it was committed, microseconds UTC."""

    definition: TableDefinition
    gtid: str
    at: int

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns [columns of the table] of some rows behind it."""
        there = pc.fill_null(arrays[deleted_column(self.definition)], False)
        said = self._said()
        return [
            pc.if_else(there, values, pa.scalar(said[column.extra], values.type))
            if column.extra
            else values
            for column, values in zip(self.definition.columns, arrays, strict=True)
        ]

    def _said(self) -> dict[str, Any]:
        return {
            "source_table": plain_name(self.definition.name_on_source),
            "gtid": self.gtid or None,
            "commit_time": self.at,
            "operation": TRUNCATE,
            "deleted": True,
        }

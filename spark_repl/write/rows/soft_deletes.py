"""Soft deletes: tables that keep rows which the source has deleted (``extra_columns``: deleted).
This module finds these rows, and marks rows at a TRUNCATE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...delta.files.delta_columns import read_rows
from ...rules.metadata_columns import TRUNCATE
from ...tables.table_name import plain_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ...tables.target_table import TargetTable
    from ..files.write_task import WriteTask


def are_soft_deleted(
    task: WriteTask, path: str, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which of ``rows`` of one data file the source has deleted: none in a table that keeps
    no such rows."""
    number = task.definition.deleted_column
    if number < 0 or not len(rows):
        return np.zeros(len(rows), bool)
    (values,) = read_rows(task.folder, path, [task.columns.physical[number]], rows)
    return np.asarray(pc.fill_null(values, False))


@dataclass(frozen=True)
class Truncated:
    """The change that a TRUNCATE makes to a table's rows: it marks the rows that are not marked as
    deleted. ``gtid``: of the TRUNCATE, "" if it is anonymous; ``at``: when it was committed, in
    microseconds UTC."""

    definition: TargetTable
    gtid: str
    at: int

    def columns(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the columns [columns of the table] of some rows after the TRUNCATE."""
        deleted = pc.fill_null(arrays[self.definition.deleted_column], False)
        new_values = self._new_values()
        return [
            pc.if_else(deleted, values, pa.scalar(new_values[column.extra], values.type))
            if column.extra
            else values
            for column, values in zip(self.definition.columns, arrays, strict=True)
        ]

    def _new_values(self) -> dict[str, Any]:
        return {
            "source_table": plain_name(self.definition.name_on_source),
            "gtid": self.gtid or None,
            "commit_time": self.at,
            "operation": TRUNCATE,
            "deleted": True,
        }

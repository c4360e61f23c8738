"""One key range of a source's table, read in one statement and digested; runs on a worker."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..copy.copy_chunk import copied_rows, patiently
from ..copy.source_tables import full_name
from ..copy.text_rows import read_rows, select_list
from ..delta.files.delta_columns import one_chunk
from ..delta.files.digests import Digests, digests
from ..errors import SparkReplError
from ..source.connection import begin_query, connect
from .work_folder import save

if TYPE_CHECKING:
    from typing import Self

    from ..binlog.types.forms import Forms
    from ..config import Source
    from ..tables.target_table import TargetTable


@dataclass(frozen=True)
class RangeTask:
    """Arguments of reading one range. ``definition``: the target's; ``mask_key``: the secret key of
    its masks. ``out``: the file for all digests. Without it the worker returns the digests of the
    keys ``keep`` (sorted), and one row for each of the first ``row_limit`` keys. ``rows_per_s``: a
    limit; 0 for none."""

    source: Source
    definition: TargetTable
    forms: Forms
    where: str
    out: str = ""
    keep: npt.NDArray[np.uint64] | None = None
    rows_per_s: float = 0
    mask_key: bytes = field(default=b"", repr=False)
    row_limit: int = 0


@dataclass(frozen=True)
class RangeRows:
    """The result of reading one range. ``digests``: those of the requested rows; ``values``: one
    row for each of the first keys."""

    digests: Digests
    values: pa.Table | None


def read_ranges(tasks: list[RangeTask]) -> list[RangeRows | SparkReplError]:
    """Read ranges one after the other, over one connection. Each list of ranges is read by one
    connection."""
    results: list[RangeRows | SparkReplError] = []
    with _Line() as line:
        for task in tasks:
            try:
                results.append(patiently(task.source, partial(line.read, task)))
            except SparkReplError as error:
                results.append(error.at(table=task.definition.name))
    return results


class _Line:
    """A connection that is replaced after a failed read."""

    def __init__(self) -> None:
        self._connection: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self, task: RangeTask) -> RangeRows:
        if self._connection is None:
            self._connection = connect(task.source)
        try:
            return _digest(task, self._connection)
        except BaseException:
            self.__exit__()
            raise


def _digest(task: RangeTask, connection: Any) -> RangeRows:
    definition = task.definition
    logged, key = definition.source, definition.primary_key
    statement = f"SELECT {select_list(logged)} FROM {full_name(logged)} {task.where}"
    answer, began = begin_query(connection, statement), time.monotonic()
    parts, values, rows = [np.zeros((2, 0), np.uint64)], _FirstRows(task.row_limit), 0
    for columns in read_rows(*answer):
        read, _ = copied_rows(definition, columns, task.forms, task.mask_key)
        digested = digests([one_chunk(column) for column in read.columns], key)
        rows += digested.shape[1]
        if task.keep is not None:
            wanted = np.isin(digested[0], task.keep)
            values.add(digested[0], read, wanted)
            digested = digested[:, wanted]
        parts.append(digested)
        if task.rows_per_s:
            time.sleep(max(0.0, began + rows / task.rows_per_s - time.monotonic()))
    own = np.concatenate(parts, axis=1)
    if task.out:
        save(task.out, np.ascontiguousarray(own[:, np.argsort(own[0])]))
        own = own[:, :0]
    return RangeRows(own, pa.concat_tables(values.parts) if values.parts else None)


class _FirstRows:
    """The rows of the first ``most`` keys, one row for each key."""

    def __init__(self, most: int) -> None:
        self._most, self._keys = most, np.zeros(0, np.uint64)
        self.parts: list[pa.Table] = []

    def add(self, keys: npt.NDArray[np.uint64], rows: pa.Table, wanted: Any) -> None:
        """Add the wanted rows whose keys have no row yet."""
        room = self._most - len(self._keys)
        if room <= 0 or not wanted.any():
            return
        numbers = np.flatnonzero(wanted)
        _, first = np.unique(keys[numbers], return_index=True)
        numbers = numbers[np.sort(first)]
        numbers = numbers[~np.isin(keys[numbers], self._keys)][:room]
        if len(numbers):
            self._keys = np.concatenate([self._keys, keys[numbers]])
            self.parts.append(rows.take(pa.array(numbers)))

"""One key range of a source's table, read in one statement and digested; runs on a worker."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..copy.chunk import copied_rows, patiently
from ..copy.source_tables import full_name
from ..copy.text_rows import read_rows, select_list
from ..delta.columns import one_chunk
from ..delta.digests import Digests, digests
from ..errors import SparkReplError
from ..source.connection import begin_query, connect
from .saved_digests import save

if TYPE_CHECKING:
    from typing import Self

    from ..binlog.definition import TableDefinition
    from ..config import Source

SHOWN = 1000
"""rows of a range that are brought along with their values, at most"""


@dataclass(frozen=True)
class RangeTask:
    """``definition``: the target's, ``mask_key``: of its masks. ``out``: the file for all digests;
    without it those of the keys ``keep`` (sorted) come home, with their rows. ``rows_per_s``: 0 for
    as many as there are."""

    source: Source
    definition: TableDefinition
    zero_dates: str
    where: str
    out: str = ""
    keep: npt.NDArray[np.uint64] | None = None
    rows_per_s: float = 0
    mask_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class RangeRows:
    """What a range holds. ``kept``: digests of the rows that were asked for, ``values`` the first
    of these rows."""

    kept: Digests
    values: pa.Table | None


def read_ranges(tasks: list[RangeTask]) -> list[RangeRows | SparkReplError]:
    """Ranges one after the other, over one connection: as many lists, as many connections."""
    done: list[RangeRows | SparkReplError] = []
    with _Line() as line:
        for task in tasks:
            try:
                done.append(patiently(task.source, partial(line.read, task)))
            except SparkReplError as error:
                done.append(error.at(table=task.definition.name))
    return done


class _Line:
    """A connection, until a reading fails: then the next one has a new one."""

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
    logged, key = definition.in_log, definition.primary_key
    statement = f"SELECT {select_list(logged)} FROM {full_name(logged)} {task.where}"
    stream, began = begin_query(connection, statement), time.monotonic()
    parts, values, rows = [np.zeros((2, 0), np.uint64)], list[pa.Table](), 0
    for columns in read_rows(stream, len(logged.columns)):
        read = copied_rows(definition, columns, task.zero_dates, task.mask_key)
        made = digests([one_chunk(column) for column in read.columns], key)
        rows += made.shape[1]
        if task.keep is not None:
            wanted = np.isin(made[0], task.keep)
            made = made[:, wanted]
            if wanted.any() and sum(part.num_rows for part in values) < SHOWN:
                part = read.filter(pa.array(wanted))
                values.append(part.slice(0, SHOWN))
        parts.append(made)
        if task.rows_per_s:
            time.sleep(max(0.0, began + rows / task.rows_per_s - time.monotonic()))
    kept = np.concatenate(parts, axis=1)
    if task.out:
        save(task.out, np.ascontiguousarray(kept[:, np.argsort(kept[0])]))
        kept = kept[:, :0]
    return RangeRows(kept, pa.concat_tables(values) if values else None)

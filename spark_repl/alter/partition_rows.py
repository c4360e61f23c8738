"""PartitionRows: the rows of a table that are in some of its partitions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import StatementError
from ..sql.partition_axis import Axis
from ..tables.column import DATE_TYPES

if TYPE_CHECKING:
    import pyarrow as pa

    from ..tables.partitioning import Partitioning
    from ..tables.source_table import SourceTable

Bools = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]

_NOWHERE = -1
_ASTRAY = "a row is in none of the partitions that are known"


@dataclass(frozen=True)
class PartitionRows:
    """The rows of some partitions.
    ``chosen``: numbers of the partitions. ``columns``: numbers of the partitioning columns;
    ``axes`` maps their values to numbers. ``all_rows``: the table has no other rows. ``no_nulls``:
    a NULL date may stand for a zero or impossible date (zero_dates = "null")."""

    verb: str
    partitioning: Partitioning
    chosen: frozenset[int]
    columns: tuple[int, ...] = ()
    axes: tuple[Axis, ...] = ()
    all_rows: bool = False
    no_nulls: bool = False

    @classmethod
    def of(
        cls, verb: str, definition: SourceTable, partitioning: Partitioning, names: set[str]
    ) -> PartitionRows:
        """Return the rows of the partitions ``names``, in lower case. Raise StatementError if their
        rows are not known."""
        partitions = partitioning.partitions
        numbers = [n for n, part in enumerate(partitions) if part.name.lower() in names]
        missing = names - {partitions[number].name.lower() for number in numbers}
        if missing:
            raise StatementError(f"there is no partition {', '.join(sorted(missing))}")
        places = [column.name.lower() for column in definition.columns]
        columns = tuple(places.index(name.lower()) for name in partitioning.columns)
        axes = tuple(
            Axis.of(
                definition.columns[column],
                partitioning.function,
                partitioning.kind,
                [values[at] for partition in partitions for values in partition.values],
            )
            for at, column in enumerate(columns)
        )
        rows = cls(verb, partitioning, frozenset(numbers), columns, axes)
        _ = rows._placed
        return rows

    def of_rows(self, arrays: Sequence[pa.Array], count: int) -> Bools:
        """Return which of ``count`` rows are in the partitions. ``arrays`` has the values of each
        of ``columns``. Raise StatementError for a row whose partition is not known."""
        if self.all_rows:
            return np.ones(count, bool)
        for axis, values in zip(self.axes, arrays, strict=True):
            if self.no_nulls and axis.column.type in DATE_TYPES and values.null_count:
                raise StatementError(
                    f"a NULL in column {axis.column.name} may be a date that no calendar has"
                    ' (target.zero_dates = "null"): in which partition it is is not known'
                )
        numbers = self._numbers(arrays, count)
        if (numbers == _NOWHERE).any():
            raise StatementError(_ASTRAY)
        return np.isin(numbers, list(self.chosen))

    def of_range(self, bounds: pa.Array, *, nulls: bool) -> bool | None:
        """Return True if all rows with values between two ``bounds`` [2] are in the partitions,
        False if no such row is, and None if some may be. ``nulls``: whether there are also rows
        with NULL. Only for a table that is partitioned by one column."""
        (axis,) = self.axes
        if not axis.is_monotone or (nulls and self.no_nulls):
            return None
        numbers, _ = axis.places(bounds)
        partitions = self._between(int(numbers[0]), int(numbers[1]))
        if nulls:
            partitions.add(self._of_null)
        if _NOWHERE in partitions or not partitions:
            return None
        return True if partitions <= self.chosen else None if partitions & self.chosen else False

    @cached_property
    def _placed(self) -> list[list[tuple[int | None, ...]]]:
        """Return the partitions' values as numbers: [partitions, values, columns]."""
        return [
            [
                tuple(
                    None if value is None else axis.place(value)
                    for axis, value in zip(self.axes, values, strict=True)
                )
                for values in partition.values
            ]
            for partition in self.partitioning.partitions
        ]

    @property
    def _is_range(self) -> bool:
        return self.partitioning.kind == "RANGE"

    def _between(self, low: int, high: int) -> set[int]:
        if self._is_range:
            bounds = self._bounds
            first, last = bisect_right(bounds, low), bisect_right(bounds, high)
            if last == len(self.partitioning.partitions):
                return {_NOWHERE}
            return set(range(first, last + 1))
        places, partitions = self._listed
        first, last = bisect_left(places, low), bisect_right(places, high)
        return set(partitions[first:last])

    @cached_property
    def _of_null(self) -> int:
        if self._is_range:
            return 0
        numbers = [n for n, values in enumerate(self._placed) if (None,) in values]
        return numbers[0] if numbers else _NOWHERE

    @cached_property
    def _bounds(self) -> list[int]:
        """Return the bounds of partitions by RANGE of one column, ascending, without MAXVALUE."""
        return [bound for ((bound,),) in self._placed if bound is not None]

    @cached_property
    def _listed(self) -> tuple[list[int], list[int]]:
        """Return the values of LIST of one column, ascending, and the partition of each."""
        pairs = sorted(
            (value, number)
            for number, values in enumerate(self._placed)
            for (value,) in values
            if value is not None
        )
        return [value for value, _ in pairs], [number for _, number in pairs]

    def _numbers(self, arrays: Sequence[pa.Array], count: int) -> Longs:
        """Return the partition of each row."""
        columns = [axis.places(values) for axis, values in zip(self.axes, arrays, strict=True)]
        numbers = np.full(count, _NOWHERE, np.int64)
        if len(columns) > 1:
            (self._by_bounds if self._is_range else self._by_tuples)(columns, numbers)
            return numbers
        values, missing = columns[0]
        if self._is_range:
            numbers[:] = np.searchsorted(np.array(self._bounds, np.int64), values, "right")
            numbers[numbers == len(self.partitioning.partitions)] = _NOWHERE
        else:
            places, partitions = (np.array(part, np.int64) for part in self._listed)
            if len(places):
                at = np.minimum(np.searchsorted(places, values), len(places) - 1)
                numbers = np.where(places[at] == values, partitions[at], _NOWHERE)
        numbers[missing] = self._of_null
        return numbers

    def _by_bounds(self, columns: Sequence[tuple[Longs, Bools]], numbers: Longs) -> None:
        """Find partitions by RANGE of several columns: NULL is less than any value, MAXVALUE
        greater."""
        for number, (bound,) in enumerate(self._placed):
            less, equal = np.zeros(len(numbers), bool), np.ones(len(numbers), bool)
            for (values, missing), limit in zip(columns, bound, strict=True):
                if limit is None:
                    less |= equal
                    break
                less |= equal & (missing | (values < limit))
                equal &= values == limit
            numbers[less & (numbers == _NOWHERE)] = number

    def _by_tuples(self, columns: Sequence[tuple[Longs, Bools]], numbers: Longs) -> None:
        """Find partitions by LIST of several columns."""
        for number, listed in enumerate(self._placed):
            for wanted in listed:
                same = np.ones(len(numbers), bool)
                for (values, missing), value in zip(columns, wanted, strict=True):
                    same &= missing if value is None else ~missing & (values == value)
                numbers[same] = number

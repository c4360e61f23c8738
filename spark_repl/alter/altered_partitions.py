"""A table's partitions behind ALTER TABLE, and which rows go with those that it drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import StatementError
from ..sql.actions import ChangePartitions, PartitionBy
from ..tables.partitioning import Partition, Partitioning
from .partition_rows import PartitionRows

if TYPE_CHECKING:
    from ..sql.actions import Action
    from ..tables.partitioning import Value
    from ..tables.table_definition import TableDefinition
    from .column_actions import Entry

_LOST = "\0"  # no partition has such a name
_NOT_KNOWN = "the table's partitions are not known"


@dataclass(frozen=True, slots=True)
class PartitionsAfter:
    """``gone``: the rows that go; ``reason``: why these are not known, or ''."""

    partitioning: Partitioning | None
    gone: PartitionRows | None = None
    reason: str = ""


def altered_partitions(
    definition: TableDefinition, actions: Sequence[Action], entries: Sequence[Entry]
) -> PartitionsAfter:
    """The partitions of ``definition`` behind ``actions``; ``entries``: its columns then."""
    now = _followed(definition.partitioning, definition, entries)
    gone, reason = None, ""
    for action in actions:
        if isinstance(action, PartitionBy):
            now = action.partitioning
        elif isinstance(action, ChangePartitions):
            if action.reason:
                try:
                    gone = _gone(action, definition, now, alone=len(actions) == 1)
                except StatementError as error:
                    reason = f"{action.reason}: {error.message}"
            now = _changed(now, action)
    return PartitionsAfter(now, gone, reason)


def _followed(
    before: Partitioning | None, definition: TableDefinition, entries: Sequence[Entry]
) -> Partitioning | None:
    """The same where columns have other names."""
    if before is None or before.unknown:
        return before
    names = {
        definition.columns[entry.number].name.lower(): entry.name
        for entry in entries
        if entry.number >= 0
    }
    columns = [names.get(name.lower()) for name in before.columns]
    if None in columns:
        return Partitioning(unknown="a column is gone by which the table was partitioned")
    return replace(before, columns=tuple(name for name in columns if name))


def _gone(
    action: ChangePartitions, definition: TableDefinition, now: Partitioning | None, *, alone: bool
) -> PartitionRows | None:
    """Raises StatementError where the rows are not known."""
    if not alone:
        raise StatementError("other actions are beside it")
    if action.verb == "TRUNCATE" and not action.names:
        return PartitionRows(action.verb, Partitioning(), frozenset(), all_rows=True)
    if now is None or now.unknown:
        raise StatementError(now.unknown if now else _NOT_KNOWN)
    if action.verb == "REORGANIZE":
        return _listed_no_more(action, definition, now)
    return PartitionRows.of(action.verb, definition, now, {n.lower() for n in action.names})


def _listed_no_more(
    action: ChangePartitions, definition: TableDefinition, now: Partitioning
) -> PartitionRows | None:
    """The rows of values that REORGANIZE PARTITION of LIST leaves out; None: it leaves out none."""
    if action.unknown:
        raise StatementError(action.unknown)
    names = {name.lower() for name in action.names}
    before = [part for part in now.partitions if part.name.lower() in names]
    others = [part for part in now.partitions if part.name.lower() not in names]
    after = replace(now, partitions=tuple(action.into))
    kept = PartitionRows.of(action.verb, definition, after, set()).places
    placed = PartitionRows.of(
        action.verb, definition, replace(now, partitions=tuple(before)), set()
    )
    values = dict(zip(placed.places, (v for part in before for v in part.values), strict=True))
    lost = [value for place, value in values.items() if place not in kept]
    if not lost:
        return None
    if (None,) in lost:  # of LIST (c) they stay, of LIST COLUMNS (c) they go (seen on 9.7.4)
        raise StatementError("NULL is listed no more: whether such rows stay is not known")
    if {_folded(value) for value in lost} & {_folded(v) for p in action.into for v in p.values}:
        raise StatementError("texts differ in case or spaces, of which a collation decides")
    left = Partition("", tuple(value for place, value in values.items() if place in kept))
    rows = (*others, left, Partition(_LOST, tuple(lost)))
    return PartitionRows.of(action.verb, definition, replace(now, partitions=rows), {_LOST})


def _folded(values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(v.rstrip(" ").lower() if isinstance(v, str) else v for v in values)


def _changed(before: Partitioning | None, action: ChangePartitions) -> Partitioning | None:
    if before is None or before.unknown or action.verb in ("TRUNCATE", "EXCHANGE"):
        return before
    if action.unknown:
        return Partitioning(unknown=action.unknown)
    names = {name.lower() for name in action.names}
    there = {partition.name.lower(): partition for partition in before.partitions}
    come = {partition.name.lower(): partition for partition in action.into}
    known = all(there.get(name) == partition for name, partition in come.items())
    if come and known and (names - set(come)).isdisjoint(there):
        return before  # a copy was read behind it
    left = [partition for partition in before.partitions if partition.name.lower() not in names]
    if not names <= set(there) or any(partition.name.lower() in come for partition in left):
        listed = ", ".join(sorted((names - set(there)) | set(come)))
        return Partitioning(unknown=f"{action.verb} PARTITION does not fit what is known: {listed}")
    at = min((n for n, p in enumerate(before.partitions) if p.name.lower() in names), default=None)
    return replace(before, partitions=_put(left, at, action.into))


def _put(
    left: Sequence[Partition], at: int | None, into: Sequence[Partition]
) -> tuple[Partition, ...]:
    """The partitions with others at a place, or at their end."""
    place = len(left) if at is None else at
    return (*left[:place], *into, *left[place:])

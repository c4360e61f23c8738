"""A table's partitions after ALTER TABLE, and the rows that leave with dropped partitions."""

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
    from ..tables.source_table import SourceTable
    from .column_actions import PendingColumn

_NOT_KNOWN = "the table's partitions are not known"
_NOT_LOGGED = "the log does not contain them"


@dataclass(frozen=True, slots=True)
class PartitionsAfter:
    """Partitions after a statement. ``gone``: the rows that the statement removes. ``reason``: why
    the log does not show what happens to the rows, or ''."""

    partitioning: Partitioning | None
    gone: PartitionRows | None = None
    reason: str = ""


def altered_partitions(
    definition: SourceTable, actions: Sequence[Action], entries: Sequence[PendingColumn]
) -> PartitionsAfter:
    """Return the partitions of ``definition`` after ``actions``. ``entries``: the columns after
    them."""
    now = _with_new_names(definition.partitioning, definition, entries)
    gone, reason = None, ""
    for action in actions:
        if isinstance(action, PartitionBy):
            now = action.partitioning
        elif isinstance(action, ChangePartitions):
            after = _changed(now, action)
            if action.reason:
                try:
                    gone = _gone(action, definition, now, after, alone=len(actions) == 1)
                except StatementError as error:
                    reason = f"{action.reason}: {error.message}"
            now = after
    return PartitionsAfter(now, gone, reason)


def _with_new_names(
    before: Partitioning | None, definition: SourceTable, entries: Sequence[PendingColumn]
) -> Partitioning | None:
    """Return the partitioning with the names that its columns have in ``entries``."""
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
    action: ChangePartitions,
    definition: SourceTable,
    now: Partitioning | None,
    after: Partitioning | None,
    *,
    alone: bool,
) -> PartitionRows | None:
    """Return the rows that the action removes; None: it removes none. ``after``: the partitions
    after it. Raise StatementError if the rows are not known."""
    if not alone:
        raise StatementError("other actions are beside it")
    if action.verb == "TRUNCATE" and not action.names:
        return PartitionRows(action.verb, Partitioning(), frozenset(), all_rows=True)
    if action.verb == "EXCHANGE":
        raise StatementError(_NOT_LOGGED)
    if now is None or now.unknown:
        raise StatementError(now.unknown if now else _NOT_KNOWN)
    if action.verb == "REORGANIZE":
        _check_all_listed(now, after)
        return None
    return PartitionRows.of(action.verb, definition, now, {n.lower() for n in action.names})


def _check_all_listed(now: Partitioning, after: Partitioning | None) -> None:
    """Raise StatementError unless REORGANIZE lists each value of LIST again, written alike: the
    server deletes the rows of other values."""
    if after is None or after.unknown:
        raise StatementError(after.unknown if after else _NOT_KNOWN)
    if not _values(now) <= _values(after):
        raise StatementError(_NOT_LOGGED)


def _values(partitioning: Partitioning) -> set[tuple[Value, ...]]:
    return {values for partition in partitioning.partitions for values in partition.values}


def _changed(before: Partitioning | None, action: ChangePartitions) -> Partitioning | None:
    """Return the partitions after the action."""
    if before is None or before.unknown or action.verb in ("TRUNCATE", "EXCHANGE"):
        return before
    if action.unknown:
        return Partitioning(unknown=action.unknown)
    names = {name.lower() for name in action.names}
    existing = {partition.name.lower(): partition for partition in before.partitions}
    new = {partition.name.lower(): partition for partition in action.into}
    has_new = all(existing.get(name) == partition for name, partition in new.items())
    if new and has_new and (names - set(new)).isdisjoint(existing):
        return before  # a copy was read after the statement
    remaining = [
        partition for partition in before.partitions if partition.name.lower() not in names
    ]
    if not names <= set(existing) or any(partition.name.lower() in new for partition in remaining):
        listed = ", ".join(sorted((names - set(existing)) | set(new)))
        return Partitioning(unknown=f"{action.verb} PARTITION does not fit what is known: {listed}")
    at = min((n for n, p in enumerate(before.partitions) if p.name.lower() in names), default=None)
    return replace(before, partitions=_insert(remaining, at, action.into))


def _insert(
    remaining: Sequence[Partition], at: int | None, new: Sequence[Partition]
) -> tuple[Partition, ...]:
    """Return ``remaining`` with ``new`` before number ``at``; None: at their end."""
    place = len(remaining) if at is None else at
    return (*remaining[:place], *new, *remaining[place:])

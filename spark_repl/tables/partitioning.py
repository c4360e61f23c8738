"""Partitioning: a table's PARTITION BY, as far as it determines which rows a partition has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Value = int | str | None
"""a bound, or a listed value; None: MAXVALUE of RANGE, NULL of LIST"""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition. ``values`` [..., columns]: for RANGE the upper bound, which belongs to the
    next partition; for LIST each listed value."""

    name: str
    values: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A table's partitions.

    ``kind``: RANGE or LIST, also for COLUMNS. ``function``: applied to the one column before it is
    compared (TO_DAYS), or ''. ``partitions`` in their order. ``unknown``: why the partition of a
    row can't be determined; the other fields are then empty.
    """

    kind: str = ""
    columns: tuple[str, ...] = ()
    function: str = ""
    partitions: tuple[Partition, ...] = ()
    unknown: str = ""


def partitioning_of(listed: dict[str, Any] | None) -> Partitioning | None:
    """Return the partitioning from its form in JSON or ``asdict``."""
    if listed is None:
        return None
    partitions = (
        Partition(p["name"], tuple(tuple(values) for values in p["values"]))
        for p in listed["partitions"]
    )
    return Partitioning(
        listed["kind"], tuple(listed["columns"]), listed["function"], tuple(partitions),
        listed["unknown"],
    )  # fmt: skip

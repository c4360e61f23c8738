"""Partitioning: PARTITION BY of a table, as far as it can be told which rows a partition has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Value = int | str | None
"""a bound, or a listed value; None: MAXVALUE of RANGE, NULL of LIST"""


@dataclass(frozen=True, slots=True)
class Partition:
    """``values`` [..., columns]: of RANGE the upper bound, which is in the next partition; of LIST
    each value that is listed."""

    name: str
    values: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """``kind``: RANGE or LIST, also of COLUMNS; ``function``: what is made of the one column before
    it is compared (TO_DAYS), or ''. ``partitions`` in their order. ``unknown``: why it can't be
    told which rows are in which partition; then there is nothing else."""

    kind: str = ""
    columns: tuple[str, ...] = ()
    function: str = ""
    partitions: tuple[Partition, ...] = ()
    unknown: str = ""


def partitioning_of(listed: dict[str, Any] | None) -> Partitioning | None:
    """The partitioning of what ``asdict`` and JSON have made of it."""
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

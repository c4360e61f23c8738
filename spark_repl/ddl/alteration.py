"""What a table becomes by one statement, and where each of its columns then comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..binlog.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class Kept:
    """The column ``number`` of the table before, converted where the type is another one.
    ``written``: whether the statement says its type."""

    number: int
    written: bool = False


@dataclass(frozen=True, slots=True)
class Filled:
    """A new column; rows that are there get ``default``, as ``Column.default`` has it."""

    default: str


@dataclass(frozen=True, slots=True)
class Now:
    """A new column; rows that are there get the moment of the statement (CURRENT_TIMESTAMP)."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A column whose values for rows that are there the log does not say, and why."""

    reason: str


Origin = Kept | Filled | Now | Unknown


@dataclass(frozen=True, slots=True)
class Altered:
    """``origins`` [columns of ``definition``]. ``rows_go``: what becomes of the rows is not known
    from the log, and why (DROP PARTITION); '' where all stay."""

    definition: TableDefinition
    origins: tuple[Origin, ...]
    rows_go: str = ""
    numbered: tuple[str, ...] = ()
    """columns that were there and have AUTO_INCREMENT now: a 0 in them became a number that the log
    does not say (not with the sql_mode NO_AUTO_VALUE_ON_ZERO)"""

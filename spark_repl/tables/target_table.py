"""TargetTable: a table of the target, which is a table of the source and a projection of its rows.

The user's rules and the statements' policies define the projection:

- ``withheld`` columns, which the target lacks;
- a ``row_filter``, and a ``mode`` that keeps other rows than the source has;
- columns that have a ``mask``, a wider type than the log's rows (``logged``), or no counterpart on
  the source: they are ``kept`` after the source has dropped them, or ``extra``.

The control table and the tables' own commits record a definition as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from .column import Column, column_of
from .partitioning import partitioning_of
from .source_table import SourceTable
from .table_definition import TableDefinition
from .table_keys import foreign_keys_of, plain_of, unique_of

_COMMON = tuple(common.name for common in fields(TableDefinition))
APPEND, CHANGELOG, HISTORY = "append", "changelog", "history"
OF_IMAGES = (CHANGELOG, HISTORY)
"""modes that keep each row image, without folding several into one"""


@dataclass(frozen=True)
class TargetTable(TableDefinition):
    """A table with the columns of the target's rows. ``primary_key``: the columns that identify a
    row of the target. In modes other than mirror it is empty, because several rows may have the
    same key."""

    withheld: tuple[tuple[int, Column], ...] = ()
    """columns that only the source has, with their numbers on the source, ascending"""
    row_filter: str = ""
    """over the source's columns: the target has only the rows for which it is true; '': all"""
    mode: str = ""
    """which rows the target has (``rules.table_mode``); '': a mirror of the source's rows"""
    logged_key: tuple[int, ...] = ()
    """the source's key, where it does not identify the target's rows"""

    @classmethod
    def mirror_of(cls, source: SourceTable) -> TargetTable:
        """Return a target's table with the rows and columns of ``source``."""
        return cls(**{name: getattr(source, name) for name in _COMMON})

    @classmethod
    def from_json(cls, text: str) -> TargetTable:
        recorded: dict[str, Any] = json.loads(text)
        return cls(
            database=recorded["database"],
            table=recorded["table"],
            columns=tuple(map(column_of, recorded["columns"])),
            primary_key=tuple(recorded["primary_key"]),
            foreign_keys=foreign_keys_of(recorded.get("foreign_keys")),
            has_primary=recorded.get("has_primary"),
            unique=unique_of(recorded.get("unique")),
            charset=recorded.get("charset", ""),
            indexes=plain_of(recorded.get("indexes")),
            dropped=recorded.get("dropped", False),
            truncated=recorded.get("truncated", False),
            partitioning=partitioning_of(recorded.get("partitioning")),
            source_name=recorded.get("source_name", ""),
            gone=tuple(recorded.get("gone", ())),
            rowless=recorded.get("rowless", False),
            engine=recorded.get("engine", ""),
            comment=recorded.get("comment", ""),
            withheld=tuple(
                (number, column_of(column)) for number, column in recorded.get("withheld", ())
            ),
            row_filter=recorded.get("row_filter", ""),
            mode=recorded.get("mode", ""),
            logged_key=tuple(recorded.get("logged_key", ())),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle. Leave out the source of a mirror, because the worker that
        writes the table rarely needs it."""
        state = dict(self.__dict__)
        if self.is_mirror:
            state.pop("source", None)
        return state

    # The source's table

    @cached_property
    def is_mirror(self) -> bool:
        """Return whether the target has exactly the rows and columns of the source's table. It is
        also true if the source has dropped or truncated the table since then."""
        plain = not any(column.kept or column.logged for column in self.columns)
        return plain and not (self.withheld or self.row_filter or self.mode)

    @cached_property
    def source(self) -> SourceTable:
        """Return the table in the form of the source and of the log's rows."""
        common = {name: getattr(self, name) for name in _COMMON}
        if not self.is_mirror:
            common["columns"] = self.source_columns
            common["primary_key"] = tuple(map(self.numbers.index, self.source_key))
        return SourceTable(**common)

    @property
    def is_shaped(self) -> bool:
        """Return whether a rule gave the table rows or columns that differ from the source's."""
        shaped = self.hides_columns or self.filters_rows or self.appends
        return shaped or bool(self.extra_columns)

    @property
    def source_columns(self) -> tuple[Column, ...]:
        """Return the columns of the log's rows."""
        columns = [column.as_logged for column in self.columns if not column.kept]
        for number, column in self.withheld:
            columns.insert(number, column)
        return tuple(columns)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Return for each column of the log's rows its number in the target, or -1 if the target
        lacks the column."""
        numbers = [number for number, column in enumerate(self.columns) if not column.kept]
        for number, _ in self.withheld:
            numbers.insert(number, -1)
        return tuple(numbers)

    def with_source_columns(self, columns: tuple[Column, ...]) -> TargetTable:
        """Return the table for rows of the log with ``columns`` in place of the current ones. Wider
        and masked columns of the target stay, and so do kept and extra ones."""
        own, withheld = list(self.columns), dict(self.withheld)
        for place, (number, column) in enumerate(zip(self.numbers, columns, strict=True)):
            if number < 0:
                withheld[place] = column
            elif own[number].logged:
                own[number] = replace(own[number], logged=column)
            else:
                own[number] = column
        return replace(self, columns=tuple(own), withheld=tuple(sorted(withheld.items())))

    def with_each_column(self, change: Callable[[Column], Column]) -> TargetTable:
        """Return the table with ``change`` applied to each column, of the target and of the
        source."""

        def changed(column: Column) -> Column:
            logged = column.logged
            return change(replace(column, logged=change(logged)) if logged else column)

        withheld = tuple((number, changed(column)) for number, column in self.withheld)
        return replace(self, columns=tuple(map(changed, self.columns)), withheld=withheld)

    # Keys

    @property
    def source_key(self) -> tuple[int, ...]:
        """Return the source's key, in numbers of the target's columns."""
        return self.logged_key or self.primary_key

    @property
    def lookup_key(self) -> tuple[int, ...]:
        """Return the key by which the target's rows are looked up; empty: by all columns. It is
        ``primary_key``. In mode history it is the source's key, which several versions of a row
        may have."""
        return self.logged_key if self.mode == HISTORY else self.primary_key

    def with_source_key(self, key: tuple[int, ...]) -> TargetTable:
        """Return the table with another key, in numbers of the columns of the log's rows."""
        own = tuple(self.numbers[number] for number in key)
        return replace(self, logged_key=own) if self.mode else replace(self, primary_key=own)

    # Withheld and masked columns

    @property
    def hides_columns(self) -> bool:
        """Return whether columns are withheld or masked."""
        return bool(self.withheld) or any(column.mask for column in self.columns)

    @property
    def hidden_columns(self) -> tuple[str, ...]:
        """Return the names of the columns whose values must not be shown."""
        withheld = [column.name for _, column in self.withheld]
        masked = [c.logged.name for c in self.columns if c.mask and c.logged]
        return (*withheld, *masked)

    @property
    def shown_columns(self) -> list[tuple[str, str]]:
        """Return (name, mask) of the source's columns that the target has, in order."""
        return [(column.name, column.mask) for column in self.columns if not column.kept]

    @property
    def masks_key(self) -> bool:
        """Return whether columns of the source's key are masked."""
        return any(self.columns[number].mask for number in self.source_key)

    @property
    def masks_order(self) -> bool:
        """Return whether the key's first column is masked. In that case a range of the source's
        rows is not a range of the target's rows, and bounds of ranges must not be recorded."""
        key = self.source_key
        return bool(key) and bool(self.columns[key[0]].mask)

    # Filtered rows

    @property
    def filters_rows(self) -> bool:
        """Return whether the target has only the rows that pass a row filter."""
        return bool(self.row_filter)

    @property
    def is_separated_by_filter(self) -> bool:
        """Return whether row filters separate the table's rows from other channels' rows in the
        Delta table."""
        return self.is_shard and self.filters_rows

    # Extra columns

    @property
    def extra_columns(self) -> Mapping[str, int]:
        """Return the numbers of the extra columns, by their entries of ``extra_columns``."""
        return {column.extra: i for i, column in enumerate(self.columns) if column.extra}

    @property
    def without_extra(self) -> TargetTable:
        """Return the table without extra columns."""
        plain = tuple(column for column in self.columns if not column.extra)
        return self if len(plain) == len(self.columns) else replace(self, columns=plain)

    @property
    def shard_column(self) -> int:
        """Return the number of the column that separates the table's rows from those of other
        tables in one Delta table; -1 if no other table shares the Delta table."""
        return self.extra_columns.get("shard", -1)

    @property
    def is_shard(self) -> bool:
        """Return whether the table is in one Delta table with others."""
        return self.shard_column >= 0

    @property
    def deleted_column(self) -> int:
        """Return the number of the column that marks deleted rows. Return -1 if there is none, so
        that deleted rows are removed."""
        return self.extra_columns.get("deleted", -1)

    @property
    def current_column(self) -> int:
        """Return the number of the column that is true in the newest version of a row; -1 if each
        row has one version."""
        return self.extra_columns.get("current", -1)

    # Rows that the source lacks

    @property
    def keeps_deleted(self) -> bool:
        """Return whether rows that the source deletes stay, with a mark."""
        return self.deleted_column >= 0

    @property
    def appends(self) -> bool:
        """Return whether the table's rows stay, regardless of later changes on the source."""
        return bool(self.mode)

    @property
    def keeps_images(self) -> bool:
        """Return whether each row image of the log is kept, without folding several into one."""
        return self.mode in OF_IMAGES

    @property
    def logs_changes(self) -> bool:
        """Return whether each row image of the log becomes a row."""
        return self.mode == CHANGELOG

    @property
    def has_versions(self) -> bool:
        """Return whether each version of a row becomes a row."""
        return self.mode == HISTORY

    @property
    def outlives_source(self) -> bool:
        """Return whether the target's table keeps rows that the source has deleted. A copy lacks
        these rows."""
        return self.appends or self.keeps_deleted

    @property
    def keeps_more(self) -> bool:
        """Return whether the target's table has, or may have, rows or columns that the source no
        longer has. A copy of the source's table lacks them."""
        left = self.dropped or self.truncated or any(column.kept for column in self.columns)
        return left or self.outlives_source

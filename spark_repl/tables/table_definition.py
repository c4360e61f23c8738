"""TableDefinition: a table as the applier knows it, from TABLE_MAP events, statements and rules.

It holds what the source declares (columns, keys, partitions), and what the user's rules change in
the target: columns that the target lacks (``withheld``), a row filter, a mode. ``in_log`` is the
table as the log's rows have it. The control table and the tables' own commits record it as JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from ..errors import DecodeError
from .column import Column, column_of
from .partitioning import Partitioning, partitioning_of
from .table_keys import (
    ForeignKey,
    PlainIndex,
    UniqueIndex,
    foreign_keys_of,
    plain_of,
    unique_of,
)
from .table_name import table_name

_LATER = ("gone", "rowless", "engine")
"""fields of TableDefinition that are written only where they have a value"""


@dataclass(frozen=True)
class TableDefinition:
    """A table as one TABLE_MAP describes it; ``primary_key`` holds column indexes in key order: in
    a table without PRIMARY KEY those of the UNIQUE index that the server logs in its place."""

    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[int, ...]
    foreign_keys: tuple[ForeignKey, ...] | None = field(default=None, compare=False)
    """None: not known, as a TABLE_MAP does not say"""
    has_primary: bool | None = field(default=None, compare=False)
    """whether ``primary_key`` is a PRIMARY KEY; None: not known, as a TABLE_MAP does not say"""
    unique: tuple[UniqueIndex, ...] | None = field(default=None, compare=False)
    """in the order of the table; None: not known"""
    charset: str = field(default="", compare=False)
    """the table's default character set or collation; '': not known"""
    indexes: tuple[PlainIndex, ...] | None = field(default=None, compare=False)
    """those that are not unique; None: not known"""
    dropped: bool = field(default=False, compare=False)
    """whether the source has dropped the table, which the target keeps"""
    truncated: bool = field(default=False, compare=False)
    """whether the target keeps rows that the source has removed by TRUNCATE"""
    partitioning: Partitioning | None = field(default=None, compare=False)
    """None: there are no partitions, or nothing is known of them"""
    source_name: str = field(default="", compare=False)
    """db.table on the source, where the target has it under another name"""
    withheld: tuple[tuple[int, Column], ...] = ()
    """columns that the source alone has, by their numbers there, ascending"""
    row_filter: str = ""
    """over the source's columns: the target has the rows alone for which it is true; '': all"""
    mode: str = ""
    """what the target has of the rows (``rules.table_mode``); '': those of the source"""
    logged_key: tuple[int, ...] = ()
    """the source's key, where the target's rows are not told apart by it"""
    gone: tuple[str, ...] = field(default=(), compare=False)
    """columns of which a rule says something still, and which the source has dropped"""
    rowless: bool = field(default=False, compare=False)
    """whether the source's engine keeps no rows, whatever it logs of them (BLACKHOLE)"""
    engine: str = field(default="", compare=False)
    """in upper case, where a statement names another one than InnoDB"""

    @property
    def name(self) -> str:
        return table_name(self.database, self.table)

    @property
    def name_on_source(self) -> str:
        """Return the table's name on the source."""
        return self.source_name or self.name

    @cached_property
    def in_log(self) -> TableDefinition:
        """Return the table as the source and the log's rows have it; the target may have other
        columns or fewer rows."""
        columns = [c.logged or c for c in self.columns if not c.kept]
        for number, column in self.withheld:
            columns.insert(number, column)
        if tuple(columns) == self.columns and not self.row_filter and not self.mode:
            return self
        key = self.logged_key or self.primary_key
        return replace(
            self, columns=tuple(columns), primary_key=tuple(map(self.own.index, key)), withheld=(),
            row_filter="", mode="", logged_key=(),
        )  # fmt: skip

    @cached_property
    def own(self) -> tuple[int, ...]:
        """Return for each column of the log's rows its number here; -1 if the target lacks it."""
        own = [number for number, column in enumerate(self.columns) if not column.kept]
        for number, _ in self.withheld:
            own.insert(number, -1)
        return tuple(own)

    def with_logged_key(self, key: tuple[int, ...]) -> TableDefinition:
        """Return the table with another key, in numbers of the columns of the log's rows."""
        own = tuple(self.own[number] for number in key)
        return replace(self, logged_key=own) if self.mode else replace(self, primary_key=own)

    @property
    def sought_key(self) -> tuple[int, ...]:
        """Return the key by which the target's rows are looked up; empty: by all columns. It is
        ``primary_key``, or the source's key in mode "history", where several versions of a row may
        have it."""
        return self.logged_key if self.mode == "history" else self.primary_key

    def to_json(self) -> str:
        fields = {n: v for n, v in asdict(self).items() if n not in _LATER or v}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> TableDefinition:
        fields: dict[str, Any] = json.loads(text)
        columns = tuple(map(column_of, fields["columns"]))
        key = tuple(fields["primary_key"])
        keys = foreign_keys_of(fields.get("foreign_keys"))
        return cls(
            fields["database"], fields["table"], columns, key, keys,
            fields.get("has_primary"), unique_of(fields.get("unique")), fields.get("charset", ""),
            plain_of(fields.get("indexes")), fields.get("dropped", False),
            fields.get("truncated", False), partitioning_of(fields.get("partitioning")),
            fields.get("source_name", ""),
            tuple((number, column_of(column)) for number, column in fields.get("withheld", ())),
            fields.get("row_filter", ""), fields.get("mode", ""),
            tuple(fields.get("logged_key", ())), tuple(fields.get("gone", ())),
            fields.get("rowless", False), fields.get("engine", ""),
        )  # fmt: skip

    def arrow_schema(self) -> pa.Schema:
        """Return the schema of decoded batches. Raise DecodeError for a type that the target can't
        represent."""
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        fields = []
        for column in self.columns:
            arrow_type = column.arrow_type
            if arrow_type is None:
                raise DecodeError(
                    f"column {column.name} has type {column.type_name},"
                    " which this version does not decode",
                    table=self.name,
                    hint="leave the table out of replication, or change the column's type",
                )
            fields.append(pa.field(column.name, arrow_type, column.nullable))
        return pa.schema(fields)


LEFT_OUT = TableDefinition("", "", (), ())
"""Instead of what is known of a table: its rows are left out, and need no names of columns."""
UNREAD = TableDefinition("", "unread", (), ())
"""The same, and what the log says of its columns is not looked at either."""
SYSTEM_SCHEMAS = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
"""the server's own: their tables are neither copied nor applied"""

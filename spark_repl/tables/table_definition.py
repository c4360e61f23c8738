"""TableDefinition: the common part of definitions of a table: names, columns, keys, partitions.

There are two kinds, and no type is both. A ``SourceTable`` has the columns and the key of the log's
rows. A ``TargetTable`` has the columns and the key of the target's rows. Code that works with
either kind has a parameter of type ``TableDefinition``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from ..errors import DecodeError
from .table_name import table_name

if TYPE_CHECKING:
    from .column import Column
    from .partitioning import Partitioning
    from .table_keys import ForeignKey, PlainIndex, UniqueIndex

Definition = TypeVar("Definition", bound="TableDefinition")
"""either kind; a function with such a parameter returns the same kind"""

_RECORDED = (
    "database", "table", "columns", "primary_key", "foreign_keys", "has_primary", "unique",
    "charset", "indexes", "dropped", "truncated", "partitioning", "source_name", "withheld",
    "row_filter", "mode", "logged_key", "gone", "rowless", "engine", "comment",
)  # fmt: skip
"""fields of the JSON form, in their order; a digest of the form is on disk"""
_LATER = ("gone", "rowless", "engine", "comment")
"""fields, also of columns, that are recorded only where they have a value"""
_NO_PROJECTION = {"withheld": (), "row_filter": "", "mode": "", "logged_key": ()}
"""how a SourceTable is recorded"""


@dataclass(frozen=True)
class TableDefinition:
    """A table of a source, or of a target. ``primary_key``: column indexes in key order. If a table
    has no PRIMARY KEY, they are those of the UNIQUE index that the server logs in its place.

    The fields after ``primary_key`` are the source's declarations, also for a table of the target.
    """

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
    gone: tuple[str, ...] = field(default=(), compare=False)
    """columns that a rule still names, and that the source has dropped"""
    rowless: bool = field(default=False, compare=False)
    """whether the source's engine keeps no rows, whatever it logs of them (BLACKHOLE)"""
    engine: str = field(default="", compare=False)
    """in upper case, where a statement names another one than InnoDB"""
    comment: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return table_name(self.database, self.table)

    @property
    def name_on_source(self) -> str:
        """Return the table's name on the source."""
        return self.source_name or self.name

    def to_json(self) -> str:
        values = {**_NO_PROJECTION, **_recorded(self)}
        recorded = {name: values[name] for name in _RECORDED if name in values}
        return json.dumps(recorded, ensure_ascii=False, separators=(",", ":"), default=_recorded)

    def arrow_schema(self) -> pa.Schema:
        """Return the schema of decoded batches. Raise DecodeError for a type that the target can't
        represent."""
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        arrow_fields = []
        for column in self.columns:
            arrow_type = column.arrow_type
            if arrow_type is None:
                raise DecodeError(
                    f"column {column.name} has type {column.type_name},"
                    " which this version does not decode",
                    table=self.name,
                    hint="leave the table out of replication, or change the column's type",
                )
            arrow_fields.append(pa.field(column.name, arrow_type, column.nullable))
        return pa.schema(arrow_fields)


def _recorded(part: Any) -> dict[str, Any]:
    """Return the recorded fields of a definition, or of a part of one. ``asdict`` takes five times
    as long, because it copies the values."""
    values = ((field.name, getattr(part, field.name)) for field in fields(part))
    return {name: value for name, value in values if value or name not in _LATER}


SYSTEM_SCHEMAS = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
"""the server's own: their tables are neither copied nor applied"""

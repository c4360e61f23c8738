"""Planned tables: what a first copy will read, from the source's own estimates.

They read no row. ``survey`` makes them for ``init``, which shows them before anything is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..delta.files.delta_columns import delta_type
from ..tables.table_definition import SYSTEM_SCHEMAS
from ..tables.table_name import table_name

if TYPE_CHECKING:
    from ..tables.target_table import TargetTable
    from .source_tables import Query

_SYSTEM = ", ".join(f"'{name}'" for name in sorted(SYSTEM_SCHEMAS))
# A cold copy on two cores: docs/benchmarks.md.
ROWS_PER_S = 180_000
_BYTES_PER_S = 34_000_000
_START_S = 10.0


@dataclass(frozen=True)
class PlannedTable:
    """A table that a first copy reads. ``name``: on the source; ``rows`` and ``bytes``: estimates
    of the source; ``types``: MySQL's and Delta's type of each column of the target."""

    name: str
    rows: int
    bytes: int
    types: tuple[tuple[str, str], ...]


def planned_tables(query: Query, tables: Sequence[TargetTable]) -> tuple[PlannedTable, ...]:
    """Return the tables in the order of their names. Raise SourceError."""
    sizes = {
        table_name(str(database), str(table)): (int(rows), int(size))
        for database, table, rows, size in query(
            "SELECT table_schema, table_name, COALESCE(table_rows, 0), COALESCE(data_length, 0)"
            f" FROM information_schema.tables WHERE table_schema NOT IN ({_SYSTEM})"
        )
    }
    types = {
        (table_name(str(database), str(table)), str(column)): _text(kind)
        for database, table, column, kind in query(
            "SELECT table_schema, table_name, column_name, column_type FROM"
            f" information_schema.columns WHERE table_schema NOT IN ({_SYSTEM})"
        )
    }
    planned = [
        PlannedTable(
            table.name_on_source,
            *sizes.get(table.name_on_source, (0, 0)),
            tuple(
                (types.get((table.name_on_source, column.name), column.type_name.lower()), kind)
                for column in table.columns
                if (kind := _delta(column.arrow_type))
            ),
        )
        for table in tables
    ]
    return tuple(sorted(planned, key=lambda table: table.name))


def expected_s(tables: Sequence[PlannedTable]) -> float:
    """Return the expected seconds of the first copy, with the start of Spark."""
    rows, size = sum(table.rows for table in tables), sum(table.bytes for table in tables)
    return _START_S + max(rows / ROWS_PER_S, size / _BYTES_PER_S)


def _text(kind: object) -> str:
    text = kind.decode("utf-8", "replace") if isinstance(kind, bytes) else str(kind)
    return text.partition("(")[0] if text.startswith(("enum(", "set(")) else text


def _delta(arrow: object) -> str:
    """Return Delta's type in the words of SQL; '' for a type that the target can't store."""
    kind = delta_type(arrow) if arrow is not None else ""
    return kind["type"] if isinstance(kind, dict) else kind

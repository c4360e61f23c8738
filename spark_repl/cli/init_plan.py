"""Plan of the first copy, as ``init`` shows it, and what the engines that will read the tables
need."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..copy.planned_tables import ROWS_PER_S, expected_s
from ..errors import ConfigError
from ..observe.screen import columns
from .command_arguments import READERS

if TYPE_CHECKING:
    from ..copy.planned_tables import PlannedTable

# What an engine needs of new tables: docs/delta-features.md has the tests.
_NEEDS: dict[str, dict[str, bool]] = {
    "polars": {"target.column_mapping": False},
    "pandas": {"target.column_mapping": False, "target.deletion_vectors": False},
}
_TABLES_MAX = 20
_MINUTE_S, _HOUR_S = 60, 3600


def reader_values(readers: Sequence[str]) -> dict[str, bool]:
    """Return the keys of [target] with which all these engines read the tables. Raise ConfigError
    for an engine that was not tested."""
    if unknown := [name for name in readers if name not in READERS]:
        raise ConfigError(
            f"{unknown[0]!r} is no reader that was tested", hint=f"give one of {', '.join(READERS)}"
        )
    values: dict[str, bool] = {}
    for name in readers:
        values |= _NEEDS.get(name, {})
    return values


def names_in(text: str) -> list[str]:
    """Return the names of a typed list, which commas separate."""
    return [name for part in text.split(",") if (name := part.strip())]


def plan_fields(planned: Sequence[PlannedTable]) -> dict[str, Any]:
    """Return the plan as fields of a command's output."""
    return {
        "rows": sum(table.rows for table in planned),
        "seconds": round(expected_s(planned)),
        "plan": {
            table.name: {"rows": table.rows, "bytes": table.bytes, "types": dict(table.types)}
            for table in planned
        },
    }


def plan_lines(planned: Sequence[PlannedTable]) -> Iterator[str]:
    """Yield the lines of a plan: databases, the largest tables, types, and the expected time."""
    databases = defaultdict[str, list["PlannedTable"]](list)
    for table in planned:
        databases[table.name.partition(".")[0]].append(table)
    yield from columns(
        ("database", "tables", "rows", "size"),
        [(name, f"{len(own):,}", *_sums(own)) for name, own in sorted(databases.items())],
    )
    yield ""
    largest = sorted(planned, key=lambda table: (-table.bytes, -table.rows, table.name))
    yield from columns(
        ("table", "rows", "size", "columns"),
        [(one.name, *_sums([one]), f"{len(one.types):,}") for one in largest[:_TABLES_MAX]],
    )
    if len(largest) > _TABLES_MAX:
        yield f"and {len(largest) - _TABLES_MAX:,} smaller tables"
    yield ""
    kinds = Counter(kind for table in planned for kind in table.types)
    yield from columns(
        ("type", "in Delta", "columns"),
        [(*kind, f"{count:,}") for kind, count in sorted(kinds.items())],
    )
    yield ""
    yield (
        f"expected time of the copy: {_duration(expected_s(planned))}, at {ROWS_PER_S:,} rows/s as"
        " on two cores; rows and sizes are the source's estimates"
    )


def size_text(size: int) -> str:
    """Return an estimated size in bytes as text, in MB or GB."""
    if size < 1e6:
        return "less than 1 MB"
    return f"about {size / 1e6:.0f} MB" if size < 1e9 else f"about {size / 1e9:.1f} GB"


def _sums(tables: Sequence[PlannedTable]) -> tuple[str, str]:
    rows, size = sum(table.rows for table in tables), sum(table.bytes for table in tables)
    return f"{rows:,}", size_text(size)


def _duration(seconds: float) -> str:
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} minutes"
    return f"{seconds / _HOUR_S:.0f} hours"

"""StatementStatus: the last statements about tables and databases, and the outcome of each.

Statements about accounts, servers and programs are counted, and not listed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...control.table.row_formats import known_fields
from ...sql.redaction import is_about_tables
from .worker_status import now

_LAST = 20


@dataclass(frozen=True)
class StatementRow:
    """An applied statement. ``way``: a ``DdlOutcome``; ``gtid``: '' if it has none."""

    gtid: str
    way: str
    tables: str
    seconds: float
    statement: str
    at: str = field(default_factory=now)

    @property
    def is_about_tables(self) -> bool:
        return bool(self.tables) or is_about_tables(self.statement)


@dataclass(frozen=True)
class Rewrite:
    """A table whose data files a statement rewrites: ``done`` of ``files``."""

    table: str
    done: int
    files: int
    gtid: str


class StatementStatus:
    """The last statements. Not thread-safe: the caller holds a lock.

    ``last``: rows of an earlier run, kept until newer rows replace them; ``counts``: this run's
    statements by the way in which they were applied.
    """

    def __init__(self, last: Iterable[Mapping[str, Any]] = ()) -> None:
        rows = (StatementRow(**known_fields(StatementRow, row)) for row in last)
        self._last = deque((row for row in rows if row.is_about_tables), _LAST)
        self.counts: dict[str, int] = {}
        self.rewrite: Rewrite | None = None

    def applied(self, row: StatementRow) -> None:
        """Record a statement. A statement that is executed again is listed once."""
        if row.is_about_tables:
            earlier = [old for old in self._last if not row.gtid or old.gtid != row.gtid]
            self._last = deque([*earlier, row], _LAST)
        self.counts[row.way] = self.counts.get(row.way, 0) + 1
        self.rewrite = None

    def fields(self) -> dict[str, Any]:
        """Return the fields for the status file."""
        return {
            "last": [asdict(row) for row in self._last],
            "counts": dict(self.counts),
            "rewrite": asdict(self.rewrite) if self.rewrite else None,
        }


def shown_statements(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the statements of a status file, without those about accounts, which an earlier
    version listed."""
    if not fields:
        return StatementStatus().fields()
    return {**fields, "last": StatementStatus(fields["last"]).fields()["last"]}

"""StatementStatus: the last statements that changed tables, and which way each was taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .worker_status import now

_LAST = 20


@dataclass(frozen=True)
class StatementRow:
    """A statement that was applied. ``way``: a ``ddl.way.Way``; ``gtid``: its name, '' without."""

    gtid: str
    way: str
    tables: str
    seconds: float
    statement: str
    at: str = field(default_factory=now)


@dataclass(frozen=True)
class Rewrite:
    """A table whose data files are being written anew, ``done`` of ``files``."""

    table: str
    done: int
    files: int
    gtid: str


class StatementStatus:
    """``last``: rows of an earlier run, of which those stay that nothing pushes out; ``counts``:
    how many statements of this run went each way. Not thread-safe: its owner holds a lock."""

    def __init__(self, last: Iterable[Mapping[str, Any]] = ()) -> None:
        self._last = deque((StatementRow(**row) for row in last), _LAST)
        self.counts: dict[str, int] = {}
        self.rewrite: Rewrite | None = None

    def applied(self, row: StatementRow) -> None:
        """A statement is done; once in the list, also where it is carried out again."""
        others = [one for one in self._last if not row.gtid or one.gtid != row.gtid]
        self._last = deque([*others, row], _LAST)
        self.counts[row.way] = self.counts.get(row.way, 0) + 1
        self.rewrite = None

    def fields(self) -> dict[str, Any]:
        """What the status file has of it."""
        return {
            "last": [asdict(row) for row in self._last],
            "counts": dict(self.counts),
            "rewrite": asdict(self.rewrite) if self.rewrite else None,
        }

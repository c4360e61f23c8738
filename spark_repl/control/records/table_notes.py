"""Notes about single tables: which have sound statistics, and which another writer has changed.

Tables that the applier creates with sound statistics record this as a property; the others are
recorded here when they are checked. A table whose rows another writer has changed may have keys
that no log contains. From that version on the applier looks up each key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from ..table.row_formats import known_fields

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.control_rows import ControlRows

_STATISTICS = "statistics"


def record_checked(control: Control, versions: Mapping[str, int]) -> None:
    """Record, for each table by its path, the version from which on its statistics are correct.
    Raise as ``Control.write``."""
    control.write(_STATISTICS, detail=json.dumps({"tables": versions}))


def checked_versions(control: ControlRows) -> dict[str, int]:
    """Return the recorded versions by the tables' paths. Raise as ``ControlRows.rows``."""
    versions: dict[str, int] = {}
    for row in control.rows(_STATISTICS):
        versions |= json.loads(row["detail"])["tables"]
    return versions


_FOREIGN = "foreign"


@dataclass(frozen=True)
class ForeignChange:
    """A change by another writer. ``name``: the table; ``version``: the version that the writer
    committed."""

    name: str
    version: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        return cls(**known_fields(cls, json.loads(row["detail"])))


def record_foreign_change(control: Control, change: ForeignChange) -> None:
    """Record a change by another writer. Raise as ``Control.write``."""
    control.write(_FOREIGN, detail=json.dumps(asdict(change)))


def foreign_changes(control: Control) -> list[ForeignChange]:
    """Return the recorded changes by other writers. Raise as ``Control.rows``."""
    return [ForeignChange.of(row) for row in control.rows(_FOREIGN)]

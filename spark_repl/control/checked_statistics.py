"""CheckedStatistics: the record of which tables have data files with sound statistics, and from
which version of each table on. Tables that are created with sound ones say so by a property."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .control import Control
    from .control_rows import ControlRows

_KIND = "statistics"


def record_checked(control: Control, versions: Mapping[str, int]) -> None:
    """Record the version of each table, by its path, from which on its statistics are sound. Raises
    as ``Control.write``."""
    control.write(_KIND, detail=json.dumps({"tables": versions}))


def checked_versions(control: ControlRows) -> dict[str, int]:
    """Return the recorded versions by the tables' paths. Raises as ``ControlRows.rows``."""
    versions: dict[str, int] = {}
    for row in control.rows(_KIND):
        versions |= json.loads(row["detail"])["tables"]
    return versions

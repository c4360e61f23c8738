"""ForeignChange: somebody else has changed rows of a table, which may have keys then that no log
holds: from there on each key is looked up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from .row_formats import known_fields

if TYPE_CHECKING:
    from .control import Control

_KIND = "foreign"


@dataclass(frozen=True)
class ForeignChange:
    """``name``: the table's; ``version``: of theirs that was seen."""

    name: str
    version: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        return cls(**known_fields(cls, json.loads(row["detail"])))


def record(control: Control, change: ForeignChange) -> None:
    """Raises as ``Control.write``."""
    control.write(_KIND, detail=json.dumps(asdict(change)))


def foreign_changes(control: Control) -> list[ForeignChange]:
    return [ForeignChange.of(row) for row in control.rows(_KIND)]

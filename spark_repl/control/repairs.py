"""Repairs of single rows: what became of the last one that was asked for, a row of the control
table. Whoever asked reads it there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .control import Control

KIND = "repair"


@dataclass(frozen=True)
class Repair:
    """``asked``: the request that it answers; ``keys``: how many were named, ``rows``: how many of
    them the source has, which are in the table as it has them. ``version``: of the table's commit;
    ``refused``: why there is none."""

    asked: str
    table: str
    keys: int = 0
    rows: int = 0
    version: int | None = None
    refused: str = ""


def record(control: Control, repair: Repair) -> None:
    """Writes the answer; the caller owns the target. Raises what ``Control.write`` raises."""
    control.write(KIND, detail=json.dumps(asdict(repair)))


def last_repair(control: Control) -> Repair | None:
    """The last one that was answered."""
    rows = control.rows(KIND)
    if not rows:
        return None
    detail = json.loads(rows[-1]["detail"])
    return Repair(**{name: detail[name] for name in Repair.__dataclass_fields__})

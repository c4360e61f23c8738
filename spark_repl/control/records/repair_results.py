"""Repairs of single rows: what became of each one that was asked for, a row of the control table.
Whoever asked reads it there: several may ask at once, and the applier does not wait for them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..table.row_formats import SAFE, known_fields

if TYPE_CHECKING:
    from ..table.control import Control

KIND = "repair"
ANSWERS = 100
"""so many are still kept when the control table's superseded rows go"""


@dataclass(frozen=True)
class Repair:
    """``asked``: the request that it answers; ``keys``: how many were named, ``rows``: how many of
    them the source has, which are in the table as it has them. ``version``: of the table's commit;
    ``refused``: why there is none, so that the table has to be copied; ``failed``: the error of a
    repair that is no reason for a copy."""

    asked: str
    table: str
    keys: int = 0
    rows: int = 0
    version: int | None = None
    refused: str = ""
    failed: str = ""


def record(control: Control, repair: Repair) -> None:
    """Writes the answer; the caller owns the target. Raises what ``Control.write`` raises."""
    number = SAFE if repair.failed else 0
    control.write(KIND, detail=json.dumps(asdict(repair)), number=number)


def answers(control: Control) -> dict[str, Repair]:
    """Those of the last ``ANSWERS`` requests at least, by what they answer."""
    repairs = [
        Repair(**known_fields(Repair, json.loads(row["detail"]))) for row in control.rows(KIND)
    ]
    return {one.asked: one for one in repairs}

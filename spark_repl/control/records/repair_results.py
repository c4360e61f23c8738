"""Results of row repairs: one row of the control table for each request.

The requester reads its row. Several may ask at once, and the applier does not wait for them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..table.row_formats import SAFE, known_fields

if TYPE_CHECKING:
    from ..table.control import Control

KIND = "repair"
RESULTS_KEPT = 100
"""results that pruning keeps"""


@dataclass(frozen=True)
class RepairResult:
    """The result of one repair request.

    ``asked``: the request; ``keys``: the number of its keys; ``rows``: for how many of them the
    source has a row, which the table now also has. ``version``: of the table's commit; ``refused``:
    why there is no commit, so that the table has to be copied; ``failed``: an error that does not
    require a copy.
    """

    asked: str
    table: str
    keys: int = 0
    rows: int = 0
    version: int | None = None
    refused: str = ""
    failed: str = ""


def record_result(control: Control, result: RepairResult) -> None:
    """Write the result; the caller owns the target. Raise as ``Control.write``."""
    number = SAFE if result.failed else 0
    control.write(KIND, detail=json.dumps(asdict(result)), number=number)


def repair_results(control: Control) -> dict[str, RepairResult]:
    """Return the results of at least the last ``RESULTS_KEPT`` requests, by request."""
    results = [
        RepairResult(**known_fields(RepairResult, json.loads(row["detail"])))
        for row in control.rows(KIND)
    ]
    return {result.asked: result for result in results}

"""Moments: how late, and how fast, a target was in the past, by the cuts that it still has.

Each cut says when it was published and when the source committed the last of its transactions, so
no samples are kept, and a target that nobody works on has its past, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...gtid import GtidSet

if TYPE_CHECKING:
    from ...control.table.control import Control

_MOST = 240


@dataclass(frozen=True)
class LagSample:
    """``at``: when a cut was published; ``late_s``: since the source's commit of its last
    transaction, None where that is not known; ``transactions_per_s``: since the moment before;
    ``gtid_executed``: what the cut holds."""

    at: datetime
    late_s: float | None
    transactions_per_s: float
    gtid_executed: str


def lag_history(control: Control, most: int = _MOST) -> list[LagSample]:
    """At most ``most`` moments, evenly taken from the cuts that are kept, oldest first."""
    rows = sorted(control.rows("cut"), key=lambda row: (row["at"], row["position"]))
    step = max(-(-len(rows) // most), 1)
    return _of([row for number, row in enumerate(reversed(rows)) if number % step == 0][::-1])


def _of(rows: Sequence[Mapping[str, Any]]) -> list[LagSample]:
    counts = [GtidSet.parse(row["gtid_executed"]).count() for row in rows]
    noted = [LagSample(row["at"], _late(row), 0.0, row["gtid_executed"]) for row in rows[:1]]
    for (before, row), (less, count) in zip(pairwise(rows), pairwise(counts), strict=True):
        seconds = max((row["at"] - before["at"]).total_seconds(), 0.001)
        rate = max(count - less, 0) / seconds
        noted.append(LagSample(row["at"], _late(row), rate, row["gtid_executed"]))
    return noted


def _late(row: Mapping[str, Any]) -> float | None:
    micros = json.loads(row["detail"])["source"].get("commit_time")
    if not micros:
        return None
    committed = datetime.fromtimestamp(micros / 1e6, UTC)
    at: datetime = row["at"]
    return max((at - committed).total_seconds(), 0.0)

"""Lag history: how late, and how fast, a target was, by the cuts that it still has.

Each cut records when it was published, and when the source committed the last of its transactions.
So nothing takes samples, and a target that no applier works on has a history as well.
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
    """A cut. ``at``: when it was published; ``late_s``: seconds since the source's commit of its
    last transaction, None if unknown; ``transactions_per_s``: since the previous sample;
    ``gtid_executed``: the transactions that it holds."""

    at: datetime
    late_s: float | None
    transactions_per_s: float
    gtid_executed: str


def lag_history(control: Control, most: int = _MOST) -> list[LagSample]:
    """Return at most ``most`` samples, spread evenly over the retained cuts, oldest first."""
    rows = sorted(control.rows("cut"), key=lambda row: (row["at"], row["position"]))
    step = max(-(-len(rows) // most), 1)
    return _samples([row for number, row in enumerate(reversed(rows)) if number % step == 0][::-1])


def _samples(rows: Sequence[Mapping[str, Any]]) -> list[LagSample]:
    counts = [GtidSet.parse(row["gtid_executed"]).count() for row in rows]
    samples = [LagSample(row["at"], _late(row), 0.0, row["gtid_executed"]) for row in rows[:1]]
    for (before, row), (less, count) in zip(pairwise(rows), pairwise(counts), strict=True):
        seconds = max((row["at"] - before["at"]).total_seconds(), 0.001)
        rate = max(count - less, 0) / seconds
        samples.append(LagSample(row["at"], _late(row), rate, row["gtid_executed"]))
    return samples


def _late(row: Mapping[str, Any]) -> float | None:
    micros = json.loads(row["detail"])["source"].get("commit_time")
    if not micros:
        return None
    committed = datetime.fromtimestamp(micros / 1e6, UTC)
    at: datetime = row["at"]
    return max((at - committed).total_seconds(), 0.0)

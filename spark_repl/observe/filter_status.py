"""The filters that the target is applied with, as performance_schema.replication_applier_filters
has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..control.recorded_filters import recorded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..control.control import Control


def filter_rows(control: Control, channel: str, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """A row for each kind of rule that has entries, since when the rules hold, and how often the
    last run has gone by them: once for each table of a transaction with rows."""
    rules, since = recorded(control)
    return [
        {
            "CHANNEL_NAME": channel,
            "FILTER_NAME": f"REPLICATE_{kind.upper()}",
            "FILTER_RULE": ",".join(entries),
            "CONFIGURED_BY": "CONFIGURATION_FILE",
            "ACTIVE_SINCE": since.isoformat(timespec="microseconds") if since else None,
            "COUNTER": counts.get(kind, 0),
        }
        for kind, entries in rules.entries()
        if entries
    ]

"""Intervals of Delta's table properties, for example ``interval 1 week``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_HOURS = {
    "week": 168.0, "day": 24.0, "hour": 1.0, "minute": 1 / 60, "second": 1 / 3600,
    "millisecond": 1 / 3.6e6, "microsecond": 1 / 3.6e9,
}  # fmt: skip
_PART = re.compile(rf"([+-]?\d+(?:\.\d+)?)\s+({'|'.join(_HOURS)})s?")


def retained_hours(configuration: Mapping[str, str]) -> float:
    """Return the hours for which a table with these properties retains removed files."""
    return hours_of(configuration.get("delta.deletedFileRetentionDuration", "interval 1 week"))


def hours_of(interval: str) -> float:
    """Return the hours of an interval. Return infinity for an unreadable or negative interval, so
    that its files stay."""
    text = interval.lower().strip().removeprefix("interval").strip()
    if not re.fullmatch(rf"({_PART.pattern}\s*)+", text):
        return math.inf
    hours = sum(float(number) * _HOURS[unit] for number, unit in _PART.findall(text))
    return hours if hours >= 0 else math.inf

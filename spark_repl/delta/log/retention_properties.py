"""Retention properties: Delta's table properties for how long files stay that no version names,
and for how long the log stays. A value is an interval, for example ``interval 1 week``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_HOURS = {
    "week": 168.0, "day": 24.0, "hour": 1.0, "minute": 1 / 60, "second": 1 / 3600,
    "millisecond": 1 / 3.6e6, "microsecond": 1 / 3.6e9,
}  # fmt: skip
_PART = re.compile(rf"([+-]?\d+(?:\.\d+)?)\s+({'|'.join(_HOURS)})s?")


_FILES = "delta.deletedFileRetentionDuration"
_USUAL = {_FILES: "interval 1 week", "delta.logRetentionDuration": "interval 30 days"}
"""Delta's defaults"""
RETENTION = tuple(_USUAL)


def retention_properties(hours: int) -> dict[str, str]:
    """Return the properties of a table whose cuts are promised for ``hours``."""
    return dict.fromkeys(RETENTION, f"interval {hours} hours")


def shorter_properties(configuration: Mapping[str, str], hours: int) -> dict[str, str]:
    """Return the properties that are less than ``hours``, with the value for ``hours``."""
    longer = retention_properties(hours)
    present = {name: hours_of(configuration.get(name, usual)) for name, usual in _USUAL.items()}
    return {name: to for name, to in longer.items() if present[name] < hours}


def retained_hours(configuration: Mapping[str, str]) -> float:
    """Return the hours for which a table with these properties retains removed files."""
    return hours_of(configuration.get(_FILES, _USUAL[_FILES]))


def hours_of(interval: str) -> float:
    """Return the hours of an interval. Return infinity for an unreadable or negative interval, so
    that its files stay."""
    text = interval.lower().strip().removeprefix("interval").strip()
    if not re.fullmatch(rf"({_PART.pattern}\s*)+", text):
        return math.inf
    hours = sum(float(number) * _HOURS[unit] for number, unit in _PART.findall(text))
    return hours if hours >= 0 else math.inf

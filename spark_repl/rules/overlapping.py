"""Overlapping: configurations of several channels whose row filters don't tell their rows apart."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

from ..config.side_by_side import one_target
from .disjoint_filters import ChannelRows
from .row_filters import fault

if TYPE_CHECKING:
    from ..config import Config


def overlapping(configs: Mapping[str, Config]) -> list[str]:
    """Faults of configurations of several channels, by files, whose tables can't be told apart
    whatever their columns are."""
    faults = []
    for (one, mine), (other, theirs) in combinations(configs.items(), 2):
        if not one_target(mine, theirs) or mine.channel == theirs.channel:
            continue
        here, there = _filters(mine), _filters(theirs)
        for name in sorted(here.keys() & there.keys()):
            own, others = here[name], there[name]
            if reason := ChannelRows(own).overlap(ChannelRows(others)):
                said = f"row_filter {own} and {others}, of {name}: {reason}"
                faults.append(f"{one} and {other}: {said}")
    return faults


def _filters(config: Config) -> dict[str, str]:
    """By the names of tables that other channels feed, too, the row filters that say something."""
    return {
        rule.to: rule.row_filter
        for rule in config.tables
        if rule.channels and rule.row_filter and not fault(rule.row_filter)
    }

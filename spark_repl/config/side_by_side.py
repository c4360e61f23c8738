"""Faults of configurations of several channels that run side by side on one host."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING

from .settings import faulty

if TYPE_CHECKING:
    from .settings import Config

_RELAY = "relay.path is one folder: each channel needs a receiver's log of its own"
_CHANNEL = "channel and target.path are the same: only one applier may work on a channel"
_STATE = "target.state_path is one folder, of two targets: each needs its own"
_LISTEN = "observe.listen is one address: only one of them is served there"
_SERVER_ID = "source.server_id is the same, of one source: it would end the other's connection"
_APART = (
    "a table that both channels are to feed has not the same extra_columns, or key_prefix and"
    " channels, in both"
)
_SAME_ROWS = "a table that both channels feed has the same row_filter in both"
_AUTO = ("", "auto")


def side_by_side(configs: Mapping[str, Config]) -> list[str]:
    """Return the conflicts between configurations, each preceded by the names of two files.
    ``configs``: file -> its configuration."""
    return [
        f"{left} and {right}: {fault}"
        for left, right in combinations(configs, 2)
        for fault, is_there in _FAULTS.items()
        if is_there(configs[left], configs[right])
    ]


def check_side_by_side(configs: Mapping[str, Config]) -> None:
    """Raise one ConfigError that lists all conflicts."""
    if faults := side_by_side(configs):
        raise faulty("can't run side by side", faults)


def _place(path: str) -> str:
    """Return a folder or URI in the form in which it is compared."""
    return path.rstrip("/") if "://" in path else os.path.realpath(path)


def _one_relay(left: Config, right: Config) -> bool:
    return _place(left.relay.path) == _place(right.relay.path)


def one_target(left: Config, right: Config) -> bool:
    """Return whether both channels feed one target."""
    return _place(left.target.path) == _place(right.target.path)


def _one_channel(left: Config, right: Config) -> bool:
    return left.channel == right.channel and one_target(left, right)


def _one_state(left: Config, right: Config) -> bool:
    """Return whether two targets share a state folder; channels of one target have their own
    folders in it."""
    states = left.target.state_path, right.target.state_path
    return all(states) and _place(states[0]) == _place(states[1]) and not one_target(left, right)


def _apart(left: Config, right: Config) -> bool:
    """Return whether the two differ in a table that both are to feed."""
    pairs = (left, right), (right, left)
    return one_target(left, right) and any(
        other.channel in feed[1] and _shared(other).get(name) != feed
        for one, other in pairs
        for name, feed in _shared(one).items()
    )


def _shared(config: Config) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return, for each table that several channels feed, the column that identifies their rows, and
    the channels."""
    return {rule.to: (rule.shards_by, rule.channels) for rule in config.tables if rule.channels}


def _same_rows(left: Config, right: Config) -> bool:
    filters = ({(r.to, r.row_filter) for r in c.tables if r.channels} for c in (left, right))
    common = set.intersection(*filters)
    return (
        left.channel != right.channel
        and one_target(left, right)
        and any(row_filter for _, row_filter in common)
    )


def _one_address(left: Config, right: Config) -> bool:
    return left.observe.listen == right.observe.listen and left.observe.listen not in _AUTO


def _one_replica(left: Config, right: Config) -> bool:
    places = [(one.source.host, one.source.port, one.source.socket) for one in (left, right)]
    return places[0] == places[1] and left.source.server_id == right.source.server_id


_FAULTS: dict[str, Callable[[Config, Config], bool]] = {
    _RELAY: _one_relay,
    _CHANNEL: _one_channel,
    _STATE: _one_state,
    _APART: _apart,
    _SAME_ROWS: _same_rows,
    _LISTEN: _one_address,
    _SERVER_ID: _one_replica,
}

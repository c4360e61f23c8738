"""Lag: how far receiver and applier are behind, in seconds and in transactions, each by itself.

The receiver knows nothing of what the source has and it has not: only that there was nothing, when
a heartbeat comes, which a source sends when it has nothing else. The applier is behind what was
received.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...gtid import GtidSet
from ...relay.file_list import file_name

if TYPE_CHECKING:
    from ...control.table.cut import Cut

_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Lag:
    """``transactions`` and ``seconds``: None where nobody here knows; ``at_most``: no more seconds
    than that."""

    transactions: int | None
    seconds: float | None
    at_most: bool = False


def applier_lag(
    live: Mapping[str, Any], last: Cut | None, receiver: Mapping[str, Any] | None, *, running: bool
) -> Lag:
    """How far it is behind what was received: by GTIDs where a receiver says them, else behind what
    the applier has seen. Seconds are those since the first transaction that is not applied was
    committed."""
    said = live.get("log") or {}
    transactions = _lacking(last, receiver)
    if transactions is None and running and said:  # of a log that may have grown nobody knows
        transactions = int(said["transactions"])
    if transactions == 0:
        return Lag(0, 0.0)
    if running and said.get("oldest"):
        return Lag(transactions, _since(said["oldest"]))
    committed = last.source.get("commit_time") if last else None
    if transactions is None or not committed:
        return Lag(transactions, None)
    return Lag(transactions, _since(committed / _MICROSECONDS), at_most=True)


def _lacking(last: Cut | None, receiver: Mapping[str, Any] | None) -> int | None:
    received = GtidSet.parse((receiver or {}).get("RECEIVED_TRANSACTION_SET", ""))
    if not received:
        return None
    executed = GtidSet.parse(last.gtid_executed if last else "")
    return received.subtract(executed).count()


def receiver_lag(
    live: Mapping[str, Any], receiver: Mapping[str, Any] | None, relay: str | None
) -> Lag:
    """How far it is behind the source: 0 where a heartbeat came behind all that was received; else
    the age of the newest transaction when the applier saw it."""
    if receiver is None or relay is None or receiver["SERVICE_STATE"] != "ON":
        return Lag(None, None)
    if _heard(receiver) > _written(receiver, relay):
        return Lag(0, 0.0)
    said = live.get("log") or {}
    if not said.get("newest"):
        return Lag(None, None)
    return Lag(None, max(0.0, round(said["seen"] - said["newest"], 1)))


def _heard(receiver: Mapping[str, Any]) -> float:
    text = receiver["LAST_HEARTBEAT_TIMESTAMP"]
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _written(receiver: Mapping[str, Any], relay: str) -> float:
    """When the receiver wrote into its log last."""
    try:
        return os.stat(os.path.join(relay, file_name(receiver["RELAY_LOG_FILE"]))).st_mtime
    except OSError:
        return time.time()


def _since(at: float) -> float:
    return max(0.0, round(time.time() - at, 1))

"""Lag: how far receiver and applier are behind, in seconds and in transactions.

The receiver cannot see what the source has that it lacks. It only knows that there was nothing more
at a heartbeat, which a source sends if it has nothing else to send. The applier is behind what was
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
    """A lag as ``transactions`` and ``seconds``, which are None if unknown; ``at_most``: seconds
    are an upper bound."""

    transactions: int | None
    seconds: float | None
    at_most: bool = False


def applier_lag(
    live: Mapping[str, Any], last: Cut | None, receiver: Mapping[str, Any] | None, *, running: bool
) -> Lag:
    """Return the applier's lag behind the received log.

    Transactions are counted by GTIDs if the receiver reports them, otherwise by the applier's
    backlog. Seconds are the time since the commit of the first transaction that is not applied.
    """
    backlog = live.get("log") or {}
    transactions = _missing_transactions(last, receiver)
    if transactions is None and running and backlog:  # without an applier the log may have grown
        transactions = int(backlog["transactions"])
    if transactions == 0:
        return Lag(0, 0.0)
    if running and backlog.get("oldest"):
        return Lag(transactions, _since(backlog["oldest"]))
    committed = last.source.get("commit_time") if last else None
    if transactions is None or not committed:
        return Lag(transactions, None)
    return Lag(transactions, _since(committed / _MICROSECONDS), at_most=True)


def _missing_transactions(last: Cut | None, receiver: Mapping[str, Any] | None) -> int | None:
    received = GtidSet.parse((receiver or {}).get("RECEIVED_TRANSACTION_SET", ""))
    if not received:
        return None
    executed = GtidSet.parse(last.gtid_executed if last else "")
    return received.subtract(executed).count()


def receiver_lag(
    live: Mapping[str, Any], receiver: Mapping[str, Any] | None, relay: str | None
) -> Lag:
    """Return the receiver's lag behind the source.

    The lag is 0 if a heartbeat came after everything that was received. Otherwise it is the age of
    the newest transaction when the applier saw it.
    """
    if receiver is None or relay is None or receiver["SERVICE_STATE"] != "ON":
        return Lag(None, None)
    if _heartbeat_at(receiver) > _written_at(receiver, relay):
        return Lag(0, 0.0)
    backlog = live.get("log") or {}
    if not backlog.get("newest"):
        return Lag(None, None)
    return Lag(None, max(0.0, round(backlog["seen"] - backlog["newest"], 1)))


def _heartbeat_at(receiver: Mapping[str, Any]) -> float:
    text = receiver["LAST_HEARTBEAT_TIMESTAMP"]
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _written_at(receiver: Mapping[str, Any], relay: str) -> float:
    """Return when the receiver last wrote to its log."""
    try:
        return os.stat(os.path.join(relay, file_name(receiver["RELAY_LOG_FILE"]))).st_mtime
    except OSError:
        return time.time()


def _since(at: float) -> float:
    return max(0.0, round(time.time() - at, 1))

"""Status: one look at a target, under the names of MySQL's performance_schema tables. No Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..config import Apply, Config
from ..control.control import Control
from ..control.layout import Layout
from ..position import RelayPosition
from ..receiver.report import read_report
from .applier_status import read

if TYPE_CHECKING:
    from ..control.cut import Cut


def status(target: str, relay: str | None = None, state_path: str = "") -> dict[str, Any]:
    """One key per replication table of performance_schema, and ``tables``. Raises TargetError
    where there is neither an applier's target nor a receiver's log.

    ``relay``: the receiver's folder, for its part; ``state_path``: as in the configuration.
    """
    receiver = read_report(relay) if relay else None
    control = Control(Layout(target).control) if receiver else Control.existing(target)
    cuts = control.cuts()
    last = cuts[-1] if cuts else None
    held = control.owner()
    running = held is not None and not held[1].is_dead
    live = read(Layout(target, state_path).status) or {}
    if running and held and live.get("epoch", held[0]) < held[0]:
        live = {}  # the one that runs has said nothing yet, or one that slept spoke last
    live = {"retries": 0, "coordinator": {}, "workers": [], **live}
    names = (held and held[1].channel, live["coordinator"].get("CHANNEL_NAME"))
    channel = next(filter(None, (*names, receiver and receiver["CHANNEL_NAME"])), Config.channel)
    limit = live.get("xa_age_limit_s", Apply.xa_age_limit_s)
    pid = held[1].pid if held and running else None
    return {
        "replication_connection_status": [receiver] if receiver else [],
        **_applier_tables(channel, live, last, pid, running=running),
        "owner": {**asdict(held[1]), "epoch": held[0], "alive": running} if held else None,
        "gtid_executed": last.gtid_executed if last else "",
        "relay_position": position_text(last) if last else None,
        "source": dict(last.source) if last else {},
        "cuts": len(cuts),
        "xa_recover": [
            {**branch, "old": branch["age_s"] > limit} for _, branch in prepared_branches(cuts)
        ],
        "tables": {
            name: {
                "path": table.path,
                "version": table.version,
                "position": str(RelayPosition.unpack(table.position)),
            }
            for name, table in (last.tables.items() if last else ())
        },
    }


def _applier_tables(
    channel: str, live: Mapping[str, Any], last: Cut | None, pid: int | None, *, running: bool
) -> dict[str, list[dict[str, Any]]]:
    """The tables replication_applier_status, _by_coordinator and _by_worker. ``live``: what the
    applier has said of itself, which counts as far as it is ``running``; ``last``: the newest cut.
    """
    off = {} if running else {"SERVICE_STATE": "OFF", "THREAD_ID": None, "PROCESSLIST_STATE": ""}
    state = "ON" if running else "OFF"
    applier = {
        "CHANNEL_NAME": channel,
        "SERVICE_STATE": state,
        "REMAINING_DELAY": None,
        "COUNT_TRANSACTIONS_RETRIES": live["retries"],
        "COUNT_TASK_RETRIES": live.get("task_retries", 0),
    }
    coordinator = {
        "CHANNEL_NAME": channel,
        "THREAD_ID": pid,
        "SERVICE_STATE": state,
        **live["coordinator"],
        "LAST_PROCESSED_TRANSACTION": last.gtid_executed if last else "",
        "LAST_PROCESSED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP": _commit_time(last),
        "LAST_PROCESSED_TRANSACTION_END_BUFFER_TIMESTAMP": _text(last.at) if last else None,
        **off,
    }
    workers = [
        {**worker, **{column: value for column, value in off.items() if column in worker}}
        for worker in live["workers"]
    ]
    return {
        "replication_applier_status": [applier],
        "replication_applier_status_by_coordinator": [coordinator],
        "replication_applier_status_by_worker": workers,
    }


def prepared_branches(cuts: Sequence[Cut]) -> list[tuple[int, dict[str, Any]]]:
    """(packed position of its XA PREPARE, its row of ``xa_recover``) of each branch at the last
    cut."""
    branches = []
    for branch in cuts[-1].prepared if cuts else ():
        prepared = branch["prepared_at"] / 1e6
        row = {
            "format_id": branch["format_id"],
            "gtrid": branch["gtrid"],
            "bqual": branch["bqual"],
            "gtid": branch["gtid"],
            "position": str(RelayPosition.unpack(branch["position"])),
            "bytes": branch["bytes"],
            "prepared_at": datetime.fromtimestamp(prepared, UTC).isoformat(),
            "age_s": round(time.time() - prepared),
        }
        branches.append((branch["position"], row))
    return branches


def position_text(cut: Cut) -> str:
    """FILE:OFFSET in the relay log, up to which a cut holds everything."""
    return str(cut.source.get("relay") or RelayPosition.unpack(cut.position))


def _commit_time(last: Cut | None) -> str | None:
    if last is None or not last.source.get("commit_time"):
        return None
    return _text(datetime.fromtimestamp(last.source["commit_time"] / 1e6, UTC))


def _text(at: datetime | None) -> str | None:
    return at.isoformat(timespec="microseconds") if at else None

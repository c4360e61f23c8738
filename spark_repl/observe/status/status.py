"""Status: one look at a target, under the names of MySQL's performance_schema tables. No Spark."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...config import Apply, Config
from ...control.cuts.previous_folders import Former, former_tables
from ...control.records.channels import Channel, channel_at, channels
from ...control.records.copies import Copy, last_copy
from ...control.records.definitions import shown_by_rows
from ...control.records.quarantine import cure_of, open_quarantines
from ...control.records.recorded_filters import recorded
from ...control.table.control import Control
from ...control.table.layout import Layout
from ...errors import TargetError
from ...position import RelayPosition
from ...receiver.report import read_report
from ..reports import run_report, verify_status
from ..reports.applier_status import WAITING_FOR_WORK, read_applier_status
from ..reports.rates import rates_per_s, table_rates
from ..reports.statement_status import shown_statements
from ..reports.worker_status import STAGING
from .lag import applier_lag, receiver_lag
from .problems import full_disks, problems
from .table_status import table_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...control.table.control import Control
    from ...control.table.cut import Cut
    from ...control.table.owner import Owner

_FIGURES = ("counters", "commit_to_cut", "stream", "past", "copy", "row_filters", "passed_over")
"""what the applier has counted, as it has said it"""


def status(
    target: str,
    relay: str | None = None,
    state_path: str = "",
    *,
    at: Channel | None = None,
    each_table: bool = True,
) -> dict[str, Any]:
    """One key per replication table of performance_schema, and ``tables``. Raises TargetError
    where there is neither an applier's target nor a receiver's log, ConfigError where there are
    several channels and it isn't said which.
    ``relay``: the receiver's folder, for its part; ``state_path``: as in the configuration.
    ``at``: which channel, that has read the control table before, perhaps; ``each_table``: whether
    each table's own log is looked at, too.
    """
    receiver = read_report(relay) if relay else None
    at = at or _channel_at(target, state_path, received=receiver is not None)
    control, layout = at.control, at.layout
    last, held = control.last_cut(), control.owner()
    running = held is not None and not held[1].is_dead
    live = _live(layout, held[0] if held and running else 0)
    channel = _channel(held and held[1], live, receiver)
    pid = held[1].pid if held and running else None
    rated, run = live.get("rates", {}), run_report.read_run_report(layout.run, held and held[1])
    fields: dict[str, Any] = {
        "state": _state(held and held[1], live, run, running=running),
        "run": run,
        "lag": _lag(live, last, receiver, relay, running=running),
        "rates": rates_per_s(rated, running=running),
        **{name: live.get(name, {}) for name in _FIGURES},
        "replication_connection_status": [receiver] if receiver else [],
        "replica_status": [_replica_status(channel, last, receiver)],
        **_applier_tables(channel, live, last, pid, running=running),
        "replication_applier_filters": filter_rows(control, channel, live.get("filters", {})),
        "owner": _owner(*held, alive=running) if held else None,
        **_place(last),
        "cuts": control.cut_count(),
        "statements": shown_statements(live.get("statements")),
        "xa_recover": _xa_recover(last, live.get("xa_age_limit_s", Apply.xa_age_limit_s)),
        "notes": live.get("notes", []) if running else [],
        "ahead": live.get("ahead", {}),
        **_set_aside(control, last),
        "verify": verify_status.verify_status_at_cut(layout.verified, last),
        "tables": {},
        **_places(layout, relay, last if each_table else None),
    }
    if last:
        stands, by_rows = _positions(layout, last, channel, each_table), shown_by_rows(control)
        fields["tables"] = _tables(last, stands, by_rows, rated, running=running)
    return {**_with_what_waits(fields), "problems": [*map(asdict, problems(fields))]}


def _with_what_waits(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with another state of a coordinator that has read all that it knew of, if
    more has come since."""
    (coordinator,) = fields["replication_applier_status_by_coordinator"]
    has_read_all = coordinator.get("PROCESSLIST_STATE") == WAITING_FOR_WORK
    if not (has_read_all and fields["lag"]["applier"]["transactions"]):
        return fields
    row = {**coordinator, "PROCESSLIST_STATE": STAGING}
    return {**fields, "replication_applier_status_by_coordinator": [row]}


def _lag(
    live: Mapping[str, Any],
    last: Cut | None,
    receiver: Mapping[str, Any] | None,
    relay: str | None,
    *,
    running: bool,
) -> dict[str, Any]:
    return {
        "receiver": asdict(receiver_lag(live, receiver, relay)),
        "applier": asdict(applier_lag(live, last, receiver, running=running)),
    }


def _channel_at(target: str, state_path: str, *, received: bool) -> Channel:
    """The only channel; raises TargetError where there is none, nor a receiver's log."""
    if received and not channels(target):
        layout = Layout(target, state_path)
        return Channel("", layout, Control(layout.control))
    return channel_at(target, "", state_path)


def _live(layout: Layout, epoch: int) -> dict[str, Any]:
    """What the applier says of itself; ``epoch``: that of the one that runs, 0 for none."""
    live = read_applier_status(layout.status) or {}
    if live.get("epoch", epoch) < epoch:
        live = {}  # the one that runs has said nothing yet, or one that slept spoke last
    return {"retries": 0, "coordinator": {}, "workers": [], **live}


def _xa_recover(last: Cut | None, limit: int) -> list[dict[str, Any]]:
    """The branches that are prepared at the last cut; old ones have been for more than ``limit``
    seconds."""
    branches = (branch for _, branch in prepared_branches(last))
    return [{**branch, "old": branch["age_s"] > limit} for branch in branches]


def _channel(
    owner: Owner | None, live: Mapping[str, Any], receiver: Mapping[str, Any] | None
) -> str:
    names = (owner and owner.channel, live["coordinator"].get("CHANNEL_NAME"))
    received = receiver and receiver["CHANNEL_NAME"]
    return str(next(filter(None, (*names, received)), Config.channel))


def _tables(
    last: Cut,
    stands: Mapping[str, Mapping[str, Any]],
    by_rows: Container[str],
    rated: Mapping[str, Any],
    *,
    running: bool,
) -> dict[str, dict[str, Any]]:
    """Each table's row: ``stands`` is where it is, ``by_rows`` the paths whose definition only the
    log's TABLE_MAP events say, ``rated`` what the applier has counted."""
    return {
        name: {
            "path": last.tables[name].path,
            **one,
            "definition": "TABLE_MAP" if last.tables[name].path in by_rows else "",
            **table_rates(rated, name, running=running),
        }
        for name, one in stands.items()
    }


def _place(last: Cut | None) -> dict[str, Any]:
    """Where the last cut is."""
    return {
        "gtid_executed": last.gtid_executed if last else "",
        "relay_position": position_text(last) if last else None,
        "source": dict(last.source) if last else {},
    }


def _owner(epoch: int, owner: Owner, *, alive: bool) -> dict[str, Any]:
    """``here``: whether it is of this host, where alone it can be seen that a process is gone."""
    return {**asdict(owner), "epoch": epoch, "alive": alive, "here": owner.is_here}


def _positions(
    layout: Layout, last: Cut, channel: str, each_table: bool
) -> dict[str, dict[str, Any]]:
    if each_table:
        return table_positions(layout, last, channel)
    return {name: {"version": table.version} for name, table in last.tables.items()}


def _set_aside(control: Control, last: Cut | None) -> dict[str, Any]:
    return {"waiting": _waiting(control, last), "quarantined": _quarantined(control, last)}


def _places(layout: Layout, relay: str | None, last: Cut | None) -> dict[str, Any]:
    """The disks that are full, and what lies beside the cut's tables and is none any more: nothing
    where it can't be seen, or without a cut."""
    former = list[Former]()
    with suppress(OSError, TargetError):
        former = former_tables(layout, last) if last else []
    places = {"the target": layout.target, "the working state": layout.state}
    full = full_disks(places | ({"the relay log": relay} if relay else {}))
    return {"full_disks": [asdict(one) for one in full], "former": [asdict(one) for one in former]}


def _state(
    owner: Owner | None, live: Mapping[str, Any], run: Mapping[str, Any], *, running: bool
) -> str:
    """``never started``, ``starting``, ``running``, ``stopped``, ``failed``: stopped by an error,
    or ``crashed``: its process is gone and has said nothing of it."""
    if run:
        return "failed" if run["error"] else "starting" if run["alive"] else "crashed"
    if owner is None:
        return "never started"
    if running:
        return "running" if live["coordinator"] else "starting"
    if not owner.released:
        return "crashed"
    return "failed" if live["coordinator"].get("LAST_ERROR_MESSAGE") else "stopped"


def _replica_status(
    channel: str, last: Cut | None, receiver: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The places of SHOW REPLICA STATUS: up to where the source's log was read, and up to where it
    was applied to every table, in the source's files and in ours."""
    source = last.source if last else {}
    received = receiver or {}
    relay = position_text(last).rpartition(":") if last else ("", "", "")
    return {
        "Channel_Name": channel,
        "Source_UUID": source.get("server_uuid") or received.get("SOURCE_UUID", ""),
        "Source_Server_Id": source.get("server_id"),
        "Source_Log_File": received.get("SOURCE_LOG_FILE", ""),
        "Read_Source_Log_Pos": received.get("READ_SOURCE_LOG_POS"),
        "Relay_Log_File": relay[0],
        "Relay_Log_Pos": int(relay[2]) if relay[2] else None,
        "Relay_Source_Log_File": source.get("file", ""),
        "Exec_Source_Log_Pos": source.get("position"),
        "Retrieved_Gtid_Set": received.get("RECEIVED_TRANSACTION_SET", ""),
        "Executed_Gtid_Set": last.gtid_executed if last else "",
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


def prepared_branches(last: Cut | None) -> list[tuple[int, dict[str, Any]]]:
    """(packed position of its XA PREPARE, its row of ``xa_recover``) of each branch at the last
    cut."""
    branches = []
    for branch in last.prepared if last else ():
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


def _waiting(control: Control, last: Cut | None) -> dict[str, dict[str, str]]:
    """The tables that the last cut does not show until they are copied: why, since which statement,
    and how far the copy is."""
    waiting, copy = last.waiting if last else {}, last_copy(control)
    return {
        name: {"reason": why.reason, "since": why.since, "copy": _copy_state(copy, name)}
        for name, why in waiting.items()
    }


def _quarantined(control: Control, last: Cut | None) -> dict[str, dict[str, Any]]:
    """The tables that stand still, because a change of theirs could not be applied: why, since
    which transaction, how much is kept up to the last cut, and what somebody has decided."""
    marks = last.quarantined if last else {}
    return {
        name: {
            "reason": one.reason,
            "number": one.number,
            "since": one.since,
            "transactions": marks[name].transactions if name in marks else 0,
            "bytes": marks[name].bytes if name in marks else 0,
            "asked": one.asked,
            "failed": one.failed,
            "hint": cure_of(one),
        }
        for name, one in open_quarantines(control).items()
    }


def _copy_state(copy: Copy | None, name: str) -> str:
    if copy is None or copy.shown or name not in copy.bounds:
        return "not begun"
    if copy.error or copy.again:
        return f"tried again: {copy.error or copy.again}"
    return "catching up" if copy.is_done else "under way"


def position_text(cut: Cut) -> str:
    """FILE:OFFSET in the relay log, up to which a cut holds everything."""
    return str(cut.source.get("relay") or RelayPosition.unpack(cut.position))


def _commit_time(last: Cut | None) -> str | None:
    if last is None or not last.source.get("commit_time"):
        return None
    return _text(datetime.fromtimestamp(last.source["commit_time"] / 1e6, UTC))


def _text(at: datetime | None) -> str | None:
    return at.isoformat(timespec="microseconds") if at else None


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

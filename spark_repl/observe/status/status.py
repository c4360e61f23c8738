"""The status of a target: replication tables as in performance_schema, and the state of its tables.

``status`` is what ``spark-repl status`` prints and the applier's page shows. It only reads: the
control table, the reports that applier and receiver write into files, and the tables' own logs. It
needs neither Spark nor the running processes, and works after a crash. Fields of MySQL's tables
have MySQL's names; their meanings are in docs/operations.md.

A report counts only if it is of the present owner's epoch; states of an applier count only while
its process runs. A process of another host can't be watched, so ``owner.here`` shows whether its
end can be seen. Raises TargetError if there is neither a target nor a receiver's log, ConfigError
if there are several channels and none is named. Design: docs/design/observing.md.
"""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...config import Apply, Config
from ...control.cuts.previous_folders import PreviousFolder, previous_folders
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
from ..reports.applier_status import WAITING_FOR_WORK, read_applier_status
from ..reports.rates import rates_per_s, table_rates
from ..reports.run_report import read_run_report
from ..reports.statement_status import shown_statements
from ..reports.verify_status import verify_status_at_cut
from ..reports.worker_status import STAGING
from .lag import applier_lag, receiver_lag
from .problems import full_disks, problems
from .table_status import table_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...control.table.control import Control
    from ...control.table.cut import Cut
    from ...control.table.owner import Owner

_FIGURES = (
    "counters",
    "commit_to_cut",
    "stream",
    "past",
    "copy",
    "row_filters",
    "passed_over",
    "store_requests",
    "store_repeats",
    "store_paused_s",
)
"""figures of the applier's report that a status passes on"""


def status(
    target: str,
    relay: str | None = None,
    state_path: str = "",
    *,
    at: Channel | None = None,
    each_table: bool = True,
) -> dict[str, Any]:
    """Return one key per replication table of performance_schema, and ``tables``.

    ``relay``: the receiver's folder, for its report; ``state_path``: as in the configuration;
    ``at``: the channel; ``each_table``: whether to read each table's own log. Raise TargetError if
    there is neither an applier's target nor a receiver's log, ConfigError if there are several
    channels and no ``at``.
    """
    receiver = read_report(relay) if relay else None
    at = at or _channel_at(target, state_path, received=receiver is not None)
    control, layout = at.control, at.layout
    last, owner = control.last_cut(), control.owner()
    running = owner is not None and not owner[1].is_dead
    live = _live(layout, owner[0] if owner and running else 0)
    channel = _channel(owner and owner[1], live, receiver)
    pid, rated = owner[1].pid if owner and running else None, live.get("rates", {})
    run = read_run_report(layout.run, owner and owner[1])
    fields: dict[str, Any] = {
        "state": _state(owner and owner[1], live, run, running=running),
        "run": run,
        "lag": _lag(live, last, receiver, relay, running=running),
        "rates": rates_per_s(rated, running=running),
        **{name: live.get(name, 0.0 if name.endswith("_s") else {}) for name in _FIGURES},
        "replication_connection_status": [receiver] if receiver else [],
        "replica_status": [_replica_status(channel, last, receiver)],
        **_applier_tables(channel, live, last, pid, running=running),
        "replication_applier_filters": filter_rows(control, channel, live.get("filters", {})),
        "owner": _owner(*owner, alive=running) if owner else None,
        **_place(last),
        "cuts": control.cut_count(),
        "statements": shown_statements(live.get("statements")),
        "xa_recover": _xa_recover(last, live.get("xa_age_limit_s", Apply.xa_age_limit_s)),
        "notes": live.get("notes", []) if running else [],
        "ahead": live.get("ahead", {}),
        **_set_aside(control, last),
        "verify": verify_status_at_cut(layout.verified, last),
        "tables": {},
        **_places(layout, relay, _scratch(owner, live, run), last if each_table else None),
    }
    if last:
        positions, by_rows = _positions(layout, last, channel, each_table), shown_by_rows(control)
        fields["tables"] = _tables(last, positions, by_rows, rated, running=running)
    return {**_with_what_waits(fields), "problems": [*map(asdict, problems(fields))]}


def _with_what_waits(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the state of a coordinator that reads, if it had read all of the log
    but more has been received since."""
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
    """Return the only channel. Raise TargetError if there is neither one nor a receiver's log."""
    if received and not channels(target):
        layout = Layout(target, state_path)
        return Channel("", layout, Control(layout.control))
    return channel_at(target, "", state_path)


def _live(layout: Layout, epoch: int) -> dict[str, Any]:
    """Return the applier's report. ``epoch``: the running applier's, 0 if none runs."""
    live = read_applier_status(layout.status) or {}
    if live.get("epoch", epoch) < epoch:
        live = {}  # it is of an earlier applier: the running one has not reported yet
    return {"retries": 0, "coordinator": {}, "workers": [], **live}


def _xa_recover(last: Cut | None, limit: int) -> list[dict[str, Any]]:
    """Return the branches that are prepared at the last cut; ``old``: for more than ``limit``
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
    positions: Mapping[str, Mapping[str, Any]],
    by_rows: Container[str],
    rated: Mapping[str, Any],
    *,
    running: bool,
) -> dict[str, dict[str, Any]]:
    """Return each table's row.

    ``positions``: versions and positions; ``by_rows``: paths whose definition comes only from
    TABLE_MAP events; ``rated``: the applier's counts.
    """
    return {
        name: {
            "path": last.tables[name].path,
            **position,
            "definition": "TABLE_MAP" if last.tables[name].path in by_rows else "",
            **table_rates(rated, name, running=running),
        }
        for name, position in positions.items()
    }


def _place(last: Cut | None) -> dict[str, Any]:
    """Return the position of the last cut."""
    return {
        "gtid_executed": last.gtid_executed if last else "",
        "relay_position": position_text(last) if last else None,
        "source": dict(last.source) if last else {},
    }


def _owner(epoch: int, owner: Owner, *, alive: bool) -> dict[str, Any]:
    """Return the owner's row. ``here``: whether it runs on this host, the only place where the end
    of its process can be seen."""
    return {**asdict(owner), "epoch": epoch, "alive": alive, "here": owner.is_here}


def _positions(
    layout: Layout, last: Cut, channel: str, each_table: bool
) -> dict[str, dict[str, Any]]:
    if each_table:
        return table_positions(layout, last, channel)
    return {name: {"version": table.version} for name, table in last.tables.items()}


def _set_aside(control: Control, last: Cut | None) -> dict[str, Any]:
    return {"waiting": _waiting(control, last), "quarantined": _quarantined(control, last)}


def _scratch(
    owner: tuple[int, Owner] | None, live: Mapping[str, Any], run: Mapping[str, Any]
) -> str:
    """Return Spark's scratch folder of the last applier or ``run``; "" if that was on another host
    or in another container, or did not report its folder."""
    if run:
        return str(run.get("scratch", "")) if run["here"] else ""
    return str(live.get("scratch", "")) if owner and owner[1].is_here else ""


def _places(layout: Layout, relay: str | None, scratch: str, last: Cut | None) -> dict[str, Any]:
    """Return the full disks, and former tables of the target: none if they can't be listed, or
    without a cut. ``relay`` and ``scratch``: folders, or nothing."""
    former = list[PreviousFolder]()
    with suppress(OSError, TargetError):
        former = previous_folders(layout, last) if last else []
    places = {"the target": layout.target, "the working state": layout.state,
              "Spark's scratch folder": scratch, "the relay log": relay}  # fmt: skip
    full = full_disks({name: path for name, path in places.items() if path})
    return {
        "full_disks": [asdict(disk) for disk in full],
        "former": [asdict(table) for table in former],
    }


def _state(
    owner: Owner | None, live: Mapping[str, Any], run: Mapping[str, Any], *, running: bool
) -> str:
    """Return ``never started``, ``starting``, ``running``, ``stopped``, ``failed`` after an error,
    or ``crashed`` if the process ended without a report."""
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
    """Return the positions of SHOW REPLICA STATUS: up to where the source's log was read, and up to
    where it was applied to every table, in the source's files and in the relay log."""
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
    """Return the tables replication_applier_status, _by_coordinator and _by_worker.

    ``live``: the applier's report, whose states count only if it is ``running``; ``last``: the
    newest cut.
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
    """Return (packed position of its XA PREPARE, its row of ``xa_recover``) for each branch at the
    last cut."""
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
    """Return the tables that the last cut does not show until they are copied: why, since which
    statement, and the state of the copy."""
    waiting, copy = last.waiting if last else {}, last_copy(control)
    return {
        name: {"reason": why.reason, "since": why.since, "copy": _copy_state(copy, name)}
        for name, why in waiting.items()
    }


def _quarantined(control: Control, last: Cut | None) -> dict[str, dict[str, Any]]:
    """Return the tables in quarantine: why, since which transaction, how much is kept up to the
    last cut, and what an operator decided."""
    marks = last.quarantined if last else {}
    return {
        name: {
            "reason": table.reason,
            "number": table.number,
            "since": table.since,
            "transactions": marks[name].transactions if name in marks else 0,
            "bytes": marks[name].bytes if name in marks else 0,
            "asked": table.asked,
            "failed": table.failed,
            "hint": cure_of(table),
        }
        for name, table in open_quarantines(control).items()
    }


def _copy_state(copy: Copy | None, name: str) -> str:
    if copy is None or copy.shown or name not in copy.bounds:
        return "not begun"
    if copy.error or copy.again:
        return f"tried again: {copy.error or copy.again}"
    return "catching up" if copy.is_done else "under way"


def position_text(cut: Cut) -> str:
    """Return FILE:OFFSET in the relay log, up to which a cut has everything."""
    return str(cut.source.get("relay") or RelayPosition.unpack(cut.position))


def _commit_time(last: Cut | None) -> str | None:
    if last is None or not last.source.get("commit_time"):
        return None
    return _text(datetime.fromtimestamp(last.source["commit_time"] / 1e6, UTC))


def _text(at: datetime | None) -> str | None:
    return at.isoformat(timespec="microseconds") if at else None


def filter_rows(control: Control, channel: str, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return rows of performance_schema.replication_applier_filters, one per kind of rule in use.

    ACTIVE_SINCE: the time since which the rules are in use; COUNTER: decisions of the last run, one
    per table of a transaction with rows.
    """
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

"""Screen: a status as text.

The first lines answer the first questions: does it run, what is its lag, is anything wrong, what
is it doing. The parts follow, under MySQL's names. Text of a source (names, statements,
messages) is printed without control characters, so that none reaches the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..control.cuts.previous_folders import PreviousFolder, previous_folder_lines
from .reports.latency import BOUNDS_S, quantile
from .reports.verify_status import repaired_tables
from .reports.worker_status import IDLE

Status = Mapping[str, Any]
Rows = Sequence[tuple[str, ...]]

STATES = {
    "never started": "no: nothing was applied to this target yet",
    "starting": "starting",
    "running": "yes",
    "stopped": "no: it was stopped",
    "failed": "no: an error has stopped it",
    "crashed": "NO: it has crashed",
}
_TABLES = ("table", "path", "version", "last change (relay log)", "complete up to (source)",
           "changes", "changes/s", "definition from")  # fmt: skip


def plain(text: str) -> str:
    """Return the text on one line, without control characters for terminals."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def screen(status: Status) -> str:
    """Return all of a status, as lines that end with a newline."""
    lines = [*_receiver(status), *_relay_log(status), *_coordinator(status)]
    lines += [*_workers(status), *_statements(status), *_copies(status), *_xa(status)]
    lines += [*_verified(status), *_tables(status)]
    return summary(status) + _text(lines)


def summary(status: Status) -> str:
    """Return the first lines of a status: whether the applier runs, its lag, problems, and its
    activity."""
    return _text(_first(status))


def _text(lines: Iterable[str]) -> str:
    return "".join(plain(line).rstrip() + "\n" for line in lines)


def columns(names: tuple[str, ...], rows: Rows) -> Iterator[str]:
    """Yield columns as wide as their longest cell. Cells are never cut: users copy them."""
    lines = [names, *(tuple(plain(cell) for cell in row) for row in rows)]
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for row in lines:
        cells = (cell.ljust(size) for cell, size in zip(row, width, strict=True))
        yield "  ".join(cells).rstrip()


def _first(status: Status) -> Iterator[str]:
    lag = status["lag"]
    yield f"running:  {running(status, since=True)}"
    yield f"behind:   applier {behind(lag['applier'])}"
    if status["replication_connection_status"]:
        yield f"          receiver {behind(lag['receiver'])}"
    problems = status["problems"]
    yield f"wrong:    {len(problems) or 'nothing'}"
    for problem in problems:
        yield f"          {problem['what']}"
        yield f"          Try: {problem['hint']}"
    yield f"doing:    {doing(status)}"


def running(status: Status, *, since: bool = False) -> str:
    """Return whether the applier runs, and its process."""
    run, owner = status["run"], status["owner"]
    who = {**run["process"], "since": run["at"]} if run else owner
    if who is None:
        return STATES[status["state"]]
    began = f" since {who['since']}" if since else ""
    return f"{STATES[status['state']]}, process {who['pid']} on {who['host']}{began}"


def behind(lag: Mapping[str, Any]) -> str:
    """Return a lag as text."""
    count, seconds = lag["transactions"], lag["seconds"]
    if count == 0:
        return "0 s, 0 transactions"
    most = "at most " if lag["at_most"] else ""
    text = "not known" if seconds is None else f"{most}{_duration(seconds)}"
    return text if count is None else f"{text}, {count:,} transactions"


def _within(bound: float) -> str:
    return f"within {bound:g} s" if bound < float("inf") else f"not even within {BOUNDS_S[-1]:g} s"


def _duration(seconds: float) -> str:
    """Return seconds, and from two minutes on also hours, minutes and seconds."""
    if seconds < 120:
        return f"{seconds:g} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{seconds:.0f} s ({hours}:{minutes:02}:{rest:02})"


def doing(status: Status) -> str:
    """Return the current work of the applier or of its run."""
    (coordinator,) = status["replication_applier_status_by_coordinator"]
    run = status["run"]
    if run and run["alive"]:
        return run["doing"] or "waiting to be begun again"
    state, what = coordinator.get("PROCESSLIST_STATE"), coordinator.get("PROCESSING_TRANSACTION")
    if status["state"] not in ("running", "starting"):
        return "nothing"
    return f"{state}: {what}" if state and what else state or "reading where the tables are"


def _receiver(status: Status) -> Iterator[str]:
    for receiver in status["replication_connection_status"]:
        doing = f", {receiver['SERVICE_DOING']}" if receiver["SERVICE_DOING"] else ""
        yield ""
        yield "receiver (replication_connection_status)"
        yield f"  SERVICE_STATE             {receiver['SERVICE_STATE']}{doing}"
        yield f"  SOURCE_HOST               {receiver['SOURCE_HOST']} {receiver['SOURCE_UUID']}"
        yield (f"  Read_Source_Log_Pos       {receiver['SOURCE_LOG_FILE']}:"
               f"{receiver['READ_SOURCE_LOG_POS']}")  # fmt: skip
        yield f"  RECEIVED_TRANSACTION_SET  {receiver['RECEIVED_TRANSACTION_SET']}"
        yield f"  LAST_HEARTBEAT_TIMESTAMP  {receiver['LAST_HEARTBEAT_TIMESTAMP']}"
        if receiver["LAST_ERROR_MESSAGE"]:
            yield (f"  LAST_ERROR                {receiver['LAST_ERROR_TIMESTAMP']}:"
                   f" {receiver['LAST_ERROR_MESSAGE']}")  # fmt: skip
        if receiver["SERVICE_STATE"] == "CONNECTING" and receiver.get("NEXT_ATTEMPT"):
            yield f"  NEXT_ATTEMPT              {receiver['NEXT_ATTEMPT']}"


def _relay_log(status: Status) -> Iterator[str]:
    (place,) = status["replica_status"]
    yield ""
    yield "relay log (SHOW REPLICA STATUS)"
    if status["relay_position"]:
        yield f"  Relay_Log_Pos             {status['relay_position']}"
    if place["Relay_Source_Log_File"]:
        yield (f"  Exec_Source_Log_Pos       {place['Relay_Source_Log_File']}:"
               f"{place['Exec_Source_Log_Pos']}")  # fmt: skip
    yield f"  Executed_Gtid_Set         {status['gtid_executed']}"
    for receiver in status["replication_connection_status"]:
        yield f"  Relay_Log_Space           {receiver['RELAY_LOG_SPACE']:,} bytes"
        if receiver.get("ARCHIVE"):
            yield (f"  Archived_Log_Pos          {receiver['ARCHIVED_LOG_FILE']:06d}:"
                   f"{receiver['ARCHIVED_LOG_POS']} in {receiver['ARCHIVE']}")  # fmt: skip


def _coordinator(status: Status) -> Iterator[str]:
    (applier,) = status["replication_applier_status"]
    (row,) = status["replication_applier_status_by_coordinator"]
    rates, counters = status["rates"], status["counters"]
    yield ""
    yield "coordinator (replication_applier_status_by_coordinator)"
    yield f"  SERVICE_STATE             {row['SERVICE_STATE']}, channel {row['CHANNEL_NAME']}"
    yield f"  PROCESSLIST_STATE         {row.get('PROCESSLIST_STATE') or ''}"
    yield (f"  of this run               {counters.get('transactions', 0):,} transactions,"
           f" {counters.get('row_changes', 0):,} row changes,"
           f" {counters.get('groups', 0):,} groups")  # fmt: skip
    if replaced := counters.get("text_errors", 0):
        yield f"  texts with U+FFFD         {replaced:,} values had bytes without a character"
    yield (f"  now                       {rates['transactions_per_s']:,} transactions/s,"
           f" {rates['row_changes_per_s']:,} row changes/s")  # fmt: skip
    half, most = (quantile(status["commit_to_cut"], share) for share in (0.5, 0.99))
    if half is not None and most is not None:
        yield f"  commit to cut             half {_within(half)}, 99 % {_within(most)}"
    yield f"  retries                   {applier['COUNT_TRANSACTIONS_RETRIES']}"
    yield f"  Spark's task retries      {applier['COUNT_TASK_RETRIES']}"
    yield f"  cuts that are kept        {status['cuts']}"
    if row.get("LAST_ERROR_MESSAGE"):
        error = f"{row['LAST_ERROR_TIMESTAMP']}: {row['LAST_ERROR_MESSAGE']}"
        yield f"  LAST_ERROR                {error}"
    if stream := status["stream"]:
        yield (f"  Spark's stream            batch {stream['batch']}, {stream['rows']} transactions"
               f" in {stream['seconds']:g} s")  # fmt: skip


def _workers(status: Status) -> Iterator[str]:
    workers = status["replication_applier_status_by_worker"]
    if not workers:
        return
    yield ""
    yield "workers (replication_applier_status_by_worker)"
    rows = [
        (
            f"  {row['WORKER_ID']}",
            row.get("PROCESSLIST_STATE") or IDLE * (row["SERVICE_STATE"] == "ON"),
            row["APPLYING_TRANSACTION"], row["LAST_APPLIED_TRANSACTION"],
            str(row["COUNT_TRANSACTIONS_RETRIES"]),
            row["LAST_ERROR_MESSAGE"], row["LAST_TRANSIENT_ERROR_MESSAGE"],
        )
        for row in workers
    ]  # fmt: skip
    names = "state", "applying", "last applied", "retries", "last error", "last temporary error"
    yield from columns(("  id", *names), rows)


def _statements(status: Status) -> Iterator[str]:
    """Yield the last statements with how each was carried out, and a rewrite in progress."""
    statements = status["statements"]
    if not (statements["last"] or statements["counts"] or statements["rewrite"]):
        return
    yield ""
    yield "statements that change tables"
    if rewrite := statements["rewrite"]:
        yield (f"  rewrite: {rewrite['table']}, {rewrite['done']} of {rewrite['files']} files,"
               f" {rewrite['gtid']}")  # fmt: skip
    if counts := statements["counts"]:
        yield "  statements: " + ", ".join(f"{count} {way}" for way, count in counts.items())
    for row in statements["last"]:
        tables = f", {row['tables']}" if row["tables"] else ""
        yield (f"  statement: {row['gtid']}{tables}: {row['way']}, {row['seconds']} s:"
               f" {row['statement']}")  # fmt: skip


def _copies(status: Status) -> Iterator[str]:
    """Yield the tables that are ahead of the last cut, or wait for a copy."""
    if not (status["ahead"] or status["waiting"]):
        return
    yield ""
    yield "tables that are not where the others are"
    for name, position in status["ahead"].items():
        yield f"  ahead of the last cut: {name} at {position}"
    for name, why in status["waiting"].items():
        yield f"  waits for a copy: {name} since {why['since']}: {why['reason']} ({why['copy']})"


def _xa(status: Status) -> Iterator[str]:
    if not status["xa_recover"]:
        return
    yield ""
    yield "prepared XA branches (XA RECOVER)"
    for branch in status["xa_recover"]:
        old = " (old: is its XA COMMIT lost?)" if branch["old"] else ""
        yield (f"  prepared: {branch['gtrid']},{branch['bqual']},{branch['format_id']}"
               f" {branch['bytes']} bytes, {branch['age_s']} s{old}")  # fmt: skip


def _verified(status: Status) -> Iterator[str]:
    """Yield the result of the last verify."""
    if verified := status.get("verify"):
        left_out = (
            f", {len(verified['not_compared'])} not compared" if verified["not_compared"] else ""
        )
        repaired = ", ".join(sorted(repaired_tables(verified)))
        yield ""
        yield (f"verify: {verified['differing']} rows differ, {verified['undecided']} undecided,"
               f" of {verified['rows']} in {verified['tables']} tables{left_out},"
               f" {verified['at']}{repaired and f'; mended since: {repaired}'}")  # fmt: skip


def _tables(status: Status) -> Iterator[str]:
    rows = [
        (
            name, table["path"], str(table["version"]),
            table["position"] + " (ahead)" * table["ahead"],
            f"{table['source_file']}:{table['source_position']}" if table["source_file"] else "",
            f"{table['row_changes']:,}", f"{table['row_changes_per_s']:,}", table["definition"],
        )
        for name, table in status["tables"].items()
    ]  # fmt: skip
    if rows:
        yield ""
        yield from columns(_TABLES, rows)
    yield from previous_folder_lines([PreviousFolder(**former) for former in status["former"]])
    for name, count in status["row_filters"].items():
        yield f"left out by row_filter of {name}: {count:,} row changes"
    for name, count in status["passed_over"].items():
        yield f"left out of {name} (mode append, or copy = none): {count:,} row changes"

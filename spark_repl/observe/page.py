"""Page: a status and a target's past as one HTML page, without a script and without the network.

What comes from a source (names, statements, messages) is text, never markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from .plot import bars, line, table
from .screen import STATES, behind, doing, plain

if TYPE_CHECKING:
    from .moments import Moment

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""what a browser may do with it (Content-Security-Policy)"""
_AGAIN_S, _TABLES_MOST = 5, 500
_STYLE = """
:root{color-scheme:light dark;--line:#0b62c4;--soft:#8884;--bad:#b3261e;--good:#1b7a3d}
@media (prefers-color-scheme:dark){:root{--line:#7db4ff;--bad:#ff8a80;--good:#7bd79b}}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:70rem}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem .9rem;margin:0}
dd{margin:0;overflow-wrap:anywhere}dt{font-weight:600}
.bad{color:var(--bad)}.good{color:var(--good)}
ol.flow{display:flex;flex-wrap:wrap;gap:.5rem;padding:0;list-style:none}
ol.flow li{border:1px solid var(--soft);border-radius:.4rem;padding:.4rem .6rem;flex:1 1 9rem}
ol.flow b{display:block}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
caption{text-align:left;font-weight:600;padding:.2rem 0}
td,th{border-bottom:1px solid var(--soft);padding:.2rem .6rem .2rem 0;text-align:left;
vertical-align:top;overflow-wrap:anywhere}
figure{margin:0 0 1rem}svg{width:100%;height:7rem;border-bottom:1px solid var(--soft)}
polyline{fill:none;stroke:var(--line);stroke-width:1.5;vector-effect:non-scaling-stroke}
rect{fill:var(--line)}
"""
Status = Mapping[str, Any]


def page(status: Status, past: Sequence[Moment], *, live: bool) -> str:
    """A whole HTML document. ``live``: it is asked for again every few seconds."""
    (applier,) = status["replication_applier_status"]
    channel = _text(applier["CHANNEL_NAME"])
    again = f'<meta http-equiv="refresh" content="{_AGAIN_S}">' if live else ""
    now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    parts = [_first(status), _flow(status), _plots(status, past), *_tables(status)]
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{again}<title>spark_repl {channel}: {_text(status['state'])}</title>"
        f"<style>{_STYLE}</style></head><body><main><h1>Channel {channel}, {now}</h1>"
        f"{''.join(parts)}</main></body></html>\n"
    )


def _text(value: object) -> str:
    return escape(plain(str(value)))


def _first(status: Status) -> str:
    """What people ask first."""
    lag, owner, wrong = status["lag"], status["owner"], status["problems"]
    who = f", process {owner['pid']} on {owner['host']}" if owner else ""
    runs = "good" if status["state"] == "running" else "bad"
    rows = [
        ("running", f'<span class="{runs}">{_text(STATES[status["state"]] + who)}</span>'),
        ("behind", f"applier {_text(behind(lag['applier']))}"),
    ]
    if status["replication_connection_status"]:
        rows.append(("", f"receiver {_text(behind(lag['receiver']))}"))
    rows.append(("wrong", f"{len(wrong)}" if wrong else '<span class="good">nothing</span>'))
    rows += [
        ("", f'<span class="bad">{_text(one["what"])}</span><br>Try: {_text(one["hint"])}')
        for one in wrong
    ]
    rows.append(("doing", _text(doing(status))))
    listed = "".join(f"<dt>{name}</dt><dd>{shown}</dd>" for name, shown in rows)
    return f"<dl>{listed}</dl>"


def _flow(status: Status) -> str:
    """The way of the data, each part with its figures."""
    (place,) = status["replica_status"]
    rates, counters = status["rates"], status["counters"]
    steps = list[tuple[str, str]]()
    for one in status["replication_connection_status"]:
        steps.append(("source", f"{one['SOURCE_HOST']} {one['SOURCE_UUID']}"))
        read = f"{one['SOURCE_LOG_FILE']}:{one['READ_SOURCE_LOG_POS']}"
        steps.append(("receiver", f"{one['SERVICE_STATE']}, read to {read}"))
    steps += [
        ("relay log", f"applied to {status['relay_position'] or 'nothing'}"),
        ("coordinator", f"{counters.get('transactions', 0):,} transactions in"
                        f" {counters.get('groups', 0):,} groups of this run"),
        ("workers", f"{len(status['replication_applier_status_by_worker'])},"
                    f" {rates['row_changes_per_s']:,} row changes/s"),
        ("tables", f"{len(status['tables'])} in {status['cuts']} cuts that are kept;"
                   f" {rates['transactions_per_s']:,} transactions/s"),
        ("executed", str(status["gtid_executed"] or place["Executed_Gtid_Set"] or "nothing")),
    ]  # fmt: skip
    shown = "".join(f"<li><b>{_text(name)}</b>{_text(said)}</li>" for name, said in steps)
    return f'<h2>The way of the data</h2><ol class="flow">{shown}</ol>'


def _plots(status: Status, past: Sequence[Moment]) -> str:
    """How late and how fast it was, by the cuts that are kept; what commits waited in this run."""
    drawn = [
        line("Late, from the source's commit to the cut", "s", [(m.at, m.late_s) for m in past]),
        line("Applied", "transactions/s", [(m.at, m.transactions_per_s) for m in past[1:]]),
    ]
    if waited := status["commit_to_cut"]:
        names = [f"within {bound:g} s" for bound in waited["bounds_s"]] + ["later"]
        drawn.append(bars("From commit to cut, transactions of this run", names, waited["counts"]))
    shown = "".join(drawn)
    return f"<h2>Over time</h2>{shown}" if shown else ""


def _tables(status: Status) -> Iterator[str]:
    """What there is to list, each only where there is something."""
    workers = [
        (str(row["WORKER_ID"]), row["SERVICE_STATE"], row["APPLYING_TRANSACTION"],
         row["LAST_APPLIED_TRANSACTION"], str(row["COUNT_TRANSACTIONS_RETRIES"]),
         row["LAST_ERROR_MESSAGE"] or row["LAST_TRANSIENT_ERROR_MESSAGE"])
        for row in status["replication_applier_status_by_worker"]
    ]  # fmt: skip
    statements = [
        (row["gtid"], row["tables"], row["way"], f"{row['seconds']} s", row["statement"])
        for row in status["statements"]["last"]
    ]
    waiting = [
        (name, why["since"], why["reason"], str(why["copy"]))
        for name, why in status["waiting"].items()
    ]
    branches = [
        (f"{one['gtrid']},{one['bqual']},{one['format_id']}", f"{one['bytes']:,}",
         f"{one['age_s']} s", "old" if one["old"] else "")
        for one in status["xa_recover"]
    ]  # fmt: skip
    for caption, names, rows in (
        ("Workers", ("id", "state", "applying", "last applied", "retries", "error"), workers),
        ("Statements that change tables", ("gtid", "tables", "way", "took", "statement"),
         statements),
        ("Tables that wait for a copy", ("table", "since", "reason", "copy"), waiting),
        ("Prepared XA branches", ("xid", "bytes", "age", ""), branches),
        ("Tables, those with most changes first",
         ("table", "path", "version", "position", "changes", "changes/s"), _busiest(status)),
    ):  # fmt: skip
        if rows:
            yield table(caption, names, rows)


def _busiest(status: Status) -> list[tuple[str, ...]]:
    """Own positions are there only where the tables' own logs were looked at."""
    found = sorted(status["tables"].items(), key=lambda one: -one[1]["row_changes"])
    rows: list[tuple[str, ...]] = [
        (
            name,
            one["path"],
            str(one["version"]),
            one.get("position", "") + " (ahead)" * one.get("ahead", False),
            f"{one['row_changes']:,}",
            f"{one['row_changes_per_s']:,}",
        )
        for name, one in found[:_TABLES_MOST]
    ]
    more = len(found) - _TABLES_MOST
    return rows + ([(f"... and {more:,} more", "", "", "", "", "")] if more > 0 else [])

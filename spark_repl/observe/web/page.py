"""Page: a status and the target's history as one HTML page, which needs nothing from the network.

The served page has its style and its scripts from the endpoint, and the script fetches the page
again. A page in a file contains them. What comes from a source (names, statements, messages) is
text, never markup.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..reports.progress_history import history_points
from ..screen import doing, plain, running
from .listings import TABLES_MOST, listings, table_list
from .plot import Plot, html_table
from .verdict import problem_list, progress, tiles, verdict

if TYPE_CHECKING:
    from ..status.table_figures import TableFigures
    from .lag_history import LagSample
    from .plot import Points
    from .verdict import Verdict

Status = Mapping[str, Any]
_ASSETS = Path(__file__).with_name("assets")
STYLES, SCRIPTS = ("uPlot.min.css", "page.css"), ("uPlot.iife.min.js", "page.js")
_REST = "img-src data:; base-uri 'none'; form-action 'none'"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    f" {_REST}; frame-ancestors 'none'"
)
"""Content-Security-Policy: a browser may use the endpoint's own styles and scripts, and contact
nothing else"""
_COLOURS = {"good": "#1b7a3d", "warn": "#c77700", "bad": "#b3261e", "": "#6b7480"}
_CUTS_MOST = 20
_ROWS_HINT = (
    "The page can also show rows of a table: observe.rows = true, with a token of"
    " observe.token_file."
)


@dataclass(frozen=True)
class Extras:
    """What a page shows beside the status. ``target``: where the tables are; ``config``: the
    configuration's file, "" for none; ``figures``: of the tables, by name; ``has_rows``: whether
    the page can ask for a table's rows; ``has_docs``: whether the endpoint has the
    documentation."""

    target: str = ""
    config: str = ""
    figures: Mapping[str, TableFigures] = field(default_factory=dict)
    has_rows: bool = False
    has_docs: bool = False


@cache
def asset(name: str) -> str:
    """Return the text of a file of the package's ``assets``."""
    return (_ASSETS / name).read_text("utf-8")


def page(
    status: Status, history: Sequence[LagSample], *, live: bool, extras: Extras = Extras()
) -> str:
    """Return a complete HTML document.

    A ``live`` page has a script that fetches it again every few seconds. Another page contains the
    status as JSON.
    """
    result, figures = verdict(status), extras.figures
    rows = [table.rows for table in figures.values()]
    sizes = [table.size_bytes for table in figures.values()]
    hint = "" if extras.has_rows or not live else _ROWS_HINT
    parts = [
        _header(status, result, extras),
        problem_list(status, {"config": extras.config, "target": extras.target},
                     docs=live and extras.has_docs),
        progress(status),
        tiles(status, _total(rows), _total(sizes)) if status["cuts"] else "",
        _plots(status, history) if status["cuts"] or status["past"] else "",
        table_list(status, figures, has_rows=extras.has_rows, hint=hint),
        _more(status, history),
    ]  # fmt: skip
    if not live:
        parts.append(_as_json(status))
    else:
        cuts = json.dumps([sample.at.isoformat() for sample in history[: -_CUTS_MOST - 1 : -1]])
        parts.append(f'<div data-cuts="{escape(cuts)}" hidden></div>')
    parts.append(_foot())
    title = f"{result.text} · {_source(status)} · spark_repl"
    return document(title, "".join(parts), kind=result.kind, live=live)


def document(title: str, content: str, *, kind: str = "", live: bool) -> str:
    """Return an HTML document around the ``content`` of ``main``, which the script replaces.
    ``kind``: of a verdict, for the icon."""
    if live:
        icon = quote(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
            f'<circle cx="8" cy="8" r="7" fill="{_COLOURS[kind]}"/></svg>'
        )
        head = f'<link rel="icon" href="data:image/svg+xml,{icon}">{_LINKED_STYLES}'
        scripts = "".join(f'<script src="/assets/{name}"></script>' for name in SCRIPTS)
    else:
        head = f'<meta http-equiv="Content-Security-Policy" content="{_file_policy()}">'
        head += "".join(f"<style>{asset(name)}</style>" for name in STYLES)
        scripts = "".join(f"<script>{asset(name)}</script>" for name in SCRIPTS)
    notice = '<p id="notice" class="bad" role="status"></p>'
    body = f"<main>{content}</main>{_ROWS_DIALOG if live else ''}{notice}{scripts}"
    return _html(title, head, body, " data-live" if live else "")


_LINKED_STYLES = "".join(f'<link rel="stylesheet" href="/assets/{name}">' for name in STYLES)


def text_document(title: str, content: str) -> str:
    """Return an HTML document without scripts, with the endpoint's style."""
    return _html(title, _LINKED_STYLES, f'<main class="text">{content}</main>')


def _html(title: str, head: str, body: str, attributes: str = "") -> str:
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{head}<title>{_text(title)}</title></head><body{attributes}>{body}</body></html>\n"
    )


def sign_in_page() -> str:
    """Return the page that asks for the token."""
    content = (
        '<div class="card signin"><h1>spark_repl</h1><p>The token of observe.token_file:</p>'
        '<form><input type="password" aria-label="Token" autocomplete="current-password"'
        ' autofocus required><button type="submit">Show the page</button></form>'
        "<noscript><p>This page needs scripts. /status.json has the status as JSON.</p></noscript>"
        "</div>"
    )
    return document("spark_repl", content, live=True)


_ROWS_DIALOG = (
    '<dialog id="rows" aria-label="Rows of a table"><div class="bar"><h2></h2>'
    '<label>At <select></select></label><button type="button" class="close">Close</button></div>'
    '<p class="about" role="status"></p><div class="wide" tabindex="0" role="region"'
    ' aria-label="Rows"></div></dialog>'
)


def _file_policy() -> str:
    """Return the policy of a page in a file: the styles and scripts that it contains, and no
    network."""
    styles, scripts = (
        " ".join(_digest(asset(name)) for name in names) for names in (STYLES, SCRIPTS)
    )
    return f"default-src 'none'; style-src {styles}; script-src {scripts}; {_REST}"


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _total(counts: Sequence[int | None]) -> int | None:
    present = [count for count in counts if count is not None]
    return sum(present) if present else None


def _as_json(status: Status) -> str:
    """Return the status as JSON, in ASCII and escaped for HTML, for readers of the file."""
    tables = dict(list(status["tables"].items())[:TABLES_MOST])
    text = escape(json.dumps({**status, "tables": tables}, default=str, indent=1))
    return f"<details><summary>The status as JSON</summary><pre>{text}</pre></details>"


def _text(value: object) -> str:
    return escape(plain(str(value)))


def _source(status: Status) -> str:
    """Return the source's name: its host, or what is known instead."""
    for receiver in status["replication_connection_status"]:
        if host := str(receiver["SOURCE_HOST"]):
            return "localhost" if host.startswith("/") else host  # not the path of a socket
    (place,) = status["replica_status"]
    return str(place["Source_UUID"] or "no source yet")


def _header(status: Status, result: Verdict, extras: Extras) -> str:
    """Return the title: the source, the target, and the verdict."""
    (applier,) = status["replication_applier_status"]
    to = f"to {_text(extras.target)} · " if extras.target else ""
    return (
        f'<header><p class="way">spark_repl · MySQL</p><div class="title">'
        f'<h1>{_text(_source(status))}</h1><span class="pill {result.kind}">{_text(result.text)}'
        f'</span><span>{_text(result.more)}</span></div><p class="way">{to}channel'
        f" {_text(applier['CHANNEL_NAME'])}</p></header>"
    )


def _foot() -> str:
    now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
    return f'<p class="foot">As of {now} UTC.</p>'


def _plots(status: Status, history: Sequence[LagSample]) -> str:
    """Return the three plots that users watch: lag, row changes, and latency."""
    hour = status["past"]
    late, marks = _lag_points(status), _marks(status)
    drawn = (
        Plot("Lag", "Behind what was received, worst of each 10 s", "s", {"behind": late}, marks),
        Plot("Changes", "Applied, mean of each 10 s", "/s", {
            "row changes": history_points(hour, "row_changes_per_s"),
            "transactions": history_points(hour, "transactions_per_s"),
        }, marks),
        Plot("End-to-end latency", "From the source's commit to a readable cut", "s",
             {"latency": [(m.at, m.late_s) for m in _last_hour(history)]}, marks),
    )  # fmt: skip
    plots = "".join(plot.html() for plot in drawn)
    hint = '<p class="hint">Dashed lines are statements that change tables.</p>' if marks else ""
    return f'<section><h2>Last hour</h2><div class="plots">{plots}</div>{hint}</section>'


_HOUR = timedelta(hours=1)


def _last_hour(history: Sequence[LagSample]) -> Sequence[LagSample]:
    """Return the samples of the hour before the newest one."""
    if not history:
        return history
    return [sample for sample in history if sample.at >= history[-1].at - _HOUR]


def _lag_points(status: Status) -> Points:
    """Return the samples of the lag, and the lag of now, if it is known exactly."""
    late, lag = history_points(status["past"], "late_s"), status["lag"]["applier"]
    if late and status["state"] == "running" and not lag["at_most"]:
        late.append((datetime.now(UTC), lag["seconds"]))
    return late


def _marks(status: Status) -> list[tuple[datetime, str]]:
    return [
        (datetime.fromisoformat(row["at"]), f"{row['tables']} {row['statement']}")
        for row in status["statements"]["last"]
    ]


def _more(status: Status, history: Sequence[LagSample]) -> str:
    """Return what operators and developers look for: places, further plots, and lists."""
    plots = "".join(plot.html() for plot in _more_plots(status, history))
    return (
        '<details class="more" data-name="more"><summary>More: positions, workers, retries, cuts,'
        f' statements</summary>{_places(status)}<div class="plots">{plots}</div>'
        f"{_latencies(status)}{''.join(listings(status, history))}</details>"
    )


def _more_plots(status: Status, history: Sequence[LagSample]) -> Sequence[Plot]:
    hour, marks = status["past"], _marks(status)
    return (
        Plot("Latency of the kept cuts", "From the source's commit to the cut", "s",
             {"latency": [(m.at, m.late_s) for m in history]}, marks),
        Plot("Rate of the kept cuts", "Between two cuts", "transactions/s",
             {"transactions": [(m.at, m.transactions_per_s) for m in history[1:]]}, marks),
        Plot("Transactions in a commit", "How many are committed at once", "transactions",
             {"in a group": history_points(hour, "transactions_per_group")}, marks),
        Plot("Parallelism of the source", "Transactions that the source committed side by side",
             "transactions", {"in a wave": history_points(hour, "transactions_per_wave")}, marks),
    )  # fmt: skip


def _latencies(status: Status) -> str:
    """Return the histogram of this run, from commit to cut, as a table."""
    waited = status["commit_to_cut"]
    if not waited or not any(waited["counts"]):
        return ""
    names = [f"within {bound:g} s" for bound in waited["bounds_s"]] + ["later"]
    rows = [(name, f"{count:,}") for name, count in zip(names, waited["counts"], strict=True)
            if count]  # fmt: skip
    title = "From commit to cut, transactions of this run"
    return f'<div class="card">{html_table(title, ("time", "transactions"), rows)}</div>'


def _places(status: Status) -> str:
    """Return what runs, and the positions of the data's way."""
    (place,) = status["replica_status"]
    counters = status["counters"]
    steps = [("running", running(status)), ("doing", doing(status))]
    for receiver in status["replication_connection_status"]:
        steps.append(("source", f"{receiver['SOURCE_HOST']} {receiver['SOURCE_UUID']}"))
        read = f"{receiver['SOURCE_LOG_FILE']}:{receiver['READ_SOURCE_LOG_POS']}"
        steps.append(("receiver", f"{receiver['SERVICE_STATE']}, read to {read}"))
    steps += [
        ("relay log", f"applied to {status['relay_position'] or 'nothing'}"),
        ("this run", f"{counters.get('transactions', 0):,} transactions in"
                     f" {counters.get('groups', 0):,} commits, and in"
                     f" {counters.get('waves', 0):,} waves of the source"),
        ("cuts", f"{status['cuts']:,} are kept"),
        ("executed", str(status["gtid_executed"] or place["Executed_Gtid_Set"] or "nothing")),
    ]  # fmt: skip
    items = "".join(f"<dt>{_text(name)}</dt><dd>{_text(text)}</dd>" for name, text in steps)
    return f'<dl class="card places">{items}</dl>'

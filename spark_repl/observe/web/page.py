"""Page: a status and the target's history as one HTML page, which needs nothing from the network.

The served page has one script, which fetches the page again; without scripts the browser reloads
it. A page in a file has no script. What comes from a source (names, statements, messages) is text,
never markup.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from ..reports.progress_history import history_points
from ..screen import behind, doing, plain, running
from .listings import TABLES_MOST, listings
from .plot import bar_plot, line_plot

if TYPE_CHECKING:
    from .lag_history import LagSample

EVERY_S = 5
"""seconds between two requests of the served page for its next state"""
SCRIPT = """
"use strict";
const main = document.querySelector("main"), notice = document.getElementById("notice");
let last = new Date(), wake = () => {};
const named = name => [...main.querySelectorAll("[data-name]")].find(e => e.dataset.name === name);
function update(page) {
  const states = [...main.querySelectorAll("[data-name]")].map(
    e => [e.dataset.name, e.open, e.scrollLeft]);
  const at = document.activeElement.closest("[data-name]");
  document.title = page.title;
  main.replaceChildren(...page.querySelector("main").childNodes);
  for (const [name, open, left] of states) {
    const element = named(name);
    if (element && open) element.open = true;
    if (element && left) element.scrollLeft = left;
  }
  const element = at && named(at.dataset.name);
  if (element) (element.querySelector("summary") || element).focus({preventScroll: true});
}
async function refresh() {
  try {
    const answer = await fetch("/", {cache: "no-store", signal: AbortSignal.timeout(15000)});
    if (!answer.ok) throw new Error("status " + answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (getSelection().isCollapsed) update(page);
    last = new Date();
    notice.textContent = "";
  } catch (error) {
    notice.textContent =
      "No answer since " + last.toLocaleTimeString() + " (" + error.message + "): this is of then.";
  }
}
document.addEventListener("visibilitychange", () => wake());
(async () => {
  for (;;) {
    await new Promise(resolve => { wake = resolve; setTimeout(resolve, EVERY_MS); });
    if (!document.hidden) await refresh();
  }
})();
""".replace("EVERY_MS", str(EVERY_S * 1000))
"""Fetches the page again and replaces its content. What a reader has opened, chosen or scrolled to
stays. The script makes no markup of its own: names are escaped in one place, by ``page``."""

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
vertical-align:top;overflow-wrap:break-word}
figure{margin:0 0 1rem}svg{width:100%;height:7rem;border-bottom:1px solid var(--soft)}
polyline{fill:none;stroke:var(--line);stroke-width:1.5;vector-effect:non-scaling-stroke}
rect{fill:var(--line)}
.mark{stroke:var(--bad);stroke-width:1;stroke-dasharray:3 3;vector-effect:non-scaling-stroke}
progress{width:100%}pre{overflow-x:auto}#notice{margin:0}
:focus-visible{outline:2px solid var(--line);outline-offset:2px}
"""


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_BARE = f"default-src 'none'; style-src {_digest(_STYLE)}; base-uri 'none'; form-action 'none'"
POLICY = f"{_BARE}; script-src {_digest(SCRIPT)}; connect-src 'self'; frame-ancestors 'none'"
"""Content-Security-Policy: a browser may use this style and this script, nothing else"""
Status = Mapping[str, Any]


def page(status: Status, history: Sequence[LagSample], *, live: bool) -> str:
    """Return a complete HTML document.

    A ``live`` page has a script that fetches it again every few seconds. Another page contains the
    status as JSON.
    """
    (applier,) = status["replication_applier_status"]
    channel = _text(applier["CHANNEL_NAME"])
    now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    parts = [_first(status), _flow(status), _plots(status, history), *listings(status, history)]
    head = f'<meta http-equiv="Content-Security-Policy" content="{_BARE}">'
    script = ""
    if live:
        head = f'<noscript><meta http-equiv="refresh" content="{EVERY_S}"></noscript>'
        script = f'<p id="notice" class="bad" role="status"></p><script>{SCRIPT}</script>'
    else:
        parts.append(_as_json(status))
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{head}<title>spark_repl {channel}: {_text(status['state'])}</title>"
        f"<style>{_STYLE}</style></head><body><main><h1>Channel {channel}, {now}</h1>"
        f"{''.join(parts)}</main>{script}</body></html>\n"
    )


def _as_json(status: Status) -> str:
    """Return the status as JSON, in ASCII and escaped for HTML, for readers of the file."""
    tables = dict(list(status["tables"].items())[:TABLES_MOST])
    text = escape(json.dumps({**status, "tables": tables}, default=str, indent=1))
    return f"<details><summary>The status as JSON</summary><pre>{text}</pre></details>"


def _text(value: object) -> str:
    return escape(plain(str(value)))


def _first(status: Status) -> str:
    """Return the summary: state, lag, problems, current work."""
    lag, wrong = status["lag"], status["problems"]
    runs = "good" if status["state"] == "running" else "bad"
    rows = [
        ("running", f'<span class="{runs}">{_text(running(status))}</span>'),
        ("behind", f"applier {_text(behind(lag['applier']))}"),
    ]
    if status["replication_connection_status"]:
        rows.append(("", f"receiver {_text(behind(lag['receiver']))}"))
    rows.append(("wrong", f"{len(wrong)}" if wrong else '<span class="good">nothing</span>'))
    rows += [
        ("", f'<span class="bad">{_text(problem["what"])}</span><br>Try: {_text(problem["hint"])}')
        for problem in wrong
    ]
    rows.append(("doing", _text(doing(status))))
    listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
    return f"<dl>{listed}</dl>"


def _flow(status: Status) -> str:
    """Return the data flow, each part with its figures."""
    (place,) = status["replica_status"]
    rates, counters = status["rates"], status["counters"]
    steps = list[tuple[str, str]]()
    for receiver in status["replication_connection_status"]:
        steps.append(("source", f"{receiver['SOURCE_HOST']} {receiver['SOURCE_UUID']}"))
        read = f"{receiver['SOURCE_LOG_FILE']}:{receiver['READ_SOURCE_LOG_POS']}"
        steps.append(("receiver", f"{receiver['SERVICE_STATE']}, read to {read}"))
    steps += [
        ("relay log", f"applied to {status['relay_position'] or 'nothing'}"),
        ("coordinator", f"{counters.get('transactions', 0):,} transactions in"
                        f" {counters.get('groups', 0):,} groups of this run, whose source had"
                        f" committed them in {counters.get('waves', 0):,} waves, side by side"),
        ("workers", f"{len(status['replication_applier_status_by_worker'])},"
                    f" {rates['row_changes_per_s']:,} row changes/s"),
        ("tables", f"{len(status['tables'])} in {status['cuts']} cuts that are kept;"
                   f" {rates['transactions_per_s']:,} transactions/s"),
        ("executed", str(status["gtid_executed"] or place["Executed_Gtid_Set"] or "nothing")),
    ]  # fmt: skip
    items = "".join(f"<li><b>{_text(name)}</b>{_text(text)}</li>" for name, text in steps)
    return f'<h2>Data flow</h2><ol class="flow">{items}</ol>'


def _plots(status: Status, history: Sequence[LagSample]) -> str:
    """Return plots of lag and throughput, and of the time from commit to cut in this run.

    The last hour is shown by the applier's own samples, a longer time by the retained cuts.
    Statements are marks.
    """
    hour, lag = status["past"], status["lag"]["applier"]
    late = history_points(hour, "late_s")
    if late and status["state"] == "running" and not lag["at_most"]:
        late.append((datetime.now(UTC), lag["seconds"]))
    marks = [
        (datetime.fromisoformat(row["at"]), f"{row['tables']} {row['statement']}")
        for row in status["statements"]["last"]
    ]
    drawn = [
        line_plot("Behind what was received, worst of 10 s", "s", late, marks),
        line_plot("Applied", "transactions/s", history_points(hour, "transactions_per_s"), marks),
        line_plot("Applied", "row changes/s", history_points(hour, "row_changes_per_s"), marks),
        line_plot("How parallel the source's history is", "transactions/wave",
             history_points(hour, "transactions_per_wave"), marks),
        line_plot("How many are committed at once", "transactions/group",
             history_points(hour, "transactions_per_group"), marks),
        line_plot("Late, from the source's commit to the cut, by the cuts that are kept", "s",
             [(m.at, m.late_s) for m in history], marks),
        line_plot("Applied, by the cuts that are kept", "transactions/s",
             [(m.at, m.transactions_per_s) for m in history[1:]], marks),
    ]  # fmt: skip
    if waited := status["commit_to_cut"]:
        names = [f"within {bound:g} s" for bound in waited["bounds_s"]] + ["later"]
        drawn.append(
            bar_plot("From commit to cut, transactions of this run", names, waited["counts"])
        )
    plots = "".join(drawn)
    return f"<h2>Over time</h2>{plots}" if plots else ""

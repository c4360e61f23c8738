"""Verdict: the first answers of the page in words: a verdict, problems, figures, progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from ..hints import pasteable
from ..reports.latency import quantile
from ..reports.verify_status import unrepaired_rows
from ..screen import doing, plain
from .plot import number, progress_bar

Status = Mapping[str, Any]
_BEHIND_S = 60.0
"""lag from which the page warns"""
_STATES = {
    "never started": ("", "Never started"),
    "stopped": ("", "Stopped"),
    "failed": ("bad", "Stopped by an error"),
    "crashed": ("bad", "Crashed"),
}


@dataclass(frozen=True)
class Verdict:
    """What a reader wants to know first. ``kind``: good, warn, bad, or "" for a target that no
    applier works on; ``more``: a sentence that follows, or ""."""

    kind: str
    text: str
    more: str = ""


def verdict(status: Status) -> Verdict:
    """Return the verdict about a status."""
    state, lag, wrong = status["state"], status["lag"]["applier"], len(status["problems"])
    if state in _STATES:
        return Verdict(*_STATES[state])
    if state == "starting":
        copying = "copied" in status["run"]
        return Verdict("warn", "Copying") if copying else Verdict("warn", "Starting", doing(status))
    more = f"{wrong} problem{'s' * (wrong > 1)}" if wrong else ""
    seconds = lag["seconds"]
    if lag["transactions"] == 0 or (seconds is not None and seconds < 1):
        return Verdict("warn" if wrong else "good", "Up to date", more)
    if seconds is None:
        return Verdict("warn", "Running", more or "how far it is behind is not known")
    kind = "warn" if wrong or seconds >= _BEHIND_S else "good"
    return Verdict(kind, f"{duration(seconds)} behind", more)


def duration(seconds: float) -> str:
    """Return a time in its largest two units."""
    if seconds < 120:
        return f"{number(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days"


def size_text(size: float) -> str:
    """Return bytes with a decimal unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def tiles(status: Status, rows: int | None, size_bytes: int | None) -> str:
    """Return the figures of now. ``rows`` and ``size_bytes``: of all tables, None if unknown."""
    listed = "".join(
        f'<div><dt>{name}</dt><dd>{_text(figure)} <span class="of">{_text(more)}</span></dd></div>'
        for name, figure, more in _tiles(status, rows, size_bytes)
    )
    return f'<section><dl class="tiles">{listed}</dl></section>'


def _tiles(
    status: Status, rows: int | None, size_bytes: int | None
) -> Iterator[tuple[str, str, str]]:
    lag, rates = status["lag"]["applier"], status["rates"]
    count = "" if lag["transactions"] is None else f"{lag['transactions']:,} transactions"
    seconds = 0.0 if lag["transactions"] == 0 else lag["seconds"]
    most = "at most " * bool(lag["at_most"])
    yield "Behind", "not known" if seconds is None else most + duration(seconds), count
    if status["state"] in ("running", "starting"):
        yield (
            "Row changes",
            f"{rates['row_changes_per_s']:,g}/s",
            f"{rates['transactions_per_s']:,g} transactions/s",
        )
    half, most_s = (quantile(status["commit_to_cut"], share) for share in (0.5, 0.99))
    if half is not None and most_s is not None:
        yield "Commit to cut, half within", _bound(half), f"99 % within {_bound(most_s)}"
    sizes = [] if rows is None else [f"{rows:,} rows"]
    sizes += [] if size_bytes is None else [size_text(size_bytes)]
    yield "Tables", f"{len(status['tables']):,}", ", ".join(sizes)
    if verified := status.get("verify"):
        wrong = sum(unrepaired_rows(verified, "differing").values())
        result = f"{wrong:,} differ" if wrong else "all equal"
        yield "Last verify", result, f"{verified['rows']:,} rows, {ago(verified['at'])}"


def _bound(seconds: float) -> str:
    return "more than a day" if seconds == float("inf") else duration(seconds)


def ago(at: str | datetime) -> str:
    """Return how long ago a time was."""
    when = datetime.fromisoformat(at) if isinstance(at, str) else at
    seconds = (datetime.now(UTC) - when).total_seconds()
    return "now" if seconds < 1 else f"{duration(round(seconds))} ago"


def problem_list(status: Status, place: Mapping[str, str], *, docs: bool) -> str:
    """Return the problems with their hints. ``place``: values of --config and --target for the
    commands in hints; ``docs``: whether the page has the documentation, so that it can be linked.
    """
    if not status["problems"]:
        return ""
    items = "".join(
        f'<li class="problem"><p>{_text(problem["what"])}</p>'
        f'<p class="out"><b>Try:</b> {_text(pasteable(problem["hint"], place))}</p>'
        f"{_link(problem, docs)}</li>"
        for problem in status["problems"]
    )
    return f'<section><h2>Problems</h2><ul class="problems">{items}</ul></section>'


def _link(problem: Mapping[str, str], docs: bool) -> str:
    page = _text(problem.get("doc", ""))
    if not page:
        return ""
    named = f'<a href="/docs/{page}" target="_blank">docs/{page}</a>' if docs else f"docs/{page}"
    return f'<p class="out"><b>See:</b> {named}</p>'


def progress(status: Status) -> str:
    """Return the progress of copies and of a rewrite."""
    cards = "".join(_progress(status))
    return f"<section><h2>In progress</h2>{cards}</section>" if cards else ""


def _progress(status: Status) -> Iterator[str]:
    run, copy, rewrite = status["run"], status["copy"], status["statements"]["rewrite"]
    if run and run["alive"] and (copied := run.get("copied")) is not None:
        text = "Copy of all tables"
        yield _card(text, _copied(copied), copied["rows"] or None, copied["expected"])
    if copy:
        more = copy["number"] - len(copy["tables"])
        names = ", ".join(copy["tables"]) + (f" and {more:,} more" if more else "")
        text = f"{copy['rows']:,} of about {copy['expected']:,} rows"
        yield _card(f"Copy of {names}", text, copy["rows"], copy["expected"])
    if rewrite:
        text = f"{rewrite['done']:,} of {rewrite['files']:,} files"
        yield _card(f"Rewrite of {rewrite['table']}", text, rewrite["done"], rewrite["files"])


def _copied(copied: Mapping[str, Any]) -> str:
    """Return the progress of a copy with its speed and the time that it may still take."""
    rows, expected = copied["rows"], copied["expected"]
    if not rows:
        return "it begins"
    text = f"{rows:,} of about {expected:,} rows"
    seconds = (datetime.now(UTC) - datetime.fromisoformat(copied["began"])).total_seconds()
    if seconds < 1:
        return text
    left_s = max(expected - rows, 0) * seconds / rows
    return f"{text}, {rows / seconds:,.0f} rows/s, about {duration(round(left_s))} to go"


def _card(name: str, text: str, done: int | None, of: int) -> str:
    return (
        f'<div class="card copy"><p><b>{_text(name)}</b><span class="soft">{_text(text)}</span></p>'
        f"{progress_bar(f'{name}: {text}', done, of)}</div>"
    )


def _text(value: object) -> str:
    return escape(plain(str(value)))

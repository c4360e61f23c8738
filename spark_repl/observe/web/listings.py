"""Listings: a status's lists as tables of the page. A list without entries has no table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from ..screen import plain
from ..status.table_figures import TableFigures
from .plot import html_table, time_text
from .verdict import ago, duration, size_text

if TYPE_CHECKING:
    from .lag_history import LagSample

TABLES_MOST = 500
_CUTS_MOST = 20
_STATEMENT_MOST = 120
Status = Mapping[str, Any]


def listings(status: Status, history: Sequence[LagSample]) -> Iterator[str]:
    """Yield the tables that the page shows only on demand: failures first, then unfinished
    work."""
    for caption, names, rows in (
        ("Retries and errors", ("who", "at", "tried again", "what"), list(_errors(status))),
        ("Workers", ("id", "state", "applying", "last applied", "retries", "error"),
         _workers(status)),
        ("Prepared XA branches", ("xid", "bytes", "age", ""), _branches(status)),
        ("Newest cuts of those that are drawn", ("published", "late", "executed"), _cuts(history)),
        ("Statements that change tables", ("at", "gtid", "tables", "way", "took", "statement"),
         _statements(status)),
        ("Tables that wait for a copy", ("table", "since", "reason", "copy"), _waiting(status)),
    ):  # fmt: skip
        if rows:
            yield f'<div class="card">{html_table(caption, names, rows)}</div>'


_COLUMNS = ("Table", "Rows", "Size", "Behind", "Last change", "Changes/s", "Last DDL")
_NUMBERS = ("Rows", "Size", "Changes/s")


def table_list(
    status: Status, figures: Mapping[str, TableFigures], *, has_rows: bool, hint: str
) -> str:
    """Return the table of the target's tables, those that take most time first.

    ``has_rows``: whether a name opens the table's rows; ``hint``: below the table, as text.
    """
    tables = sorted(status["tables"].items(), key=_weight)
    waiting = {name for name in status["waiting"] if name not in status["tables"]}
    names = [*(name for name, _ in tables), *sorted(waiting)][:TABLES_MOST]
    if not names:
        return ""
    head = "".join(f'<th scope="col"{_kind(name)}>{name}</th>' for name in _COLUMNS)
    rows = "".join(_table_row(status, name, figures.get(name), has_rows=has_rows) for name in names)
    more = len(tables) + len(waiting) - TABLES_MOST
    left_out = f'<p class="hint">... and {more:,} more</p>' if more > 0 else ""
    below = f'<p class="hint">{_text(hint)}</p>' if hint else ""
    return (
        '<section><h2>Tables</h2><div class="card wide" tabindex="0" role="region"'
        f' aria-label="Tables" data-name="Tables"><table class="tables"><thead><tr>{head}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div>{left_out}{below}</section>"
    )


def _kind(column: str) -> str:
    return ' class="number"' if column in _NUMBERS else ""


def _table_row(status: Status, name: str, figures: TableFigures | None, *, has_rows: bool) -> str:
    table, figures = status["tables"].get(name, {}), figures or _UNKNOWN
    named = _text(name)
    if has_rows and table:
        named = (
            f'<button type="button" class="link" data-name="rows of {named}"'
            f' data-table="{named}" title="Show rows">{named}</button>'
        )
    cells = (
        ("", "" if figures.rows is None else f"{figures.rows:,}"),
        ("", "" if figures.size_bytes is None else size_text(figures.size_bytes)),
        ("", _behind(status, name)),
        ("", _time_ago(figures.changed_at)),
        ("", f"{table['row_changes_per_s']:,g}" if table else ""),
        (" all", _statement(status, name, figures)),
    )
    listed = "".join(
        f'<td data-label="{column}" class="{"number" if column in _NUMBERS else ""}{extra}">'
        f"{text or '–'}</td>"
        for column, (extra, text) in zip(_COLUMNS[1:], cells, strict=True)
    )
    path = f"<small>{_text(table['path'])}, version {table['version']}</small>" if table else ""
    return f'<tr><td class="name">{named}{path}</td>{listed}</tr>'


_UNKNOWN = TableFigures()


def _behind(status: Status, name: str) -> str:
    """Return a table's lag, or why it has another one than all tables."""
    if why := status["quarantined"].get(name):
        return f'<span class="pill bad">in quarantine</span><small>{_text(why["since"])}</small>'
    if why := status["waiting"].get(name):
        return f'<span class="pill warn">waits for a copy</span><small>{_text(why["copy"])}</small>'
    lag = status["lag"]["applier"]
    if lag["transactions"] == 0:
        return "0 s"
    return "" if lag["seconds"] is None else duration(lag["seconds"])


def _time_ago(at: datetime | None) -> str:
    if at is None:
        return ""
    return f'<time datetime="{at.isoformat()}" title="{time_text(at)} UTC">{ago(at)}</time>'


def _statement(status: Status, name: str, figures: TableFigures) -> str:
    """Return the last statement of a table: its time, and its text if it is among the last ones of
    all tables."""
    for row in reversed(status["statements"]["last"]):
        if name in row["tables"].split(", "):
            text = row["statement"][:_STATEMENT_MOST]
            more = "…" * (len(row["statement"]) > _STATEMENT_MOST)
            at = datetime.fromisoformat(row["at"])
            return f"{_time_ago(at)}<small><code>{_text(text)}{more}</code></small>"
    return _time_ago(figures.statement_at)


def _weight(item: tuple[str, Mapping[str, Any]]) -> tuple[float, int, str]:
    name, table = item
    return -table["write_seconds"], -table["row_changes"], name


def _errors(status: Status) -> Iterator[tuple[str, ...]]:
    (applier,) = status["replication_applier_status"]
    if retries := applier["COUNT_TRANSACTIONS_RETRIES"]:
        yield "applier", "", str(retries), "transactions of this run"
    if retries := applier["COUNT_TASK_RETRIES"]:
        yield "Spark", "", str(retries), "tasks of this run"
    parts = (
        ("applier", "replication_applier_status_by_coordinator"),
        ("receiver", "replication_connection_status"),
    )
    for who, name in parts:
        for row in status[name]:
            if message := row.get("LAST_ERROR_MESSAGE"):
                yield who, str(row["LAST_ERROR_TIMESTAMP"] or ""), "", message
    for row in status["replication_applier_status_by_worker"]:
        if message := row["LAST_TRANSIENT_ERROR_MESSAGE"]:
            retries = row["COUNT_TRANSACTIONS_RETRIES"]
            at = str(row["LAST_TRANSIENT_ERROR_TIMESTAMP"] or "")
            yield f"worker {row['WORKER_ID']}", at, str(retries), message


def _workers(status: Status) -> list[tuple[str, ...]]:
    return [
        (str(row["WORKER_ID"]), row["SERVICE_STATE"], row["APPLYING_TRANSACTION"],
         row["LAST_APPLIED_TRANSACTION"], str(row["COUNT_TRANSACTIONS_RETRIES"]),
         row["LAST_ERROR_MESSAGE"])
        for row in status["replication_applier_status_by_worker"]
    ]  # fmt: skip


def _branches(status: Status) -> list[tuple[str, ...]]:
    return [
        (f"{branch['gtrid']},{branch['bqual']},{branch['format_id']}", f"{branch['bytes']:,}",
         f"{branch['age_s']} s", "old" if branch["old"] else "")
        for branch in status["xa_recover"]
    ]  # fmt: skip


def _cuts(history: Sequence[LagSample]) -> list[tuple[str, ...]]:
    return [
        (
            sample.at.isoformat(sep=" ", timespec="milliseconds"),
            "not known" if sample.late_s is None else f"{sample.late_s:,.2f} s",
            sample.gtid_executed,
        )
        for sample in history[: -_CUTS_MOST - 1 : -1]
    ]


def _statements(status: Status) -> list[tuple[str, ...]]:
    return [
        (
            row["at"][:19],
            row["gtid"],
            row["tables"],
            row["way"],
            f"{row['seconds']} s",
            row["statement"],
        )
        for row in reversed(status["statements"]["last"])
    ]


def _waiting(status: Status) -> list[tuple[str, ...]]:
    return [
        (name, why["since"], why["reason"], why["copy"]) for name, why in status["waiting"].items()
    ]


def _text(text: object) -> str:
    return escape(plain(str(text)))

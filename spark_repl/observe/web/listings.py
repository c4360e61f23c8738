"""Listings: a status's lists as tables of the page. A list without entries has no table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .plot import html_table, progress_bar

if TYPE_CHECKING:
    from .lag_history import LagSample

TABLES_MOST = 500
_CUTS_MOST = 20
Status = Mapping[str, Any]


def listings(status: Status, history: Sequence[LagSample]) -> Iterator[str]:
    """Yield the tables in the order in which readers need them: slow parts, failures, unfinished
    work."""
    for caption, names, rows in (
        ("Tables, those that take most time first", _TABLES, _slowest(status)),
        ("Retries and errors", ("who", "at", "tried again", "what"), list(_errors(status))),
        ("Workers", ("id", "state", "applying", "last applied", "retries", "error"),
         _workers(status)),
        ("Prepared XA branches", ("xid", "bytes", "age", ""), _branches(status)),
        ("Newest cuts of those that are drawn", ("published", "late", "executed"), _cuts(history)),
        ("Statements that change tables", ("at", "gtid", "tables", "way", "took", "statement"),
         _statements(status)),
    ):  # fmt: skip
        if rows:
            yield html_table(caption, names, rows)
    yield from _copies(status)


_TABLES = ("table", "path", "version", "last change", "seconds of writing", "changes", "changes/s")


def _slowest(status: Status) -> list[tuple[str, ...]]:
    """Return the rows of tables. Only a status with ``each_table`` has their positions."""
    tables = sorted(status["tables"].items(), key=_weight)
    rows: list[tuple[str, ...]] = [
        (
            name,
            table["path"],
            str(table["version"]),
            table.get("position", "") + " (ahead)" * table.get("ahead", False),
            f"{table['write_seconds']:,}",
            f"{table['row_changes']:,}",
            f"{table['row_changes_per_s']:,}",
        )
        for name, table in tables[:TABLES_MOST]
    ]
    more = len(tables) - TABLES_MOST
    return rows + ([(f"... and {more:,} more", *[""] * 6)] if more > 0 else [])


def _weight(item: tuple[str, Mapping[str, Any]]) -> tuple[float, int]:
    _, table = item
    return -table["write_seconds"], -table["row_changes"]


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


def _copies(status: Status) -> Iterator[str]:
    """Yield the progress of a copy and of a rewrite, and the tables that wait for a copy."""
    if copy := status["copy"]:
        more = copy["number"] - len(copy["tables"])
        names = ", ".join(copy["tables"]) + (f" and {more:,} more" if more else "")
        text = f"Copy of {names}: {copy['rows']:,} of about {copy['expected']:,} rows"
        yield progress_bar(text, copy["rows"], copy["expected"])
    if rewrite := status["statements"]["rewrite"]:
        text = f"Rewrite of {rewrite['table']}: {rewrite['done']:,} of {rewrite['files']:,} files"
        yield progress_bar(text, rewrite["done"], rewrite["files"])
    waiting = [
        (name, why["since"], why["reason"], why["copy"]) for name, why in status["waiting"].items()
    ]
    if waiting:
        yield html_table(
            "Tables that wait for a copy", ("table", "since", "reason", "copy"), waiting
        )

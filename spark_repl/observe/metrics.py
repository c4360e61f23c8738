"""Metrics: a status in Prometheus' text format, for `status --metrics` and for the endpoint.

Times are in seconds, by the source's and this machine's clock. Counters count from the start of the
applier's run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from .reports.latency import BOUNDS_S
from .reports.verify_status import (
    open_failed_comparisons,
    unrepaired_foreign_changes,
    unrepaired_rows,
)

Sample = tuple[str, str, float]
_COMMIT = "LAST_PROCESSED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"
_CUT = "LAST_PROCESSED_TRANSACTION_END_BUFFER_TIMESTAMP"
_COUNTERS = {
    "transactions": "Transactions that were applied",
    "row_changes": "Row changes that were applied",
    "groups": "Groups of transactions that were committed",
    "cuts_published": "Cuts that were published",
    "skipped": "Transactions that were left out by hand",
    "zero_dates": "Dates that no calendar has, which became NULL",
    "text_errors": "Values in which bytes without a character became U+FFFD",
}


class _StatusCollector(Collector):
    """One status as metric families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def metrics(status: dict[str, Any]) -> str:
    """Return a status in Prometheus' text format. ``status``: the dict of ``status.status``."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StatusCollector(_families(status)))
    return generate_latest(registry).decode()


def _families(status: dict[str, Any]) -> Iterator[Metric]:
    (applier,) = status["replication_applier_status"]
    channel = applier["CHANNEL_NAME"]
    gauges: dict[str, GaugeMetricFamily] = {}
    for name, text, value in (*_samples(status, applier), *_lag(status), *_stream(status)):
        gauge = gauges[name] = gauges.get(name) or _gauge(name, text)
        gauge.add_metric([channel], float(value))
    yield from gauges.values()
    version = _gauge("table_version", "Delta version at the last cut", "table")
    changes = _counter("table_row_changes", "Row changes of a table", "table")
    for name, table in status["tables"].items():
        version.add_metric([channel, _label(name)], table["version"])
        if table["row_changes"]:
            changes.add_metric([channel, _label(name)], table["row_changes"])
    filtered = _counter("row_filter_left_out", "Row changes that row_filter has left out", "table")
    for name, count in status["row_filters"].items():
        filtered.add_metric([channel, _label(name)], count)
    passed = _counter("passed_over", "Row changes left out by mode append or copy = none", "table")
    for name, count in status["passed_over"].items():
        passed.add_metric([channel, _label(name)], count)
    requests = _counter("store_requests", "Requests to the object store, by kind", "kind")
    for kind, count in status.get("store_requests", {}).items():
        requests.add_metric([channel, kind], count)
    repeats = _counter("store_repeats", "Repeated requests to the object store", "reason")
    for reason, count in status.get("store_repeats", {}).items():
        repeats.add_metric([channel, reason], count)
    paused = _counter("store_paused_seconds", "Pauses before repeated requests to the object store")
    paused.add_metric([channel], status.get("store_paused_s", 0))
    ways = _gauge("statements", "Statements of the last run, by the way they were taken", "way")
    for way, count in status["statements"]["counts"].items():
        ways.add_metric([channel, way], count)
    yield from (version, changes, filtered, passed, requests, repeats, paused, ways)
    for name, text in _COUNTERS.items():
        counter = _counter(name, text)
        counter.add_metric([channel], status["counters"].get(name.removesuffix("_published"), 0))
        yield counter
    yield _commit_to_cut(status["commit_to_cut"], channel)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"spark_repl_{name}", text, labels=["channel", *labels])


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"spark_repl_{name}", text, labels=["channel", *labels])


def _label(name: str) -> str:
    """Return a source's name as valid UTF-8. prometheus-client escapes the rest."""
    return name.encode("utf-8", "backslashreplace").decode()


def _commit_to_cut(histogram: dict[str, Any], channel: str) -> HistogramMetricFamily:
    family = HistogramMetricFamily(
        "spark_repl_commit_to_cut_seconds",
        "From a transaction's commit on the source to the cut that shows it", labels=["channel"],
    )  # fmt: skip
    bounds = histogram.get("bounds_s", BOUNDS_S)
    counts = histogram.get("counts") or [0] * (len(bounds) + 1)
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    buckets = list(zip(names, accumulate(counts), strict=True))
    family.add_metric([channel], buckets, histogram.get("sum_s", 0.0))
    return family


def _lag(status: dict[str, Any]) -> Iterator[Sample]:
    """Yield the lags that are known."""
    for who, what in (
        ("applier", "the applier is behind what was received"),
        ("receiver", "the receiver is behind the source"),
    ):
        lag = status["lag"][who]
        if lag["seconds"] is not None:
            yield f"{who}_lag_seconds", f"Seconds that {what}", lag["seconds"]
        if lag["transactions"] is not None:
            yield f"{who}_lag_transactions", f"Transactions that {what}", lag["transactions"]


def _stream(status: dict[str, Any]) -> Iterator[Sample]:
    """Yield the figures of the last batch of Spark's stream."""
    if batch := status["stream"]:
        yield "stream_batch", "Number of Spark's last batch", batch["batch"]
        yield "stream_batch_transactions", "Transactions in Spark's last batch", batch["rows"]
        yield "stream_batch_seconds", "How long applying Spark's last batch took", batch["seconds"]


def _verified(verified: dict[str, Any] | None) -> Iterator[Sample]:
    """Yield the result of the last verify, if there was one."""
    if verified is None:
        return
    at = datetime.fromisoformat(verified["at"]).timestamp()
    yield "verify_timestamp_seconds", "When the last verify ended", at
    yield "verify_rows", "Rows that the last verify has compared", verified["rows"]
    for counted, what in (
        ("differing", "Rows that differ from the source's, of tables that were not mended since"),
        ("undecided", "Rows that changed at every look, of tables that were not mended since"),
    ):
        yield f"verify_{counted}_rows", what, sum(unrepaired_rows(verified, counted).values())
    count = len(open_failed_comparisons(verified))
    yield "verify_tables_not_compared", "Tables that could not be compared", count
    changed = len(unrepaired_foreign_changes(verified))
    yield "verify_tables_by_others", "Tables that another writer had changed since", changed


def _samples(status: dict[str, Any], applier: dict[str, Any]) -> Iterator[Sample]:
    yield "applier_running", "1 while an applier owns the target", applier["SERVICE_STATE"] == "ON"
    crashed = status["state"] == "crashed"
    yield "applier_crashed", "1 when it is gone and has not said that it ends", crashed
    failed = status["state"] == "failed"
    yield "applier_failed", "1 when an error has stopped it", failed
    retries = applier["COUNT_TRANSACTIONS_RETRIES"]
    yield "applier_retries", "Attempts after temporary failures, of the last run", retries
    tasks = applier["COUNT_TASK_RETRIES"]
    yield "applier_task_retries", "Spark's own attempts at tasks, of the last run", tasks
    yield "cuts", "Cuts that are kept", status["cuts"]
    (coordinator,) = status["replication_applier_status_by_coordinator"]
    for column, name, text in (
        (_COMMIT, "source_commit_timestamp_seconds", "When the last cut's last transaction was"
         " committed on the source"),
        (_CUT, "cut_timestamp_seconds", "When the last cut was published"),
    ):  # fmt: skip
        if coordinator[column]:
            yield name, text, datetime.fromisoformat(coordinator[column]).timestamp()
    branches = status["xa_recover"]
    yield "xa_prepared", "Prepared XA branches", len(branches)
    yield "xa_prepared_old", "Those older than xa_age_limit_s", sum(b["old"] for b in branches)
    size = sum(branch["bytes"] for branch in branches)
    yield "xa_prepared_bytes", "Bytes of prepared XA branches", size
    oldest = max((branch["age_s"] for branch in branches), default=0)
    yield "xa_prepared_age_seconds", "Age of the oldest prepared XA branch", oldest
    yield "tables_waiting", "Tables that no cut shows until they are copied", len(status["waiting"])
    quarantined = status["quarantined"].values()
    yield "tables_quarantined", "Tables that stand still in quarantine", len(quarantined)
    count = sum(table["transactions"] for table in quarantined)
    yield "quarantined_transactions", "Transactions that are kept and not applied", count
    size = sum(table["bytes"] for table in quarantined)
    yield "quarantined_bytes", "Bytes of the log that are kept of them", size
    yield "problems", "What status names as wrong", len(status["problems"])
    for receiver in status["replication_connection_status"]:
        connected = receiver["SERVICE_STATE"] == "ON"
        yield "receiver_connected", "1 while the receiver is connected to the source", connected
        yield "relay_log_bytes", "Size of the relay log", receiver["RELAY_LOG_SPACE"]
    yield from _verified(status.get("verify"))
    yield "look_timestamp_seconds", "When this look was taken", time.time()

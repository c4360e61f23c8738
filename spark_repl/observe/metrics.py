"""Metrics: one look at a target in Prometheus' text format, for `status --metrics`.

For a collector that reads files (node_exporter's textfile collector) or runs a command. Times are
the source's and this machine's clock, in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

Sample = tuple[str, str, float]
_COMMIT = "LAST_PROCESSED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"
_CUT = "LAST_PROCESSED_TRANSACTION_END_BUFFER_TIMESTAMP"


def metrics(status: dict[str, Any]) -> str:
    """One look in Prometheus' text format. ``status``: what the function of that name returns."""
    registry = CollectorRegistry()
    (applier,) = status["replication_applier_status"]
    channel = applier["CHANNEL_NAME"]
    for name, text, value in _samples(status, applier):
        Gauge(f"spark_repl_{name}", text, ["channel"], registry=registry).labels(channel).set(value)
    version = Gauge(
        "spark_repl_table_version", "Delta version at the last cut", ["channel", "table"],
        registry=registry,
    )  # fmt: skip
    for name, table in status["tables"].items():
        version.labels(channel, name).set(table["version"])
    return generate_latest(registry).decode()


def _samples(status: dict[str, Any], applier: dict[str, Any]) -> Iterator[Sample]:
    yield "applier_running", "1 while an applier owns the target", applier["SERVICE_STATE"] == "ON"
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
    for receiver in status["replication_connection_status"]:
        connected = receiver["SERVICE_STATE"] == "ON"
        yield "receiver_connected", "1 while the receiver is connected to the source", connected
        yield "relay_log_bytes", "Size of the relay log", receiver["RELAY_LOG_SPACE"]
    yield "look_timestamp_seconds", "When this look was taken", time.time()

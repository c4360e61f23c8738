"""Lag, rates and latency, each by itself."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

import numpy as np
import pytest

from spark_repl.control.table.cut import Cut
from spark_repl.observe.reports.latency import BOUNDS_S, Latency, quantile
from spark_repl.observe.reports.rates import Rates, rates_per_s, table_rates
from spark_repl.observe.status.lag import Lag, applier_lag, receiver_lag

UUID = "11111111-2222-3333-4444-555555555555"
NOW = 2_000_000_000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    found = [NOW]
    monkeypatch.setattr(time, "time", lambda: found[0])
    return found


def cut(gnos="1-5", ago=100.0):
    source = {"commit_time": int((NOW - ago) * 1e6)}
    return Cut(0, f"{UUID}:{gnos}", "", source, {})


def receiver(gnos="1-5", state="ON", heartbeat=0.0):
    text = datetime.fromtimestamp(heartbeat, UTC).isoformat() if heartbeat else ""
    return {"RECEIVED_TRANSACTION_SET": gnos and f"{UUID}:{gnos}", "SERVICE_STATE": state,
            "LAST_HEARTBEAT_TIMESTAMP": text, "RELAY_LOG_FILE": 3}  # fmt: skip


def test_the_applier_is_behind_what_was_received():
    # Scenario 117: no lag where all is applied, whatever comes.
    seen = {"log": {"transactions": 9, "oldest": NOW - 7, "newest": NOW - 1, "seen": NOW}}
    assert applier_lag(seen, cut(), receiver(), running=True) == Lag(0, 0.0)
    assert applier_lag(seen, cut(), receiver("1-8"), running=True) == Lag(3, 7.0)
    assert applier_lag(seen, cut(), receiver("1-8"), running=False) == Lag(3, 100.0, True)
    assert applier_lag({}, cut(), receiver("1-8"), running=True) == Lag(3, 100.0, True)
    assert applier_lag({}, None, receiver("1-8"), running=True) == Lag(8, None)


def test_without_gtids_the_applier_says_it_while_it_runs():
    seen = {"log": {"transactions": 9, "oldest": NOW - 7, "newest": NOW - 1, "seen": NOW}}
    assert applier_lag(seen, cut(), receiver(""), running=True) == Lag(9, 7.0)
    assert applier_lag(seen, cut(), None, running=False) == Lag(None, None)
    nothing = {"log": seen["log"] | {"transactions": 0, "oldest": 0.0}}
    assert applier_lag(nothing, cut(), None, running=True) == Lag(0, 0.0)


def test_the_receiver_is_behind_the_source(tmp_path):
    file = tmp_path / "relay-bin.000003"
    file.touch()
    from spark_repl.relay.file_list import file_name

    file = file.rename(tmp_path / file_name(3))
    os.utime(file, (NOW - 50, NOW - 50))
    live = {"log": {"newest": NOW - 90, "seen": NOW - 48}}
    folder = str(tmp_path)
    assert receiver_lag(live, receiver(heartbeat=NOW - 10), folder) == Lag(0, 0.0)
    assert receiver_lag(live, receiver(heartbeat=NOW - 60), folder) == Lag(None, 42.0)
    assert receiver_lag({}, receiver(), folder) == Lag(None, None)
    assert receiver_lag(live, receiver(state="CONNECTING", heartbeat=NOW), folder) == Lag(
        None, None
    )
    assert receiver_lag(live, None, folder) == Lag(None, None)


def test_rates_are_of_the_last_minute_and_fall(clock):
    made = Rates()
    made.count({"t.a": 600})
    made.seconds = {"t.a": 1.23456}
    clock[0] += 60
    said = made.fields(100, 600)
    assert rates_per_s(said, running=True) == {"transactions_per_s": 1.7, "row_changes_per_s": 10.0}
    assert table_rates(said, "t.a", running=True) == {
        "row_changes": 600, "row_changes_per_s": 10.0, "write_seconds": 1.235,
    }  # fmt: skip
    assert table_rates(said, "t.b", running=True) == {
        "row_changes": 0, "row_changes_per_s": 0.0, "write_seconds": 0.0,
    }  # fmt: skip
    earlier = {**said, "tables": {"t.a": [600, 600]}}
    assert table_rates(earlier, "t.a", running=True)["write_seconds"] == 0.0
    assert rates_per_s(said, running=False)["row_changes_per_s"] == 0.0
    clock[0] += 60
    assert rates_per_s(said, running=True)["row_changes_per_s"] == 5.0, "nobody has written since"
    assert rates_per_s(made.fields(100, 600), running=True)["row_changes_per_s"] == 0.0
    assert rates_per_s({}, running=True) == {"transactions_per_s": 0.0, "row_changes_per_s": 0.0}


def test_latency_counts_when_the_cut_comes(clock):
    made = Latency()
    made.landed(np.array([0, (NOW - 2) * 1e6, (NOW - 0.05) * 1e6, (NOW + 9) * 1e6], np.int64))
    assert sum(made.fields()["counts"]) == 0 and quantile(made.fields(), 0.5) is None
    clock[0] += 5
    made.landed(np.array([(NOW - 10**6) * 1e6], np.int64))
    made.cut()
    made.cut()
    counts = dict(zip([*BOUNDS_S, "more"], made.fields()["counts"], strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {
        0.1: 1, 10.0: 2, "more": 1,
    }  # fmt: skip
    assert quantile(made.fields(), 0.5) == 10.0 and quantile(made.fields(), 1) == float("inf")
    assert made.fields()["sum_s"] == pytest.approx(7 + 5.05 + 0 + 10**6 + 5)


def test_latency_is_bounded_while_no_cut_comes(clock):
    made = Latency()
    for number in range(10):
        made.landed(np.full(100_000, int((NOW - number) * 1e6), np.int64))
    kept = sum(len(times) for times, _ in made._waiting)
    assert kept < 300_000
    made.cut()
    assert sum(made.fields()["counts"]) == 1_000_000

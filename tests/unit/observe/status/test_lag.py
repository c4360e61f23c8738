"""Lag of the receiver and of the applier."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

import pytest

from spark_repl.control.table.cut import Cut
from spark_repl.observe.status.lag import Lag, applier_lag, receiver_lag
from spark_repl.relay.file_list import file_name

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

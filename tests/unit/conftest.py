"""Fixtures of several unit tests: relay logs, and a control table."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.control.table import control as control_module
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from tests.support.binlog_writer import LogWriter, insert
from tests.support.relay_reader import T, receive_into


@pytest.fixture(autouse=True)
def no_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of this process are not renewed during a test, however long it takes. Tests count
    what is synced, removed and requested."""
    monkeypatch.setattr(control_module, "LEASE_S", 3600)


@pytest.fixture
def source(tmp_path: Path) -> LogWriter:
    found = LogWriter(tmp_path / "source")
    found.ddl(T.create)
    for key in range(30):
        found.transaction(insert(T, (key, "x" * 30)))
    return found


@pytest.fixture
def relay(tmp_path: Path, source: LogWriter) -> Path:
    """A receiver's log of many files."""
    return receive_into(tmp_path / "relay", source)


@pytest.fixture
def control(tmp_path: Path) -> Control:
    """This process owns it."""
    made = Control(Layout(str(tmp_path)).control)
    made.claim()
    return made

"""A clock that tests of reports set."""

from __future__ import annotations

import time

import pytest


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds since 1970 that ``time.time()`` returns: its one element."""
    moment = [2_000_000_000.0]
    monkeypatch.setattr(time, "time", lambda: moment[0])
    return moment

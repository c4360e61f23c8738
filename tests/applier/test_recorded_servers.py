"""Logs that other servers have written: their CREATE TABLE and their TABLE_MAPs are of one mind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.local_delta import last_shown, run

SERVERS = Path(__file__).parents[1] / "fixtures" / "servers"


@pytest.mark.parametrize("version", [path.name for path in sorted(SERVERS.iterdir())])
def test_logs_of_every_recorded_server_are_applied(version: str, tmp_path: Path) -> None:
    """8.0.15 says of no YEAR that it is unsigned."""
    expected = json.loads((SERVERS / version / "expected.json").read_text("utf-8"))
    assert run(SERVERS / version, tmp_path / "lake", keys={"zero_dates": "string"})
    shown = last_shown(tmp_path / "lake")
    assert {name: len(rows) for name, rows in shown.items()} == {
        f"old.{name}": len(rows) for name, rows in expected.items()
    }

"""Every type of a recorded server in forms that are not the usual ones (spark/test_types.py)."""

from __future__ import annotations

import pytest

from tests.spark.test_types import FOLDER, check

MINIMAL = FOLDER.with_name("minimal_metadata")
OTHER = {"zero_dates": "string", "time_as": "microseconds", "geometry_as": "binary"}


@pytest.mark.parametrize("bound", [1000, pytest.param(1, marks=pytest.mark.soak)])
def test_tables_end_as_the_servers(engine, target, bound):
    """From the log of the same statements whose events name no columns
    (binlog_row_metadata=MINIMAL)."""
    check(engine, MINIMAL, target, OTHER, bound)

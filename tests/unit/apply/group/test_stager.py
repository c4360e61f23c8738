"""Which transactions of a group a table has already."""

from __future__ import annotations

import uuid
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from spark_repl import Config
from spark_repl.apply.group.stager import Stager
from spark_repl.gtid import GtidSet
from spark_repl.relay.record import RECORD
from spark_repl.schedule.group import Group

_SOURCE = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(("position", "held", "already"), [(20, 3, 2), (20, 1, 1), (0, 3, 1)])
def test_what_a_table_has_by_its_position_and_by_gtid(
    tmp_path: Path, position: int, held: int, already: int
) -> None:
    """Of this log, behind a crash, and from a copy, or of another log: neither comes twice."""
    records = np.zeros(3, RECORD)
    records["position"], records["end"] = [10, 20, 30], [20, 30, 40]
    records["uuid"], records["gno"] = uuid.UUID(_SOURCE).bytes, [1, 2, 3]
    tracking, catch_up = MagicMock(), MagicMock()
    tracking.layout.staging.return_value = str(tmp_path / "staging")
    table = MagicMock(position=position)
    table.name = "t.a"
    tracking.tables, tracking.ahead.return_value = {"t.a": table}, {}
    catch_up.held.return_value = {"t.a": GtidSet.parse(f"{_SOURCE}:{held}")}
    workers = MagicMock(**{"has_own_disks.return_value": False})
    stager = Stager(Config(), MagicMock(), tracking, workers, MagicMock(), MagicMock(), catch_up)
    group = Group.of(records, np.zeros(3, np.int32), 1)
    assert stager.read(group, workers=()).already == already

"""When rows that were read can't be taken in, whatever the log says of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from spark_repl.apply.start.repair_rows import RowRepairs
from spark_repl.control.table.cut import Cut
from spark_repl.errors import RowsOutdated
from spark_repl.gtid import GtidSet
from spark_repl.relay.record import RECORD
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.rows.row_repair import RowsToRepair

SET = "11111111-2222-3333-4444-555555555555:1-"
CUT = Cut(100, f"{SET}3", "log", {}, {}, group_gtids="")


def definition(create: str = "CREATE TABLE t.a (id INT PRIMARY KEY)") -> Any:
    created = classify(create, "t").definition
    assert created is not None
    return TargetTable.mirror_of(created)


OTHER = definition("CREATE TABLE t.a (i INT PRIMARY KEY)")


class Opened:
    """An applier that has been opened, with one table at the cut."""

    def __init__(self) -> None:
        self.stager, self.applied, self.point = MagicMock(), MagicMock(), MagicMock()
        self.table = MagicMock(path="t/a", position=100, definition=definition())
        self.table.columns.fits.return_value = True
        self.tracking = tracking = self.stager.tracking
        tracking.waiting = {}
        tracking.quarantines.return_value = {}
        tracking.tables = {"t.a": self.table}
        tracking.live.return_value = self.table
        tracking.is_ahead.return_value = False
        tracking.control.last_cut.return_value = CUT
        self.point.cut, self.point.copy, self.point.by_hand = CUT, None, 0
        keys = np.zeros(1, np.uint64)
        behind = Cut(50, f"{SET}2", "log", {}, {}, group_gtids="")
        self.rows = RowsToRepair(definition(), "t/a", keys, behind, GtidSet.parse(f"{SET}3"), ())

    def refused(self) -> BaseException | None:
        writer = MagicMock()
        RowRepairs(self.stager, writer, self.applied).carry_out(self.rows, self.point)
        assert self.rows.outcome.done()
        return self.rows.refused


@pytest.mark.parametrize(
    ("change", "why", "again"),
    [
        (lambda o: o.tracking.waiting.update({"t.a": MagicMock(reason="x")}), "waits for", False),
        (lambda o: setattr(o.table, "path", "t/a@2"), "was replaced", True),
        (lambda o: setattr(o.tracking.live, "return_value", None), "was replaced", True),
        (lambda o: setattr(o.table, "definition", MagicMock(truncated=True,
            primary_key=(0,), columns=definition().columns)), "TRUNCATE", False),
        (lambda o: setattr(o.point, "copy", MagicMock()), "a copy is taken in", True),
        (lambda o: setattr(o.point, "cut", None), "a copy is taken in", True),
        (lambda o: setattr(o.point, "by_hand", 1), "ahead", True),
        (lambda o: setattr(o.tracking.is_ahead, "return_value", True), "ahead", True),
        (lambda o: setattr(o.tracking.control.last_cut, "return_value", Cut(200, "", "log", {},
            {}, group_gtids="")), "ahead", True),
        (lambda o: setattr(o, "rows", replace(o.rows, behind=Cut(50, f"{SET}2", "other", {}, {},
            group_gtids=""))), "another relay log", True),
        (lambda o: setattr(o, "rows", replace(o.rows, definition=OTHER)), "other columns", True),
    ],
)  # fmt: skip
def test_rows_read_for_a_repair_are_refused_with_a_reason(
    change: Any, why: str, again: bool
) -> None:
    opened = Opened()
    change(opened)
    error = opened.refused()
    assert error and why in str(error) and isinstance(error, RowsOutdated) == again


def test_the_key_that_the_log_has(tmp_path: Path) -> None:
    opened = Opened()
    records = np.zeros(1, RECORD)
    logged = {"t.a": definition("CREATE TABLE t.a (id INT, other INT, PRIMARY KEY (other))")}
    staged = opened.stager.stage_table.return_value
    staged.by_worker, staged.folder = [MagicMock(definitions=logged)], str(tmp_path)
    opened.table.definition = definition()
    repairing = RowRepairs(opened.stager, MagicMock(), opened.applied)
    with pytest.raises(RowsOutdated, match="another key"):
        repairing._holds_key(opened.rows, opened.table, records)
    assert not tmp_path.exists(), "what was staged is dropped"

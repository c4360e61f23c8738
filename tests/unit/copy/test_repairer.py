"""Requests to repair rows: what a file says, and what becomes of one, without a source."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest

from spark_repl import Config
from spark_repl.control.records.repair_results import KIND, RepairResult, repair_results
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.copy.repair_request import KEY, THERE, RepairRequest, leave, left
from spark_repl.copy.repairer import Repairer
from spark_repl.errors import (
    FormatError,
    RowsFailed,
    RowsOutdated,
    RowsRefused,
    SchemaError,
    SourceError,
)
from spark_repl.gtid import GtidSet
from spark_repl.write.rows.row_repair import RowsToRepair
from tests.support.local_delta import at_once

KEYS = pa.table({
    KEY: pa.array([7, 3], pa.uint64()), THERE: [True, False], "0": pa.array([1, None], pa.int32()),
})  # fmt: skip
REQUEST = RepairRequest("t.a", ("WHERE `id` <= 9",), ("id int32",), KEYS)


def test_a_request_round_trips_through_its_file(tmp_path: Path) -> None:
    path = tmp_path / "1.repair"
    path.write_bytes(REQUEST.to_bytes())
    found = RepairRequest.read(path)
    assert (found.table, found.wheres, found.key) == ("t.a", REQUEST.wheres, REQUEST.key)
    assert found.keys.equals(KEYS) and found.digests.tolist() == [3, 7]
    path.write_bytes(REQUEST.to_bytes().replace(b'"format": 1,', b'"format": 9,'))
    with pytest.raises(FormatError, match="format 9"):
        RepairRequest.read(path)
    path.write_bytes(b"no Arrow file")
    with pytest.raises(FormatError, match="asks for no rows"):
        RepairRequest.read(path)


class Owner:
    """A target that is owned, and an applier that answers each time it is asked."""

    def __init__(self, target: Path, *answers: RowsRefused | RowsFailed | None) -> None:
        self.config = Config().override({"target.path": str(target)})
        self.folder = Path(Layout.of(self.config.target).requests)
        self.control = Control(Layout(str(target)).control, "default")
        self.control.claim()
        self.control.publish(Cut(7, "", "log", {}, {}))
        self.applier = MagicMock()
        self.applier.control = self.control
        self.applier.requests = self.folder
        self.applier.executed = GtidSet()
        self.applier.take_rows = self._take_rows
        self.applier.take_in = self._answer
        self.answers = list(answers)

    def _take_rows(self, rows: RowsToRepair) -> None:
        self.rows = rows

    def _answer(self) -> None:
        rows = self.rows
        if refused := self.answers.pop(0):
            rows.outcome.set_exception(refused)
        else:
            rows.outcome.set_result(5)

    def repairer(self, *raised: Exception) -> Repairer:
        """That waits for nothing; the first readings raise these errors."""
        left = list(raised)

        def read(*_: Any) -> RowsToRepair:
            if left:
                raise left.pop(0)
            keys, parts = np.zeros(0, np.uint64), (MagicMock(rows=2),)
            return RowsToRepair(MagicMock(), "t/a", keys, MagicMock(), GtidSet(), parts)

        stop = threading.Event()
        applier, wait = self.applier, at_once
        return Repairer(MagicMock(), self.config, applier, stop, reads=read, wait=wait)


def test_read_until_nothing_changed(tmp_path: Path) -> None:
    """A row that was changed, a table that a statement changes: read again. Each request is
    answered once, the oldest first, and leaves nothing behind."""
    owner = Owner(tmp_path, RowsOutdated("a row was changed"), None, RowsRefused("no"))
    names = [leave(owner.folder, REQUEST) for _ in range(2)]
    folder = owner.folder
    one = owner.repairer(
        RowsOutdated("a copy"), SchemaError("other columns"), SourceError("no column")
    )
    assert one.waits()
    one.carry_out()
    answer = repair_results(owner.control)[names[0]]
    assert (answer.asked, answer.table) == (names[0], "t.a")
    assert (answer.keys, answer.rows, answer.version, answer.refused) == (2, 2, 5, "")
    assert [path.name for path in left(folder)] == names[1:]
    one.carry_out()
    said = repair_results(owner.control)
    assert said[names[0]] == answer, "who asked first, and looks now, finds it"
    assert said[names[1]].refused == "no"
    assert not one.waits() and not list(folder.iterdir())


def test_an_error_is_no_reason_for_a_copy(tmp_path: Path) -> None:
    """The answer has it apart from why rows are refused."""
    owner = Owner(tmp_path, RowsFailed("a bug"))
    name = leave(owner.folder, REQUEST)
    owner.repairer().carry_out()
    answer = repair_results(owner.control)[name]
    assert (answer.failed, answer.refused) == ("a bug", "")


def test_an_answer_of_a_version_without_errors(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    text = (
        '{"asked": "1.repair", "table": "t.a", "keys": 1, "rows": 1, "version": 5, "refused": ""}'
    )
    owner.control.write(KIND, detail=text)
    assert repair_results(owner.control)["1.repair"] == RepairResult("1.repair", "t.a", 1, 1, 5)


def test_a_repair_gives_up_after_8_attempts_on_changing_rows(tmp_path: Path) -> None:
    owner = Owner(tmp_path, *[RowsOutdated("a row was changed")] * 8)
    name = leave(owner.folder, REQUEST)
    owner.repairer().carry_out()
    assert repair_results(owner.control)[name].refused == "a row was changed, at each of 8 attempts"


def test_an_unreadable_request_fails_with_a_reason(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    folder = owner.folder
    folder.mkdir(parents=True)
    (folder / "1.repair").write_bytes(b"x")
    owner.repairer().carry_out()
    assert "asks for no rows" in repair_results(owner.control)["1.repair"].refused
    name = leave(owner.folder, REQUEST)
    owner.repairer().fail("it failed")
    answer = repair_results(owner.control)[name]
    assert (answer.failed, answer.refused) == ("it failed", "") and not left(folder)

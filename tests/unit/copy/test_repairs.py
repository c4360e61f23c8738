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
from spark_repl.apply.read_rows import Again, Refused, RowsToRepair
from spark_repl.control.control import Control
from spark_repl.control.layout import Layout
from spark_repl.control.repairs import last_repair
from spark_repl.copy import repairer
from spark_repl.copy.repair_request import KEY, THERE, RepairRequest, leave, left
from spark_repl.copy.repairer import Repairer
from spark_repl.errors import FormatError, SchemaError, SourceError
from spark_repl.gtid import GtidSet

KEYS = pa.table({
    KEY: pa.array([7, 3], pa.uint64()), THERE: [True, False], "0": pa.array([1, None], pa.int32()),
})  # fmt: skip
REQUEST = RepairRequest("t.a", ("WHERE `id` <= 9",), ("id int32",), KEYS)


def test_a_request(tmp_path: Path) -> None:
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

    def __init__(self, target: Path, *answers: Refused | None) -> None:
        self.config = Config().override({"target.path": str(target)})
        self.control = Control(Layout(str(target)).control, "default")
        self.control.claim()
        self.applier = MagicMock()
        self.applier.control = self.control
        self.applier.executed = GtidSet()
        self.applier.take_rows = self._take_rows
        self.applier.take_in = self._answer
        self.answers = list(answers)

    def _take_rows(self, rows: RowsToRepair) -> None:
        self.rows = rows

    def _answer(self) -> None:
        rows = self.rows
        rows.refused, rows.version = self.answers.pop(0), 5
        rows.done.set()

    def repairer(self) -> Repairer:
        return Repairer(MagicMock(), self.config, self.applier, threading.Event())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Nothing is waited for; what is to be raised, or None, for each reading, else rows are
    read."""
    raised: list[Any] = []

    def read(*args: Any) -> RowsToRepair:
        if raised and (error := raised.pop(0)):
            raise error
        keys = np.zeros(0, np.uint64)
        return RowsToRepair(MagicMock(), "t/a", keys, MagicMock(), GtidSet(), (MagicMock(rows=2),))

    monkeypatch.setattr(repairer, "read", read)
    monkeypatch.setattr(repairer, "last_cut", lambda control: None)
    monkeypatch.setattr(Repairer, "_pause", lambda self, seconds: None)
    return raised


def test_read_until_nothing_changed(tmp_path: Path, at_once: list[Any]) -> None:
    """A row that was changed, a table that a statement changes: read again. Each request is
    answered once, the oldest first, and leaves nothing behind."""
    owner = Owner(tmp_path, Again("a row was changed"), None, Refused("no"))
    names = [leave(owner.config, REQUEST) for _ in range(2)]
    folder = Path(Layout.of(owner.config.target).requests)
    at_once += [Again("a copy"), SchemaError("other columns"), SourceError("no column")]
    one = owner.repairer()
    assert one.waits()
    one.carry_out()
    answer = last_repair(owner.control)
    assert answer and (answer.asked, answer.table) == (names[0], "t.a")
    assert (answer.keys, answer.rows, answer.version, answer.refused) == (2, 2, 5, "")
    assert [path.name for path in left(folder)] == names[1:]
    one.carry_out()
    answer = last_repair(owner.control)
    assert answer and (answer.asked, answer.refused) == (names[1], "no")
    assert not one.waits() and not list(folder.iterdir())


def test_changed_each_time(tmp_path: Path) -> None:
    owner = Owner(tmp_path, *[Again("a row was changed")] * 8)
    leave(owner.config, REQUEST)
    owner.repairer().carry_out()
    answer = last_repair(owner.control)
    assert answer and answer.refused == "a row was changed, at each of 8 attempts"


def test_what_nobody_can_read(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    folder = Path(Layout.of(owner.config.target).requests)
    folder.mkdir(parents=True)
    (folder / "1.repair").write_bytes(b"x")
    owner.repairer().carry_out()
    answer = last_repair(owner.control)
    assert answer and answer.asked == "1.repair" and "asks for no rows" in answer.refused
    leave(owner.config, REQUEST)
    owner.repairer().refuse("it failed")
    answer = last_repair(owner.control)
    assert answer and answer.refused == "it failed" and not left(folder)

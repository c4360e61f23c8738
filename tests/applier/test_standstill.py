"""Without commit order no table is written while a cut is published. Otherwise the cut would show a
part of later transactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.decode.stage_task import Staged, StageTask
from spark_repl.decode.stage_worker import stage
from spark_repl.gtid import GtidSet
from spark_repl.write.tables.tracking import Tracking
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import HERE, LocalDelta, at_cut, cuts, run

TABLES = [Table("a"), Table("b"), Table("c")]
_CUT_S = 0.15  # time for a lane that would begin meanwhile


def read_while(making: threading.Event) -> Callable[[StageTask], Staged]:
    """Each group is read when the cut before it is being made."""

    def read(task: StageTask) -> Staged:
        making.wait(2 * _CUT_S)
        return stage(task)

    return read


def test_no_table_is_written_while_a_cut_is_made(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for table in TABLES:
        log.ddl(table.create)
    for key in range(4):
        log.transaction(insert(TABLES[key % 3], (key, "x")))
    making = threading.Event()
    meanwhile, made = list[str](), list[int]()

    class Delta(LocalDelta):
        def commit(self, planned: Any, *args: Any) -> int:
            if making.is_set():
                meanwhile.append(planned.folder)
            return super().commit(planned, *args)

    class Slow(Control):
        def publish(self, cut: Cut, *, later: bool = False) -> None:
            making.set()
            time.sleep(_CUT_S)  # a commit that does not wait for the cut would come now
            super().publish(cut, later=later)
            made.append(cut.position)
            making.clear()

    parts = replace(HERE, delta_log=Delta, control=Slow, stage=read_while(making))
    assert run(log.folder, target, parts=parts, preserve_commit_order=False,
               group_max_transactions=1)  # fmt: skip
    assert not meanwhile
    assert len(made) == len(cuts(target)) > len(TABLES)


def test_a_cut_shows_nothing_of_a_group_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is seen that no table is ahead none goes on, up to the look at their versions."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for table in TABLES:
        log.ddl(table.create)
    for key in range(4):
        log.transaction(*(insert(table, (key, "x")) for table in TABLES))
    making, true = threading.Event(), Tracking.is_ahead

    def slow(self: Tracking, *args: Any) -> bool:
        ahead = true(self, *args)
        making.set()
        time.sleep(_CUT_S)  # a commit that does not wait would come now
        making.clear()
        return ahead

    monkeypatch.setattr(Tracking, "is_ahead", slow)
    parts = replace(HERE, stage=read_while(making))
    assert run(log.folder, target, parts=parts, preserve_commit_order=False,
               group_max_transactions=1)  # fmt: skip
    for cut in cuts(target):
        keys = range(GtidSet.parse(cut.gtid_executed).count() - len(TABLES))
        for shown in at_cut(target, cut).values():
            assert shown == [(key, "x") for key in keys]
    assert len(keys) == 4

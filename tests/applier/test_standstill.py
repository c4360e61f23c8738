"""Without commit order: while a cut is made no table is written, or the cut would show a part of
what stands behind it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_repl.control.control import Control
from spark_repl.control.cut import Cut
from spark_repl.decode.stage import stage
from spark_repl.decode.staged import Staged, StageTask
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import HERE, LocalDelta, cuts, run

TABLES = [Table("a"), Table("b"), Table("c")]
_CUT_S = 0.15  # time for a lane that would begin meanwhile


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

    def read_then(task: StageTask) -> Staged:
        """Each group is read when the cut before it is being made."""
        making.wait(2 * _CUT_S)
        return stage(task)

    class Slow(Control):
        def publish(self, cut: Cut, *, later: bool = False) -> None:
            making.set()
            time.sleep(_CUT_S)
            super().publish(cut, later=later)
            made.append(cut.position)
            making.clear()

    parts = replace(HERE, delta_log=Delta, control=Slow, stage=read_then)
    assert run(log.folder, target, parts=parts, preserve_commit_order=False,
               group_max_transactions=1)  # fmt: skip
    assert not meanwhile
    assert len(made) == len(cuts(target)) > len(TABLES)

"""What a target on any object store must do: checks that the tests of each store share."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.errors import FencedError, TargetError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import cuts, rows, run


def check_fences(target: str) -> None:
    """An owner whose target was taken over publishes nothing."""
    with pytest.raises(TargetError, match="nothing has been applied"):
        Control.existing(target)
    first, second = (Control(Layout(target).control) for _ in range(2))
    assert first.claim() == 1
    first.publish(Cut(7, "", "log", {}, {}))
    assert second.claim(take_over=True) == 2
    with pytest.raises(FencedError, match="taken this target over"):
        first.publish(Cut(8, "", "log", {}, {}))
    second.publish(Cut(9, "", "log", {}, {}))
    assert [cut.position for cut in Control.existing(target).cuts()] == [7, 9]


def check_history(target: str, tmp_path: Path, steps: Iterable[int]) -> None:
    """Each crash also loses the machine: the applier continues from the object store alone."""
    log, a, b = LogWriter(tmp_path / "log"), Table("a"), Table("b")
    for statement in ("CREATE DATABASE t", a.create, b.create):
        log.ddl(statement)
    log.transaction(insert(a, (1, "x"), (2, "x")), insert(b, (1, "x")))
    log.xa_prepare((b"one", b"", 1), insert(a, (3, "xa")))
    log.transaction(update(a, ((1, "x"), (1, "y"))), delete(b, (1, "x")))
    log.transaction(insert(a, (4, "x")), delete(a, (2, "x")), insert(b, (5, "x")))
    log.xa_end("COMMIT", (b"one", b"", 1))
    log.transaction(update(a, ((4, "x"), (4, "y"))))
    for step in steps:
        assert not run(log.folder, target, crash=step, group_max_transactions=2)
        shutil.rmtree(tmp_path / "cache")
    assert run(log.folder, target, group_max_transactions=2)
    assert rows(target, a) == [(1, "y"), (3, "xa"), (4, "y")]
    assert rows(target, b) == [(5, "x")]
    last = cuts(target)[-1]
    for name, table in (("t.a", a), ("t.b", b)):
        assert rows(target, table, last.tables[name].version) == rows(target, table)

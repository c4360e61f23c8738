"""A commit that Delta refuses stops the applier with the table's name, and its folder as a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import TargetError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import HERE, LocalDelta, stopped

A = Table("a")


class Refusing(LocalDelta):
    """A log that takes no commit after the one that makes a table."""

    def commit(self, planned: Any, actions: Any, stamp: Any) -> int:
        raise TargetError("Delta refused the commit: no", file=planned.folder)

    def alter(self, planned: Any, new: Any, actions: Any, stamp: Any) -> int:
        raise TargetError("Delta refused the commit: no", file=planned.folder)


class MakingNone(LocalDelta):
    """A log that makes no table."""

    def create(self, folder: str, new: Any, stamp: Any) -> None:
        raise TargetError("Delta refused the commit: no", file=folder)


@pytest.mark.parametrize("delta_log", [Refusing, MakingNone])
@pytest.mark.parametrize("how", ["rows", "ALTER TABLE t.a ADD c INT", "TRUNCATE t.a"])
def test_the_table_is_named(tmp_path: Path, delta_log: type[LocalDelta], how: str) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    if how == "rows":
        log.transaction(insert(A, (1, "x")))
    else:
        log.ddl(how)
    error = stopped(log.folder, tmp_path / "lake", parts=replace(HERE, delta_log=delta_log))
    assert (error.table, error.file) == ("t.a", str(tmp_path / "lake" / "t" / "a"))

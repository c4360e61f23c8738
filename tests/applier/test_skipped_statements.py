"""Statements that a target refused after they were recorded, and that the user then skips. After
any later start the tables are as if the statements had not been logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.channels import channel_at
from spark_repl.control.records.database_charsets import KIND, DatabaseCharsets
from spark_repl.control.table import control as control_module
from spark_repl.errors import TargetError
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import LocalDelta, at_cut, cuts, last_shown, run, stopped

A = Table("a", (("id", "int"), ("v", "varchar(40)"), ("other", "int")))
UNDONE: dict[str, tuple[str, ...]] = {
    "column": ("ALTER TABLE t.a ADD m INT", "ALTER TABLE t.a DROP m"),
    "first": ("ALTER TABLE t.a ADD m INT FIRST", "ALTER TABLE t.a DROP m"),
    "name": ("ALTER TABLE t.a RENAME COLUMN v TO w", "ALTER TABLE t.a RENAME COLUMN w TO v"),
    "type": ("ALTER TABLE t.a MODIFY v TEXT", "ALTER TABLE t.a MODIFY v VARCHAR(40)"),
    "key": (
        "ALTER TABLE t.a DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
        "ALTER TABLE t.a DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
    ),
    "table": ("CREATE TABLE t.n (id INT PRIMARY KEY)", "DROP TABLE t.n"),
}  # fmt: skip


def skip(log: LogWriter, target: Path, *numbers: int) -> None:
    for number in numbers:
        assert main(["skip", "--gtid", log.gtid(number), "--target", str(target)]) == 0


def refuse(*args: Any) -> int:
    raise TargetError("Delta refused the commit: for good")


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("how", UNDONE)
def test_what_was_recorded_of_a_statement_goes_with_it(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch, how: str, pruned: bool
) -> None:
    """Also where the control table's superseded rows go between two starts."""
    log.ddl("ALTER TABLE t.a ADD other INT")
    log.transaction(insert(A, (1, "x", None)))
    assert run(log.folder, target)
    before = len(log.spans)
    for statement in UNDONE[how]:
        log.ddl(statement)
    with monkeypatch.context() as refusing:
        for name in ("alter", "create", "commit"):
            refusing.setattr(LocalDelta, name, refuse)
        assert isinstance(stopped(log.folder, target), TargetError)
    skip(log, target, before, before + 1)
    if pruned:
        monkeypatch.setattr(control_module, "_PRUNE_EVERY", 0)
    for key in range(2, 6):
        log.transaction(insert(A, (key, "y", key)), update(A, _pair(key)))
        assert run(log.folder, target)
    want = [(key, f"y{key + 1}", key) for key in range(2, 5)]
    assert last_shown(target) == {"t.a": [(1, "x5", None), *want, (5, "y", 5)], "t.b": []}
    for cut in cuts(target):
        at_cut(target, cut)  # each is read


def _pair(key: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Changes the row before the newest one."""
    if key == 2:
        return (1, "x", None), (1, "x5", None)
    return (key - 1, "y", key - 1), (key - 1, f"y{key}", key - 1)


def test_the_database_of_a_skipped_statement_has_an_unknown_charset(
    log: LogWriter, target: Path
) -> None:
    """Also where the statement was recorded before, by a start that got no further."""
    log.ddl("CREATE DATABASE d CHARACTER SET latin1")
    assert run(log.folder, target)
    control = channel_at(str(target)).control
    assert charsets(target)["d"] == "latin1"
    control.claim()
    control.write(
        KIND, position=cuts(target)[-1].position + 1, gtid_executed=log.gtid(4),
        detail='{"name": "d", "charset": "cp932"}',
    )  # fmt: skip
    control.release()
    log.ddl("ALTER DATABASE d CHARACTER SET cp932")
    skip(log, target, 4)
    for _ in range(2):
        assert run(log.folder, target)
        assert "d" not in charsets(target)


def charsets(target: Path) -> dict[str, str]:
    there = DatabaseCharsets(channel_at(str(target)).control)
    there.load(cuts(target)[-1])
    return there.charsets

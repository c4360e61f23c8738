"""Statements that follow each other: each has its cut, though several are published in one commit
of the control table; and what only statements change is looked after, too."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from spark_repl.apply.group import cut_publisher
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log.log_replay import Action
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.gtid import GtidSet
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import (
    CRASHES,
    HERE,
    LocalDelta,
    applier,
    apply_without_stream,
    cuts,
    run,
    stopped,
)
from tests.support.tended import finish
from tests.support.wait_until import wait_until

A = Table("a")


@pytest.fixture(autouse=True)
def patient():
    """However slow the machine is."""
    with patch.object(cut_publisher, "_HELD_BACK_S", 60.0):
        yield


def numbers(target: Path) -> list[int]:
    """How many transactions each cut shows."""
    return [GtidSet.parse(cut.gtid_executed).count() for cut in cuts(target)]


def renames(log: LogWriter, count: int) -> None:
    for number in range(count):
        log.ddl(f"RENAME TABLE t.a{number or ''} TO t.a{number + 1}")


def apply_until_statement(
    number: int, log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apply the log, and stop the applier after ``number`` statements."""
    hits = itertools.count(1)
    with applier(log.folder, target) as replica:

        def stop(point: str) -> None:
            if point == "after_statement" and next(hits) == number:
                replica.stop()

        monkeypatch.setattr(CRASHES, "told", stop)
        apply_without_stream(replica)


def test_each_has_its_cut_and_few_have_a_commit(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    renames(log, 40)
    with applier(log.folder, target) as replica:
        control = replica.tracking.control
        before = control._open().version
        apply_without_stream(replica)
        assert control._open().version - before < 10
    assert numbers(target) == list(range(1, 42))
    assert [list(cut.tables) for cut in cuts(target)[1:]] == [[f"t.a{n + 1}"] for n in range(40)]


def test_no_more_than_some_wait_for_a_commit(tmp_path, monkeypatch):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    renames(log, 20)
    monkeypatch.setattr(cut_publisher, "_HELD_BACK_MAX", 4)
    with applier(log.folder, target) as replica:
        control = replica.tracking.control
        before = control._open().version
        apply_without_stream(replica)
        assert 4 <= control._open().version - before < 10
    assert numbers(target) == list(range(1, 22))


def test_those_that_filters_leave_out_have_few_commits(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for number in range(40):
        log.ddl(Table(f"b{number}").create)
    log.ddl(A.create)
    with applier(log.folder, target, filters={"do_table": ["t.a"]}) as replica:
        control = replica.tracking.control
        before = control._open().version
        apply_without_stream(replica)
        assert control._open().version - before < 10
    assert numbers(target) == list(range(1, 42))
    assert list(cuts(target)[-1].tables) == ["t.a"]


def test_what_follows_publishes_those_before_it_first(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    renames(log, 3)
    log.transaction(insert(Table("a3"), (1, "x")))
    renames_back = "RENAME TABLE t.a3 TO t.a"
    log.ddl(renames_back)
    assert run(log.folder, target)
    assert numbers(target) == [1, 2, 3, 4, 5, 6]


def test_a_statement_before_rows_is_shown_before_they_are_written(tmp_path):
    """Also where statements follow behind them: rows may take long."""
    log, target, shown = LogWriter(tmp_path / "log"), tmp_path / "lake", list[list[int]]()
    log.ddl(A.create)
    run(log.folder, target)
    renames(log, 2)
    log.transaction(insert(Table("a2"), (1, "x")))
    log.ddl("RENAME TABLE t.a2 TO t.a")

    class Looking(LocalDelta):
        def commit(self, planned: Snapshot, actions: list[Action], stamp: Stamp) -> int:
            if any("add" in action for action in actions):
                shown.append(numbers(target))
            return super().commit(planned, actions, stamp)

    assert run(log.folder, target, parts=replace(HERE, delta_log=Looking))
    assert shown == [[1, 2, 3]]
    assert numbers(target) == [1, 2, 3, 4, 5]


def test_a_statement_that_stops_leaves_the_cuts_before_it(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    renames(log, 5)
    log.transaction(insert(Table("a5"), (1, "x")))
    log.ddl("RENAME TABLE t.a5 TO t.a")
    log.ddl("ALTER TABLE t.a ADD n INT AUTO_INCREMENT UNIQUE")
    error = stopped(log.folder, target)
    assert error.gtid == log.gtid(8)
    assert numbers(target) == list(range(1, 9))


def test_what_waits_for_the_delay_hides_nothing_before_it(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    renames(log, 3)
    log.gno += 10**9  # and its second
    log.ddl("RENAME TABLE t.a3 TO t.a")
    with applier(log.folder, target, delay_s=1) as replica, ThreadPoolExecutor(1) as pool:
        applying = pool.submit(apply_without_stream, replica)
        try:
            wait_until(lambda: numbers(target) == [1, 2, 3, 4])
        finally:
            shown = numbers(target)
            replica.stop()
        applying.result()
    assert shown == [1, 2, 3, 4]


def test_a_stop_between_them_publishes_those_before_it(tmp_path, monkeypatch):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    renames(log, 9)
    apply_until_statement(5, log, target, monkeypatch)
    assert numbers(target) == [1, 2, 3, 4, 5]


class WithoutCuts(Control):
    def publish(self, cut: Cut, *, later: bool = False) -> None:
        pass


def test_without_a_cut_all_is_found_again(tmp_path):
    """As behind SIGKILL while the cuts of several statements were held back."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    for text in ("ADD c INT", "RENAME COLUMN c TO d", "RENAME t.b"):
        log.ddl(f"ALTER TABLE t.a {text}")
    log.ddl("ALTER TABLE t.b DROP d, ADD e INT")
    mapped = {"column_mapping": True}
    run(log.folder, target, keys=mapped, parts=replace(HERE, control=WithoutCuts))
    assert not numbers(target)
    assert run(log.folder, target, keys=mapped)
    assert numbers(target)[-1] == 6
    (table,) = cuts(target)[-1].tables.values()
    assert table.path == "t/a"
    with applier(log.folder, target) as replica:
        (known,) = replica.tracking.tables.values()
        assert [column.name for column in known.definition.columns] == ["id", "v", "e"]


def test_cuts_before_a_table_that_is_ahead_are_published_and_nothing_behind_them(
    tmp_path, monkeypatch
):
    """Behind a crash a CREATE TABLE finds what a later statement made of its table."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    run(log.folder, target)
    renames(log, 2)
    for text in ("CREATE TABLE t.x (i INT)", "CREATE TABLE t.y (i INT)"):
        log.ddl(text)
    for text in ("ALTER TABLE t.x ADD c INT", "CREATE TABLE t.z (i INT)"):
        log.ddl(text)
    run(log.folder, target, parts=replace(HERE, control=WithoutCuts))
    apply_until_statement(4, log, target, monkeypatch)
    assert numbers(target) == [1, 2, 3]
    assert sorted(status(str(target))["ahead"]) == ["t.x", "t.y"]


def test_the_log_of_a_table_that_only_statements_change_gets_checkpoints(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    for number in range(70):
        log.ddl(f"ALTER TABLE t.a ADD c{number} INT")
    with applier(log.folder, target) as replica:
        apply_without_stream(replica)
        finish(replica.opened.pipeline.writer._upkeep)  # after what is scheduled
    assert (Path(Layout(str(target)).table("t/a")) / "_delta_log" / "_last_checkpoint").exists()

"""WL#6813: each kind of transaction has a slot in the commit order. It is recorded after the
transaction before it, and before the one after it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.records.operator_decisions import decide
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import RowError
from spark_repl.observe.reports.worker_status import WAITING
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import (
    LocalDelta,
    applier,
    apply_without_stream,
    cuts,
    rows,
    run,
    stopped,
)
from tests.support.wait_until import wait_until

A = Table("a")
_XID = (b"x", b"", 1)
_FILTERS = {"wild_ignore_table": ["t.out%"]}
# What stands between two transactions of t.a, and changes none of its rows.
_BETWEEN: dict[str, Callable[[LogWriter], object]] = {
    "empty": lambda log: log.transaction(),
    "left out": lambda log: log.transaction(insert(A, (77, "left out"))),
    "rolled back": lambda log: log.transaction(insert(A, (76, "never was")), rollback=True),
    "rolled back, empty": lambda log: log.events(["BEGIN", "ROLLBACK"], _XID),
    "of the server": lambda log: log.transaction(insert(Table("u", database="mysql"), (1, "x"))),
    "filtered": lambda log: log.transaction(insert(Table("out"), (1, "x"))),
    "filtered statement": lambda log: log.ddl(Table("out").create),
    "added column": lambda log: log.ddl("ALTER TABLE t.b ADD c INT"),
    "partitions": lambda log: log.ddl("ALTER TABLE t.b PARTITION BY HASH (id) PARTITIONS 2"),
    "statement": lambda log: log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY)"),
    "no effect": lambda log: log.ddl("ANALYZE TABLE t.a"),
    "account": lambda log: log.ddl("GRANT SELECT ON t.* TO 'x'@'%'"),
    "branch": lambda log: log.xa_prepare(_XID, insert(A, (78, "prepared"))),
}


@pytest.fixture(params=_BETWEEN)
def between(request: pytest.FixtureRequest, log: LogWriter, target: Path) -> str:
    """Write a log with row 1 of t.a, the transaction between, and row 2 of t.a (gnos 4, 5 and
    6)."""
    log.transaction(insert(A, (1, "before")))
    _BETWEEN[request.param](log)
    log.transaction(insert(A, (2, "behind")))
    if request.param == "left out":
        decide(Control(Layout(str(target)).control), "skip", {}, gtid_executed=log.gtid(4))
    return str(request.param)


def gnos(target: Path) -> list[int]:
    """The last GTID's number at each cut."""
    return [int(re.split("[:-]", cut.gtid_executed)[-1]) for cut in cuts(target)]


def states(target: Path) -> list[str]:
    workers = status(str(target))["replication_applier_status_by_worker"]
    return [worker["PROCESSLIST_STATE"] for worker in workers]


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[threading.Event], None]]:
    """``held_up(go)``: the first commit of rows waits for ``go``."""

    def install(go: threading.Event) -> None:
        true = LocalDelta.commit

        def commit(delta: LocalDelta, *args: Any) -> int:
            assert go.wait(150)
            return true(delta, *args)

        monkeypatch.setattr(LocalDelta, "commit", commit)

    yield install


def test_waits_for_the_one_before_and_is_waited_for(log, target, between, held_up):
    """Scenarios 25, 26, 33, 34: while the one before commits, its turn does not come; then all are
    recorded in their order, one after the other."""
    go, seen = threading.Event(), dict[str, Any]()
    held_up(go)
    with applier(log.folder, target, group_max_transactions=1, filters=_FILTERS) as found:
        order = found.coordinator._pipeline._order
        dispatch = order.dispatch

        def dispatched() -> int:
            slot = dispatch()
            if slot == 4:  # the one between: three statements and t.a's 1 are before it
                threading.Thread(target=look).start()
            return slot

        def look() -> None:
            try:
                wait_until(lambda: WAITING in states(target) and gnos(target)[-1:] == [3])
            finally:
                seen["states"], seen["gnos"] = states(target), gnos(target)
                go.set()

        order.dispatch = dispatched  # type: ignore[method-assign]
        apply_without_stream(found)
    assert seen["gnos"][-1] == 3
    assert WAITING in seen["states"]
    assert gnos(target) == [1, 2, 3, 4, 5, 6]
    at = next(cut for cut in cuts(target) if cut.gtid_executed.endswith("-5"))
    assert rows(target, A, at.tables["t.a"].version) == [(1, "before")]
    assert rows(target, A) == [(1, "before"), (2, "behind")]


def test_is_turned_away_behind_one_that_failed(log, target, tmp_path, between):
    """Scenarios 19, 26: the one before can't be applied: nothing of this one is recorded, and once
    that is mended it comes in its place."""
    failing = LogWriter(tmp_path / "failing")
    for statement in ("CREATE DATABASE t", A.create, Table("b").create):
        failing.ddl(statement)
    failing.transaction(delete(A, (55, "no such")))
    _BETWEEN[between](failing)
    error = stopped(failing.folder, target, group_max_transactions=1, filters=_FILTERS)
    assert isinstance(error, RowError)
    assert error.gtid == failing.gtid(3)
    assert gnos(target) == [1, 2, 3]
    assert not cuts(target)[-1].prepared
    bounds = {"group_max_transactions": 1, "filters": _FILTERS}
    run(failing.folder, target, exec_mode="idempotent", **bounds)
    assert gnos(target) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("bound", [1, 2, 100])
@pytest.mark.parametrize("order", [True, False])
def test_each_kind_of_transaction_takes_its_slot(log, target, bound, order):
    """Scenario 34: all kinds one after the other, cut into groups in several ways: each takes its
    place, and the last cut is behind all."""
    for make in _BETWEEN.values():
        make(log)
        log.transaction(insert(A, (log.gno, "x")))
    decide(Control(Layout(str(target)).control), "skip", {}, gtid_executed=log.gtid(5))
    bounds = {"group_max_transactions": bound, "preserve_commit_order": order}
    run(log.folder, target, filters=_FILTERS, **bounds)
    assert "t.out" not in cuts(target)[-1].tables
    assert gnos(target) == sorted(gnos(target))
    assert gnos(target)[-1] == log.gno - 1
    keys = [row[0] for row in rows(target, A)]
    assert keys == list(range(5, 5 + 2 * len(_BETWEEN), 2))
    for cut in cuts(target) if "t.a" in cuts(target)[-1].tables else ():
        if at := cut.tables.get("t.a"):
            last = int(re.split("[:-]", cut.gtid_executed)[-1])
            assert [row[0] for row in rows(target, A, at.version)] == [k for k in keys if k <= last]


@pytest.mark.parametrize("anonymous", [True, False])
def test_rolled_back_transaction_advances_the_position(log, target, anonymous):
    """BEGIN ... ROLLBACK at the end of the log: the next start begins behind it."""
    log.transaction(insert(A, (1, "x")))
    log.anonymous = anonymous
    log.transaction(insert(A, (2, "never was")), rollback=True)
    run(log.folder, target)
    assert rows(target, A) == [(1, "x")]
    file, _, end = log.spans[-1]
    last = cuts(target)[-1]
    assert (last.source["file"], last.source["position"]) == (file, end)
    with applier(log.folder, target) as found:
        assert found.coordinator.mark.position == last.position
        assert not len(found.index.slice(found.coordinator.mark.position, found.index.end))

"""Without commit order: tables advance apart, positions and cuts still tell the truth.

How groups are kept whole is tested without Spark (applier/test_transaction_atomicity.py,
unit/apply/group/test_per_table_order.py).
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.delta.log.table_log import TableLog
from spark_repl.errors import RowError
from tests.spark.lab import assert_applied_once, assert_rows, cuts, run, stopped, versions
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import LocalDelta, rows
from tests.support.wait_until import wait_until

A, B = Table("a"), Table("b")
APART = {"preserve_commit_order": False}


def assert_cuts_are_true(log: LogWriter, target: Path, without: int) -> None:
    """Each transaction n inserted key n into a, b or both: a cut holds exactly what it says."""
    for cut in cuts(target):
        last = int(re.split("[:-]", cut.gtid_executed)[-1])
        for name in ("a", "b"):
            at = cut.tables.get(f"t.{name}")
            if at is not None:
                have = {key for key, _ in rows(target, Table(name), at.version)}
                assert have == {key for key in keys(log)[name] if key <= last and key != without}, (
                    cut.gtid_executed
                )


def keys(log: LogWriter) -> dict[str, set[int]]:
    everything = range(5, log.gno)
    return {"a": {n for n in everything if n % 3}, "b": {n for n in everything if n % 2}}


def write(log: LogWriter, count: int) -> None:
    for _ in range(count):
        n, changes = log.gno, []
        changes += [insert(A, (n, "x"))] if n % 3 else []
        changes += [insert(B, (n, "x"))] if n % 2 else []
        log.transaction(*changes)


def test_a_table_that_is_retried_holds_no_other_back(engine, log, target, monkeypatch):
    """Where no group changes both: there b waits for a."""
    log.ddl(B.create)
    for key in range(4):
        log.transaction(insert(A, (key, "x")))
        log.transaction(insert(B, (key, "x")))
    log.transaction(insert(A, (4, "x")), insert(B, (4, "x")))
    delta = TableLog if engine else LocalDelta
    true, met = delta.commit, []

    def commit(self: TableLog, planned: Any, *args: Any) -> int:
        if planned.folder.endswith("t/a") and versions(target)["t/b"] < 4:
            met.append(planned.version)
            if len(met) == 100:  # retries without pauses may be over before t.b's thread runs
                wait_until(lambda: versions(target)["t/b"] >= 4)
            raise OSError(errno.EIO, "Input/output error")
        return true(self, planned, *args)

    monkeypatch.setattr(delta, "commit", commit)
    result = run(
        engine, log.folder, target, group_max_transactions=1, transaction_retries=200, **APART
    )
    assert met and result.counters.retries == len(met)
    for table in (A, B):
        assert_rows(engine, target, table, [(n, "x") for n in range(5)])
    assert cuts(target)[-1].gtid_executed == result.gtid_executed
    assert_applied_once(target)


@pytest.mark.parametrize(("bound", "again"), [(1, True), (5, False), (100, True)])
def test_a_failure_leaves_nothing_of_its_transaction(engine, log, target, bound, again):
    """Scenarios 2, 47: the error leaves gaps (c is ahead), which are filled after its cause is
    removed. Table b never has a part of the transaction that failed in a, neither before ``skip``
    nor after it."""
    c = Table("c")
    log.ddl(c.create)
    log.ddl(B.create)
    write(log, 6)
    log.transaction(update(A, ((77, "no"), (77, "such"))), insert(B, (log.gno, "x")))
    bad = f"{log.source}:{log.gno - 1}"
    write(log, 6)
    log.transaction(insert(c, (1, "x")))
    error = stopped(engine, log.folder, target, group_max_transactions=bound, **APART)
    assert isinstance(error, RowError)
    assert (error.number, error.gtid) == (1032, bad)
    for table, name in ((A, "a"), (B, "b")):
        assert_rows(engine, target, table, [(n, "x") for n in sorted(keys(log)[name]) if n < 11])
    assert_rows(engine, target, c, [(1, "x")] if bound == 1 else [])
    for cut in cuts(target):
        assert cut.position <= error_start(log, 10)
    assert main(["skip", "--gtid", bad, "--target", str(target)]) == 0
    run(engine, log.folder, target, group_max_transactions=4, preserve_commit_order=not again)
    for table, name in ((A, "a"), (B, "b")):
        want = [(n, "x") for n in sorted(keys(log)[name]) if n not in (11, 18)]
        assert_rows(engine, target, table, want)
    assert_rows(engine, target, c, [(1, "x")])
    assert cuts(target)[-1].gtid_executed == f"{log.source}:1-18"
    assert_cuts_are_true(log, target, without=11)
    assert_applied_once(target)


def error_start(log: LogWriter, ordinal: int) -> int:
    from spark_repl.position import RelayPosition

    return RelayPosition(1, log.spans[ordinal][1]).packed

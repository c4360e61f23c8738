"""``apply.max_commits_per_hour`` in the whole applier, without Spark, on a log of a real server."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.demo.bank_demo import BANK
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import Table, insert
from tests.support.local_delta import applier, apply_without_stream, cuts, rows, run

A = Table("a")


def commit_counts(target: Path) -> list[int]:
    """How many versions each table has."""
    logs = sorted(log for log in target.glob("*/*/_delta_log") if "_repl" not in log.parts)
    return [len(list(log.glob("*.json"))) for log in logs]


def test_no_table_gets_more_and_all_is_applied_in_order(target):
    apart, settings = 0.2, {"group_max_transactions": 200, "keys": {"compact_files": 0}}
    run(BANK, target, **settings)
    plain, counts = cuts(target), commit_counts(target)
    paced, begun = target.with_name("paced"), list[float]()
    with applier(BANK, paced, **settings, max_commits_per_hour=int(3600 / apart)) as found:
        pace = found.coordinator.pace
        begin = pace.begin_group

        def begin_group() -> None:
            begun.append(time.monotonic())
            begin()

        pace.begin_group = begin_group  # type: ignore[method-assign]
        apply_without_stream(found)
    assert [cut.gtid_executed for cut in cuts(paced)] == [cut.gtid_executed for cut in plain]
    assert len(plain) > 4 and commit_counts(paced) == counts
    assert all(later - earlier >= apart for earlier, later in pairwise(begun))
    # Each table has at most one commit of each group, beside its CREATE TABLE.
    assert all(4 < count - 1 <= len(begun) for count in counts)


def test_over_a_restart_and_not_beyond_stop(log, target):
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target, max_commits_per_hour=1)
    log.transaction(insert(A, (2, "x")))
    with applier(log.folder, target, max_commits_per_hour=1) as found:
        began = time.monotonic()
        threading.Timer(0.5, found.stop).start()
        assert apply_without_stream(found).counters.transactions == 0
        assert 0.4 < time.monotonic() - began < 30
    assert rows(target, A) == [(1, "x")]


def test_until_is_met_without_a_wait(log, target):
    """The place where it ends is before the next group."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "x")))
    until = Until.parse(f"after-gtids:{log.gtid(3)}")
    began = time.monotonic()
    with applier(
        log.folder, target, until=until, max_commits_per_hour=1, group_max_transactions=1
    ) as found:
        apply_without_stream(found)
        assert found.coordinator.reached_until
    assert time.monotonic() - began < 60
    assert rows(target, A) == [(1, "x")]
    assert Control(Layout(str(target)).control).cut_count() == len(cuts(target))

"""``apply.max_latency_ms`` and an idle source, as Spark's stream shows them."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from spark_repl import Config, Replica
from tests.spark.lab import assert_rows, cuts, run
from tests.support.binlog_writer import Table, insert
from tests.support.wait_until import wait_until

A = Table("a")
_MOST_S = 240


def entries(target: Path) -> dict[str, int]:
    """Every file below the target, which holds the state too, and its size."""
    sizes = dict[str, int]()
    for folder, _, names in os.walk(target):
        for file in (os.path.join(folder, name) for name in names):
            with suppress(FileNotFoundError):  # it was renamed, or removed, since the listing
                sizes[file] = os.path.getsize(file)
    return sizes


def rests(target: Path) -> bool:
    """Return whether no file appears or grows in two seconds, some twenty looks for changes."""
    before = entries(target)
    time.sleep(2)  # a span in which nothing may come
    return entries(target) == before


def follow(replica: Replica) -> threading.Thread:
    follower = threading.Thread(target=lambda: replica.apply(follow=True))
    follower.start()
    return follower


def shows(target: Path, last: int) -> bool:
    return cuts(target)[-1].gtid_executed.endswith(f"-{last}")


@pytest.mark.slow
def test_changes_are_gathered_and_an_idle_source_costs_nothing(spark, log, target):
    run(spark, log.folder, target)
    log.transaction(insert(A, (0, "x")))
    places = {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    config = Config.from_mapping({**places, "apply": {"max_latency_ms": 600_000}})
    with Replica(spark, config) as replica:
        follower = follow(replica)
        try:
            wait_until(lambda: shows(target, 3), _MOST_S)  # at once: nothing came before
            for key in range(1, 6):
                log.transaction(insert(A, (key, "x")))
                time.sleep(0.3)  # they arrive apart, and are gathered all the same
            assert shows(target, 3)
        finally:
            replica.stop()
            follower.join(_MOST_S)
    assert not follower.is_alive()  # in the midst of gathering
    before = len(cuts(target))
    with Replica(spark, Config.from_mapping(places)) as replica:
        follower = follow(replica)
        try:
            wait_until(lambda: shows(target, 8), _MOST_S)
            assert len(cuts(target)) == before + 1
            # The stream's own first batch may end later: it brings what the tables have.
            wait_until(lambda: list((target / "_repl" / "checkpoint").glob("*/commits/0")), _MOST_S)
            wait_until(lambda: rests(target), _MOST_S)  # once upkeep has ended
        finally:
            replica.stop()
            follower.join(_MOST_S)
    assert_rows(spark, target, A, [(key, "x") for key in range(6)])

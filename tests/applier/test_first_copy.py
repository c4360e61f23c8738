"""The log behind a first copy, of tables that were read as of one moment: nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import last_shown, run
from tests.support.made_copy import finish, plan_first, read

BAG = Table("bag", key=())


def test_a_crash_while_a_table_without_a_key_catches_up(
    log: LogWriter, target: Path, killed: Callable[..., None]
) -> None:
    """The copy has its first row, the applier had brought it the second."""
    log.ddl(BAG.create)
    plan_first(target, f"{log.source}:1-4", "t.bag")
    for key in range(1, 4):
        log.transaction(insert(BAG, (key, "x")))
    read(target, BAG, [(1, "x")])
    held = GtidSet.parse(f"{log.source}:1-5")
    finish(target, f"{log.source}:1-7", exact={"t.bag": held})
    killed(log, target, lambda name: name == "after_put", group_max_transactions=1)
    assert run(log.folder, target)
    assert last_shown(target)["t.bag"] == [(1, "x"), (2, "x"), (3, "x")]

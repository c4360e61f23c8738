"""Faults of the system's own calls at each step of the applier, without Spark: a process of its
own, whose calls go through faulty_storage.c. Prints a line of JSON for each case.

    LD_PRELOAD=faulty_storage.so python -m tests.crash.storage_steps FOLDER
"""

from __future__ import annotations

import ctypes
import json
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spark_repl.apply.start.replica import Replica
from spark_repl.crash_points import listening
from spark_repl.runtime.retry import Retries
from spark_repl.write.upkeep.scheduler import UpkeepScheduler
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import applier, rows

A, D, E = Table("a"), Table("d"), Table("e")
P, K = Table("p", map_flags=2), Table("k", (("id", "int"), ("p", "int")))
CASCADES = K.create.removesuffix(")") + ", FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)"
CREATE = "CREATE TABLE t.c{} (id INT PRIMARY KEY)"
ALTER, RENAME = "ALTER TABLE t.d ADD c{} INT", "RENAME TABLE t.e TO t.f{0}, t.f{0} TO t.e"
FAIL, TIMEOUT, LAND = 1, 2, 3
NUMBERS = {FAIL: 5, TIMEOUT: 1205, LAND: 5}


@dataclass(frozen=True)
class Step:
    """``call``, on a path that holds ``part``, meets a fault behind the crash point. ``kinds``:
    which of them; ``retried``: whether a new attempt is needed, or what landed is found;
    ``statement``: one before the transaction, of the case's number."""

    point: str
    call: str
    part: str
    kinds: tuple[int, ...] = (FAIL, TIMEOUT)
    retried: bool = True
    statement: str = ""


STEPS = {
    "relay log": Step("before_stage", "read", "/log/bin.0"),
    "staged file is made": Step("before_stage", "create", "/staging/"),
    "staged file is written": Step("before_stage", "write", "/staging/", (FAIL, TIMEOUT, LAND)),
    "staged file is read": Step("planned", "read", "/staging/"),
    "data file is made": Step("planned", "create", ".parquet"),
    "data file is written": Step("planned", "write", ".parquet", (FAIL, LAND)),
    "data file is synced": Step("planned", "fsync", ".parquet"),
    "key index": Step("planned", "create", "/keys/"),
    "commit": Step("before_commit", "create", "/t/a/_delta_log/"),
    "commit is named": Step("before_commit", "link", "/t/a/_delta_log/"),
    "commit's answer": Step("before_commit", "link", "/t/a/_delta_log/", (LAND,), False),
    "branch is made": Step("before_stage", "create", ".events"),
    "branch is written": Step("before_stage", "write", ".events", (FAIL, LAND)),
    "branch is synced": Step("before_stage", "fsync", ".events"),
    "branch is named": Step("before_stage", "rename", ".events", (FAIL, LAND)),
    "cut": Step("before_cut", "create", "/_repl/control/_delta_log/"),
    "cut is named": Step("before_cut", "link", "/_repl/control/_delta_log/"),
    "cut's answer": Step("before_cut", "link", "/_repl/control/_delta_log/", (LAND,), False),
    "statement": Step("before_statement", "create", "/t/c", statement=CREATE),
    "ALTER": Step("before_statement", "link", "/t/d/_delta_log/", statement=ALTER),
    "ALTER's answer": Step("before_statement", "link", "/t/d/_delta_log/", (LAND,), False, ALTER),
    "RENAME's names": Step("before_cut", "link", "/_repl/control/_delta_log/", statement=RENAME),
    "cascade": Step("staged", "read", "/lake/t/k/"),  # an index that is not read is made again
}  # fmt: skip


def main(folder: Path) -> None:
    """One applier; each case is the log's next transaction."""
    logging.disable()
    Retries._pause = lambda self, seconds: None  # type: ignore[method-assign]
    storage, log, target = ctypes.CDLL(None), LogWriter(folder / "log"), folder / "lake"
    log.ddl("CREATE DATABASE t")
    for statement in (*(table.create for table in (A, D, E, P)), CASCADES):
        log.ddl(statement)
    log.transaction(insert(A, (0, "x")), insert(P, (FAIL, "x"), (TIMEOUT, "x")))
    log.transaction(insert(K, (10, FAIL), (20, TIMEOUT), (30, None)))
    cases = [(name, step, kind) for name, step in STEPS.items() for kind in step.kinds]
    # Upkeep beside a case would meet its fault, and put off what it does.
    with patch.object(UpkeepScheduler, "schedule"), applier(log.folder, target) as found:
        _apply(found)
        for number, (name, step, kind) in enumerate(cases, 1):
            _write(log, step, number)
            if name == "cascade":
                log.transaction(delete(P, (kind, "x")))
            said = _met(storage, step, kind, found)
            said["all"] = rows(target, A) == [*((n, "y") for n in range(number)), (number, "x")]
            print(json.dumps({"step": name, "kind": kind, **said}), flush=True)
    assert rows(target, K) == [(30, None)]


def _write(log: LogWriter, step: Step, number: int) -> None:
    if step.statement:
        log.ddl(step.statement.format(number))
    log.transaction(update(A, ((number - 1, "x"), (number - 1, "y"))), insert(A, (number, "x")))
    if step.part == ".events":
        log.xa_prepare((b"x%d" % number, b"", 1), insert(A, (-number, "x")))


def _apply(found: Replica) -> None:
    index, coordinator = found.opened.applied.refresh(), found.coordinator
    coordinator.apply(index.slice(coordinator.mark.position, index.end))


def _worker(found: Replica) -> dict[str, Any]:
    return found.coordinator._status._workers.rows("", service="ON")[0]


def _met(storage: Any, step: Step, kind: int, found: Replica) -> dict[str, Any]:
    """The next transaction meets the fault: how it went."""
    waiting = [1]

    def arm(name: str) -> None:
        if name == step.point and waiting:
            waiting.clear()
            storage.faulty_storage_plan(step.call.encode(), step.part.encode(), kind)

    retries, before = found.counters.retries, _worker(found)
    with listening(arm):
        _apply(found)
    storage.faulty_storage_plan(b"", b"", 0)
    retries, worker = found.counters.retries - retries, _worker(found)
    counted = "COUNT_TRANSACTIONS_RETRIES"
    return {
        "met": storage.faulty_storage_met(),
        "retries": retries,
        "counted": worker[counted] - before[counted],
        "number": worker["LAST_TRANSIENT_ERROR_NUMBER"] if retries else 0,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))

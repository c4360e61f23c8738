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

from spark_repl.apply.replica import Replica
from spark_repl.crash_points import listening
from spark_repl.runtime.retry import Retries
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import applier, rows

A = Table("a")
FAIL, TIMEOUT, LAND = 1, 2, 3
NUMBERS = {FAIL: 5, TIMEOUT: 1205, LAND: 5}


@dataclass(frozen=True)
class Step:
    """``call``, on a path that holds ``part``, meets a fault behind the crash point. ``kinds``:
    which of them; ``retried``: whether a new attempt is needed, or what landed is found."""

    point: str
    call: str
    part: str
    kinds: tuple[int, ...] = (FAIL, TIMEOUT)
    retried: bool = True


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
    "statement": Step("before_statement", "create", "/t/c"),
}  # fmt: skip


def main(folder: Path) -> None:
    """One applier; each case is the log's next transaction."""
    logging.disable()
    Retries._pause = lambda self, seconds: None  # type: ignore[method-assign]
    storage, log, target = ctypes.CDLL(None), LogWriter(folder / "log"), folder / "lake"
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    log.transaction(insert(A, (0, "x")))
    cases = [(name, step, kind) for name, step in STEPS.items() for kind in step.kinds]
    with applier(log.folder, target) as found:
        _apply(found)
        for number, (name, step, kind) in enumerate(cases, 1):
            _write(log, step, number)
            said = _met(storage, step, kind, found)
            said["all"] = rows(target, A) == [*((n, "y") for n in range(number)), (number, "x")]
            print(json.dumps({"step": name, "kind": kind, **said}), flush=True)


def _write(log: LogWriter, step: Step, number: int) -> None:
    if step.point == "before_statement":
        log.ddl(Table(f"c{number}").create)
    log.transaction(update(A, ((number - 1, "x"), (number - 1, "y"))), insert(A, (number, "x")))
    if step.part == ".events":
        log.xa_prepare((b"x%d" % number, b"", 1), insert(A, (-number, "x")))


def _apply(found: Replica) -> None:
    index, coordinator = found.opened.applied.refresh(), found.coordinator
    coordinator.apply(index.slice(coordinator.position, index.end))


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

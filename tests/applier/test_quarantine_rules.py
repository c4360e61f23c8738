"""``on_error`` of single tables: which go into quarantine, and which stop the applier."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.errors import QuarantineError, RowError
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import CRASHES, at_cut, broken, cuts, rows, run, stopped

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
STRIDE = int(os.environ.get("SPARK_REPL_STRIDE", "13"))


def end(target: Path, action: str) -> int:
    return main(["quarantine", action, "--target", str(target), "--table", "t.a"])


def poisoned(log: LogWriter) -> None:
    """The second transaction can't be applied to t.a."""
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(delete(A, (77, "no such")), insert(B, (2, "x")))


@pytest.mark.parametrize(
    ("everywhere", "rules", "stands_still"),
    [
        ("quarantine", {"t.b": "stop"}, True),
        ("quarantine", {"t.a": "stop"}, False),
        ("quarantine", {"t.a": "", "t.%": "stop"}, True),  # the first that fits, as ever
        ("stop", {"t.b": "quarantine"}, False),
        ("stop", {"t.a": "quarantine"}, True),
        ("stop", {"%.%": "quarantine"}, True),
    ],
)
def test_a_table_s_own_rule_goes_before_that_of_all(
    log: LogWriter, target: Path, everywhere: str, rules: dict[str, str], stands_still: bool
) -> None:
    poisoned(log)
    tables = [{"match": match, "on_error": error} for match, error in rules.items()]
    how: dict[str, Any] = {"on_error": everywhere, "tables": tables}
    if stands_still:
        assert run(log.folder, target, **how)
        assert cuts(target)[-1].quarantined.keys() == {"t.a"} and len(rows(target, B)) == 2
    else:
        error = stopped(log.folder, target, **how)
        assert (error.number, error.table) == (1032, "t.a")
        assert not cuts(target)[-1].quarantined


A_ALONE: dict[str, Any] = {"tables": [{"match": "t.a", "on_error": "quarantine"}]}


@pytest.mark.parametrize(("bound", "ordered"), [(1, True), (100, False)])
@pytest.mark.parametrize("in_one", [True, False])
def test_a_transaction_of_a_table_that_stands_still_and_one_that_stops(
    tmp_path: Path, bound: int, ordered: bool, in_one: bool
) -> None:
    """The second stops the applier, whatever the first's are kept for, and a crash leaves of it."""
    how = {**A_ALONE, "group_max_transactions": bound, "preserve_commit_order": ordered}
    step = 1
    while cut_off_beside(step, tmp_path / f"run{step}", how, in_one):
        step += STRIDE
    assert step > 10


def cut_off_beside(step: int, folder: Path, how: dict[str, Any], in_one: bool) -> bool:
    log, target = LogWriter(folder / "log"), folder / "lake"
    for statement in ("CREATE DATABASE t", A.create, B.create):
        log.ddl(statement)
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    no_a, no_b = delete(A, (77, "no such")), delete(B, (99, "no such"))
    if not in_one:
        log.transaction(no_a, insert(B, (2, "x")))
    log.transaction(*([no_a] if in_one else []), insert(A, (3, "kept")), insert(B, (3, "x")), no_b)
    whole = False
    with suppress(RowError):
        whole = run(log.folder, target, crash=step, **how)
    error = stopped(log.folder, target, **how)
    assert (error.table, error.number) == ("t.b", 1032)
    last = cuts(target)[-1]
    shown = at_cut(target, last)
    assert shown == {"t.a": [(1, "x")], "t.b": [(n, "x") for n in range(1, 2 if in_one else 3)]}
    assert last.gtid_executed.endswith(":1-4" if in_one else ":1-5")
    marked = {} if in_one else {"t.a": 1}
    assert {name: one.transactions for name, one in last.quarantined.items()} == marked
    assert end(target, "replay") == 0 or in_one
    with suppress(RowError):
        whole |= run(log.folder, target, crash=step, **{**how, "exec_mode": "idempotent"})
    assert run(log.folder, target, **{**how, "exec_mode": "idempotent"})
    assert not cuts(target)[-1].quarantined
    b = [(n, "x") for n in ((1, 3) if in_one else (1, 2, 3))]
    assert at_cut(target, cuts(target)[-1]) == {"t.a": [(1, "x"), (3, "kept")], "t.b": b}
    return not whole


def test_under_another_name_of_a_source_that_folds_names(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for statement in ("CREATE DATABASE t", A.create, B.create):
        log.ddl(statement)
    poisoned(log)
    rule = {"match": "T.A", "to": "Lake.O", "on_error": "quarantine"}
    assert run(log.folder, target, tables=[rule], source={"lower_case_table_names": 1})
    assert cuts(target)[-1].quarantined.keys() == {"lake.o"} and len(rows(target, B)) == 2


def test_a_rule_that_withholds_behind_a_quarantine(log: LogWriter, target: Path) -> None:
    """Nothing more is kept in the log's bytes, in which the masked table's values may be."""
    poisoned(log)
    assert run(log.folder, target, on_error="quarantine")
    log.ddl(BAG.create)
    log.transaction(insert(A, (5, "kept")))
    rule = {"match": "t.bag", "row_filter": "id > 1"}
    error = stopped(log.folder, target, tables=[rule])
    assert isinstance(error, QuarantineError) and error.table == "t.a"
    assert "t.bag withholds rows" in error.message
    assert cuts(target)[-1].quarantined["t.a"].transactions == 1
    assert end(target, "drop") == 0
    assert run(log.folder, target, tables=[rule])


def test_an_attempt_that_keeps_one_table_s_changes_of_two_counts_nothing(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage fails once, at the second file of a group; both are kept again, and replayed."""
    how: dict[str, Any] = {"on_error": "quarantine"}
    log.transaction(delete(A, (77, "no such")))
    log.transaction(delete(B, (77, "no such")))
    assert run(log.folder, target, **how)
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    keeping = list[str]()

    def fail_at_second(name: str) -> None:
        keeping.extend([name] if name == "quarantine_keeping" else ())
        if name == "quarantine_keeping" and len(keeping) == 2:
            raise broken()

    monkeypatch.setattr(CRASHES, "told", fail_at_second)
    assert run(log.folder, target, **how)
    assert len(keeping) == 4
    marks = cuts(target)[-1].quarantined
    assert [marks[name].transactions for name in ("t.a", "t.b")] == [2, 2]
    for name in ("t.a", "t.b"):
        assert main(["quarantine", "replay", "--target", str(target), "--table", name]) == 0
    assert run(log.folder, target, **how, exec_mode="idempotent")
    assert rows(target, A) == rows(target, B) == [(1, "x")]

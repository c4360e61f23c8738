"""XA in the whole applier, without Spark: every part cut off at every step, and its odd cases.

Each test names the test of MySQL's that it corresponds to (scenarios.py), and asserts the same
outcome.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_repl.apply.group.xa_parts import XaParts
from spark_repl.cli.main import main
from spark_repl.observe.status.status import status
from tests.property.test_xa_orders import Kept, branches_of, records_of
from tests.support.binlog_writer import LogWriter, Table, Xid, delete, insert, update
from tests.support.local_delta import applier, apply_without_stream, cuts, rows, run, stopped

A, B = Table("a"), Table("b")
ONE, TWO = (b"one", b"", 1), (b"t\0'\"w", b"o" * 64, 2**32 - 1)
OLD = [(1, "old"), (2, "old")]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Tables t.a, with two rows, and t.b: four transactions."""
    return begun(tmp_path / "log")


def begun(folder: Path, **options: Any) -> LogWriter:
    made = LogWriter(folder, **options)
    for statement in ("CREATE DATABASE t", A.create, B.create):
        made.ddl(statement)
    made.transaction(insert(A, *OLD))
    return made


def prepared(target: Path) -> list[bytes]:
    """gtrids of the branches that the last cut names; their bytes are there, and no others."""
    found = cuts(target)[-1].prepared
    kept = {path.name for path in (target / "_repl" / "xa").glob("*.events")}
    assert kept == {branch["file"] for branch in found}
    return [bytes.fromhex(branch["gtrid"]) for branch in found]


# Every part, cut off at every step: what rpl_gtid_xa_*_failure_* do at their sync points.


def _prepare(log: LogWriter) -> None:
    log.xa_prepare(ONE, insert(A, (3, "new")), insert(B, (3, "new")))


def _end(action: str) -> Callable[[LogWriter], None]:
    def write(log: LogWriter) -> None:
        log.xa_end(action, ONE)

    return write


def _one_phase(log: LogWriter) -> None:
    log.xa_prepare(TWO, insert(A, (3, "new")), insert(B, (3, "new")), one_phase=True)


def _rotated(log: LogWriter) -> None:
    log.rotate()
    log.xa_end("COMMIT", ONE)


PARTS: dict[str, tuple[bool, Callable[[LogWriter], None], bool, bool]] = {
    # whether ONE is prepared before; the part; whether its rows are seen, ONE is prepared behind
    "prepare": (False, _prepare, False, True),
    "commit": (True, _end("COMMIT"), True, False),
    "commit behind a rotation": (True, _rotated, True, False),
    "rollback": (True, _end("ROLLBACK"), False, False),
    "one phase": (False, _one_phase, True, False),
}


@pytest.mark.parametrize(
    ("part", "order"), [*((part, True) for part in PARTS), ("commit behind a rotation", False)]
)
def test_cut_off_at_every_step_of_a_part(log, tmp_path, part, order):
    """Scenarios 66, 74-85: a crash before or after each step of XA PREPARE, COMMIT, ROLLBACK and
    COMMIT ONE PHASE. After the restart the part is applied exactly once. Before the restart the cut
    is the state before the part or after it, and the branch is prepared if it has not ended."""
    before, write, seen, left = PARTS[part]
    if before:
        _prepare(log)
    base = tmp_path / "base"
    run(log.folder, base, group_max_transactions=1)
    write(log)
    done, crash = False, 0
    while not done:
        crash += 1
        target = tmp_path / f"lake{crash}"
        shutil.copytree(base, target)
        done = run(log.folder, target, crash=crash, preserve_commit_order=order)
        last = cuts(target)[-1]
        behind = last.gtid_executed.endswith(f"-{log.gno - 1}")
        assert behind or not done
        at = last.tables["t.a"].version
        assert ((3, "new") in rows(target, A, at)) == (behind and seen)
        assert bool(last.prepared) == (left if behind else before)
        run(log.folder, target)
        assert rows(target, A) == OLD + [(3, "new")] * seen
        assert rows(target, B) == [(3, "new")] * seen
        assert prepared(target) == [b"one"] * left
    assert crash > (3 if part == "rollback" else 4)


def test_a_batch_that_comes_again_prepares_nothing_again(log, target):
    """A stream may bring one twice."""
    _prepare(log)
    with applier(log.folder, target) as replica:
        apply_without_stream(replica)
        replica.coordinator.apply(replica.index.slice(0, replica.index.end))
    assert prepared(target) == [b"one"]
    log.xa_end("COMMIT", ONE)
    run(log.folder, target)
    assert rows(target, A) == [*OLD, (3, "new")]


def test_branches_may_end_in_another_order_than_they_began(log, target):
    """Scenario 67: E1 E2 P2 P1 C1 C2: the order of the ends has nothing to do with that of the
    beginnings."""
    log.xa_prepare(TWO, insert(A, (20, "two")))
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.xa_end("COMMIT", ONE)
    log.xa_end("COMMIT", TWO)
    run(log.folder, target, group_max_transactions=1)
    seen = [len(rows(target, A, cut.tables["t.a"].version)) for cut in cuts(target)[3:]]
    assert seen == [2, 2, 2, 3, 4]
    assert prepared(target) == []


@pytest.mark.parametrize("bound", [1, 100])
def test_second_part_on_another_worker_and_order(log, target, bound):
    """Scenario 68: commit on a different node than prepare; workers and order changed between."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    run(log.folder, target, workers=3, group_max_transactions=bound)
    assert prepared(target) == [b"one"]
    log.xa_end("COMMIT", ONE)
    run(log.folder, target, workers=1, preserve_commit_order=False)
    assert rows(target, A) == [*OLD, (10, "one")]


def test_branches_without_rows_take_their_slots(log, target):
    """Scenarios 69, 89: one phase without rows (logged with an explicit GTID), and a branch without
    rows that is prepared and rolled back: they take their slots and change nothing."""
    log.xa_prepare(ONE, one_phase=True)
    log.xa_prepare(TWO)
    log.xa_end("ROLLBACK", TWO)
    log.transaction(insert(A, (3, "x")))
    run(log.folder, target, group_max_transactions=1)
    assert rows(target, A) == [*OLD, (3, "x")]
    assert [cut.gtid_executed[-1] for cut in cuts(target)] == list("12345678")
    assert prepared(target) == []


def test_xa_groups_are_skipped_by_gtid(log, tmp_path, target):
    """Scenario 72: another log of the same source holds XA groups that were executed: they are
    passed over, their branches stay as they are, and a second part there finds them."""
    other = begun(tmp_path / "other", server_id=2, created=1_700_009_999)
    for made in (log, other):
        made.xa_prepare(ONE, insert(A, (10, "one")))
        made.xa_prepare(TWO, insert(A, (20, "two")))
        made.xa_end("COMMIT", TWO)
    run(log.folder, target, group_max_transactions=1)
    other.xa_end("COMMIT", ONE)
    run(other.folder, target)
    assert rows(target, A) == [*OLD, (10, "one"), (20, "two")]
    assert prepared(target) == []


def test_commit_fails_and_is_tried_again(log, target, caplog):
    """Scenarios 31, 32, 73: what fails before an XA COMMIT leaves the branch prepared (3197); then
    the commit is tried again."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.transaction(delete(A, (77, "no such")))
    log.xa_end("COMMIT", ONE)
    assert stopped(log.folder, target, group_max_transactions=1).number == 1032
    assert "3197" in caplog.text
    assert prepared(target) == [b"one"]
    run(log.folder, target, exec_mode="idempotent")
    assert rows(target, A) == [*OLD, (10, "one")]


def test_commit_fails_by_its_own_rows(log, target):
    """Scenario 73: the branch's own rows don't fit: it stays prepared; then it is rolled back by
    hand, and its late XA COMMIT is recognised."""
    log.xa_prepare(ONE, update(A, ((77, "no such"), (77, "x"))))
    log.transaction(insert(A, (3, "x")))
    log.xa_end("COMMIT", ONE)
    error = stopped(log.folder, target)
    assert (error.number, error.gtid) == (1032, log.gtid(6))
    assert prepared(target) == [b"one"]
    text = b"one".hex()
    assert main(["xa", "rollback", "--target", str(target), "--xid", text]) == 0
    run(log.folder, target)
    assert rows(target, A) == [*OLD, (3, "x")]
    assert prepared(target) == []


def test_xa_survives_several_failures_and_restarts(log, target):
    """Scenario 84: XA and plain transactions, several failures and restarts between."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.xa_prepare(TWO, insert(B, (20, "two")))
    log.transaction(insert(A, (11, "plain")))
    log.xa_end("COMMIT", TWO)
    log.xa_end("ROLLBACK", ONE)
    log.xa_prepare(ONE, insert(A, (10, "again")))
    log.xa_end("COMMIT", ONE)
    for crash in range(1, 16):
        run(log.folder, target, crash=crash, group_max_transactions=1 + crash % 3)
    run(log.folder, target)
    assert rows(target, A) == [*OLD, (10, "again"), (11, "plain")]
    assert rows(target, B) == [(20, "two")]


@pytest.mark.parametrize("xid", [ONE, TWO, (b"\xff" * 64, b"\0", 7), (b"'", b"'", 0)])
def test_xids_with_any_bytes_are_recovered_and_committed(log, target, xid: Xid):
    """Scenarios 86, 88: NULs, quotes and the longest XID; parts in different files."""
    log.xa_prepare(xid, insert(A, (10, "x")))
    log.rotate()
    run(log.folder, target)
    (found,) = status(str(target))["xa_recover"]
    have = (bytes.fromhex(found["gtrid"]), bytes.fromhex(found["bqual"]), found["format_id"])
    assert have == xid
    log.xa_end("COMMIT", xid)
    run(log.folder, target)
    assert rows(target, A) == [*OLD, (10, "x")]


def test_disconnect_leaves_the_branch_prepared(log, target):
    """Scenarios 65, 87: the client goes, the branch stays; others work meanwhile."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    for key in range(20, 24):
        log.transaction(insert(A, (key, "x")))
        run(log.folder, target)
        assert prepared(target) == [b"one"]
    log.xa_end("COMMIT", ONE)
    run(log.folder, target)
    assert (10, "one") in rows(target, A)


# Around it.


def test_prepared_branches_are_named_at_each_start(log, target, caplog):
    """As MySQL says: "Found 1 prepared XA transaction(s)"; nothing where there are none."""

    def said() -> list[str]:
        caplog.clear()
        with applier(log.folder, target):
            return [text for text in caplog.messages if "prepared XA" in text]

    run(log.folder, target)
    assert said() == []
    log.xa_prepare(ONE, insert(A, (10, "one")))
    run(log.folder, target)
    assert said() == said() == ["Found 1 prepared XA transactions: X'6f6e65',X'',1"]
    log.xa_end("COMMIT", ONE)
    run(log.folder, target)
    assert said() == []


def test_old_branches_are_said_to_be_old(log, target, capsys):
    """A warning beyond ``xa_age_limit_s``, once; in the status as text, JSON and metrics."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    for limit, old in ((10**9, False), (3600, True)):
        with applier(log.folder, target, xa_age_limit_s=limit) as found:
            found.coordinator.apply(found.index.slice(0, found.index.end))
            found.opened.pipeline.end_by_hand()
            said = [text for text in found.counters.warnings if "XA branch" in text]
        assert len(said) == old
        (branch,) = status(str(target))["xa_recover"]
        assert branch["old"] is old
        assert branch["age_s"] > 3600 and branch["bytes"] > 100
        assert main(["status", "--target", str(target)]) == 0
        assert ("is its XA COMMIT lost?" in capsys.readouterr().out) is old
        assert main(["status", "--target", str(target), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["xa_recover"][0]["old"] is old
        assert main(["status", "--target", str(target), "--metrics"]) == 0
        sampled = {
            sample.name.removeprefix("spark_repl_"): sample.value
            for family in text_string_to_metric_families(capsys.readouterr().out)
            for sample in family.samples
        }
        assert (sampled["xa_prepared"], sampled["xa_prepared_old"]) == (1, old)
        assert sampled["xa_prepared_bytes"] == branch["bytes"]
        assert sampled["xa_prepared_age_seconds"] >= branch["age_s"]
        assert sampled["table_version"] == status(str(target))["tables"]["t.b"]["version"]
        assert sampled["cut_timestamp_seconds"] > sampled["source_commit_timestamp_seconds"] > 0


def test_an_age_limit_that_is_reloaded_holds_for_warnings_and_behind_going_back(log, target):
    log.xa_prepare(ONE, insert(A, (10, "one")))
    with applier(log.folder, target, xa_age_limit_s=10**9) as found:
        found.coordinator.apply(found.index.slice(0, found.index.end))
        found.reload(replace(found.config.apply, xa_age_limit_s=3600))
        found.opened.pipeline.end_by_hand()
        assert [text for text in found.counters.warnings if "XA branch" in text]
        found._open(found.control)
        assert found.opened.status.xa_age_limit_s == 3600


def test_age_is_counted_from_the_prepare(monkeypatch):
    order = (("prepare", 0),)
    records = records_of(order, (True,))
    (branch,) = branches_of(order, records).values()
    parts = XaParts(Kept(), [branch])  # type: ignore[arg-type]
    monkeypatch.setattr(time, "time", lambda: 100.0)
    assert parts.old(100) == []
    monkeypatch.setattr(time, "time", lambda: 100.5)
    (said,) = parts.old(100)
    assert "has been prepared for 100 s" in said or "for 101 s" in said
    assert parts.old(100) == []


@pytest.mark.parametrize("lost", ["relay log", "index and checkpoint"])
def test_a_prepared_branch_outlives_the_relay_log(log, target, lost):
    """Scenario 85: the branch's bytes are with the cut: restart, loss and purge take nothing."""
    log.xa_prepare(ONE, insert(A, (10, "one")), update(A, ((1, "old"), (1, "one"))))
    run(log.folder, target)
    log.rotate()
    log.xa_end("COMMIT", ONE)
    if lost == "relay log":
        (log.folder / "bin.000001").unlink()
    for folder in ("index", "checkpoint"):
        shutil.rmtree(target / "_repl" / folder, ignore_errors=True)
    run(log.folder, target)
    assert rows(target, A) == [(1, "one"), (2, "old"), (10, "one")]


def test_lost_bytes_of_a_branch_are_named(log, target):
    log.xa_prepare(ONE, insert(A, (10, "one")))
    run(log.folder, target)
    for path in (target / "_repl" / "xa").iterdir():
        path.unlink()
    error = stopped(log.folder, target)
    assert "the bytes of the prepared XA branch" in error.message
    assert error.hint is not None and "xa rollback" in error.hint


def test_statements_are_applied_between_prepare_and_commit(log, target):
    """DDL that is applied, between PREPARE and COMMIT: the branch lands behind it."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY, v VARCHAR(40))")
    log.ddl("CREATE INDEX i ON t.a (v)")
    log.transaction(insert(Table("c"), (1, "c")))
    log.xa_end("COMMIT", ONE)
    run(log.folder, target, group_max_transactions=1)
    assert rows(target, A) == [*OLD, (10, "one")]

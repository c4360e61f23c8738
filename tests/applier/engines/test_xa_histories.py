"""XA transactions in histories: by hand, in wrong order, through restarts and crashes (WL#6860).

What a history must end in is computed serially: a branch's rows appear where its XA COMMIT stands.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from spark_repl.binlog.events.xid import Xid
from spark_repl.cli.main import main
from spark_repl.crash_points import listening
from spark_repl.errors import SparkReplError, StatementError
from tests.spark.lab import assert_applied_once, assert_rows, cuts, run, stopped
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import rows as local_rows

A, B = Table("a"), Table("b")
ONE, TWO, THREE = (b"one", b"", 1), (b"t\0'\"w", b"o" * 64, 2**32 - 1), (b"\xff" * 64, b"3", 7)


@pytest.fixture
def xa(log: LogWriter) -> LogWriter:
    log.ddl(B.create)
    log.transaction(insert(A, (1, "old"), (2, "old")))
    return log


def prepared(target: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["xa", "list", "--target", str(target), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out.splitlines()[-1])["prepared"]
    return found


def test_rows_count_where_xa_commit_stands(engine, xa, target):
    # Scenario 30: parts of XA commit in order, as any other.
    # Invariant 7: the branch's rows lie in the versions of its XA COMMIT, not of its XA PREPARE.
    xa.xa_prepare(ONE, insert(B, (1, "branch")))
    xa.transaction(insert(A, (5, "between")))
    xa.xa_end("COMMIT", ONE)
    xa.transaction(update(B, ((1, "branch"), (1, "after"))))
    for bound in (1, 100):
        shutil.rmtree(target, ignore_errors=True)
        run(engine, xa.folder, target, group_max_transactions=bound)
        assert_rows(engine, target, B, [(1, "after")])
        with_branch = [cut for cut in cuts(target) if cut.prepared]
        assert len(with_branch) == (2 if bound == 1 else 0)
        for cut in with_branch:
            assert local_rows(target, B, cut.tables["t.b"].version) == [], (
                "prepared rows are visible"
            )


def test_one_xid_may_be_used_again_after_its_end(engine, xa, target):
    # Scenario 91's lesson: the same XID may come again after its end.
    for key in range(10, 16):
        xa.xa_prepare(ONE, insert(A, (key, "x")))
        xa.xa_end("COMMIT" if key % 2 else "ROLLBACK", ONE)
    run(engine, xa.folder, target)
    assert_rows(engine, target, A, [(1, "old"), (2, "old"), (11, "x"), (13, "x"), (15, "x")])


def test_unknown_and_doubled_xids_stop_with_1397_and_1440(engine, xa, target, tmp_path):
    # Scenarios 69, 73, 90: unknown XID 1397, duplicate 1440; what stands before has landed.
    xa.xa_prepare(ONE, insert(A, (10, "one")))
    xa.transaction(insert(A, (3, "x")))
    xa.xa_end("COMMIT", TWO)
    error = stopped(engine, xa.folder, target)
    assert isinstance(error, StatementError)
    assert (error.number, error.gtid) == (1397, xa.gtid(6))
    assert "Unknown XID" in error.message
    assert error.file == str(xa.path)
    assert_rows(engine, target, A, [(1, "old"), (2, "old"), (3, "x")])
    assert main(["skip", "--gtid", xa.gtid(6), "--target", str(target)]) == 0
    xa.xa_prepare(ONE, insert(A, (11, "again")))
    error = stopped(engine, xa.folder, target)
    assert (error.number, error.gtid) == (1440, xa.gtid(7))


def test_branches_are_committed_and_rolled_back_by_hand(engine, xa, target, capsys):
    xa.xa_prepare(ONE, insert(A, (10, "one")))
    xa.xa_prepare(TWO, insert(A, (20, "two")))
    run(engine, xa.folder, target)
    hexed = b"one".hex()
    assert main(["xa", "commit", "--target", str(target), "--xid", "zz"]) == 2
    assert main(["xa", "commit", "--target", str(target), "--xid", "abcd"]) == 1
    assert main(["xa", "commit", "--target", str(target), "--xid", hexed]) == 0
    two = f"{TWO[0].hex()},{TWO[1].hex()},{TWO[2]}"
    assert main(["xa", "rollback", "--target", str(target), "--xid", two]) == 0
    decided = prepared(target, capsys)
    assert sorted(line["by_hand"] for line in decided) == ["COMMIT", "ROLLBACK"]
    assert all("@" in line["decided_by"] and line["decided_at"] for line in decided)
    run(engine, xa.folder, target)
    assert_rows(engine, target, A, [(1, "old"), (2, "old"), (10, "one")])
    assert prepared(target, capsys) == []
    # The second parts come late, and are recognised; the log goes on behind them.
    xa.xa_end("COMMIT", ONE)
    xa.xa_end("COMMIT", TWO)
    xa.transaction(update(A, ((10, "one"), (10, "later"))))
    run(engine, xa.folder, target)
    assert_rows(engine, target, A, [(1, "old"), (2, "old"), (10, "later")])
    assert_applied_once(target)


def test_two_commits_by_hand_at_one_place(engine, xa, target):
    xa.xa_prepare(ONE, insert(A, (10, "one")))
    xa.xa_prepare(TWO, insert(A, (20, "two")), insert(B, (20, "two")))
    xa.xa_prepare(THREE, insert(A, (30, "three")))
    run(engine, xa.folder, target)
    for gtrid, bqual, number in (ONE, TWO):
        text = f"{gtrid.hex()},{bqual.hex()},{number}"
        assert main(["xa", "commit", "--target", str(target), "--xid", text]) == 0
    run(engine, xa.folder, target)
    want = [(1, "old"), (2, "old"), (10, "one"), (20, "two")]
    assert_rows(engine, target, A, want)
    text = f"{THREE[0].hex()},{THREE[1].hex()},{THREE[2]}"  # at a later start, at the same place
    assert main(["xa", "commit", "--target", str(target), "--xid", text]) == 0
    run(engine, xa.folder, target)
    assert_rows(engine, target, A, [*want, (30, "three")])
    xa.transaction(insert(A, (40, "plain")))
    run(engine, xa.folder, target)
    assert_rows(engine, target, A, [*want, (30, "three"), (40, "plain")])
    assert_rows(engine, target, B, [(20, "two")])


def test_failed_commit_leaves_the_branch_prepared(engine, xa, target, capsys):
    # Scenarios 31, 32: what fails before an XA COMMIT leaves the branch prepared.
    xa.xa_prepare(ONE, insert(A, (10, "one")))
    xa.transaction(delete(A, (77, "no such")))
    xa.xa_end("COMMIT", ONE)
    assert stopped(engine, xa.folder, target).number == 1032
    assert [line["gtrid"] for line in prepared(target, capsys)] == [b"one".hex()]
    run(engine, xa.folder, target, exec_mode="idempotent")
    assert_rows(engine, target, A, [(1, "old"), (2, "old"), (10, "one")])


def history(number: int, log: LogWriter) -> tuple[list[tuple[int, str]], list[bytes]]:
    """Writes a random history of 4 branches and 4 transactions; (end rows, prepared gtrids)."""
    dice = random.Random(number)
    steps = [("branch", i) for i in range(4)] + [("end", i) for i in range(4)]
    steps += [("plain", i) for i in range(4)]
    dice.shuffle(steps)
    rows: dict[int, str] = {1: "old", 2: "old"}
    open_: dict[int, list[int]] = {}
    used = itertools.count(100)
    for kind, i in steps:
        xid = (bytes([i]), b"q", i)
        if kind == "branch":
            open_[i] = [next(used), next(used)]
            log.xa_prepare(xid, insert(A, *[(key, f"x{i}") for key in open_[i]]))
        elif kind == "plain":
            key = next(used)
            before = rows[1]
            rows[1] = rows[key] = f"p{i}"
            log.transaction(insert(A, (key, f"p{i}")), update(A, ((1, before), (1, f"p{i}"))))
        elif i in open_:
            keys = open_.pop(i)
            action = dice.choice(["COMMIT", "COMMIT", "ROLLBACK"])
            log.xa_end(action, xid)
            if action == "COMMIT":
                rows.update(dict.fromkeys(keys, f"x{i}"))
        if dice.random() < 0.15:
            log.rotate()
    return sorted(rows.items()), [bytes([i]) for i in open_]


class Crash(SparkReplError):
    """Where the run is cut off."""


@pytest.mark.parametrize("number", range(12))
def test_random_xa_histories_survive_crashes(engine, xa, target, number, capsys):
    """Cut off before or after random table commits and cuts, restarted with other bounds."""
    rows, left = history(number, xa)
    dice = random.Random(number)
    wanted = dice.choice(["before_commit", "after_commit", "before_cut", "after_cut"])
    hits = [dice.randint(1, 6)]

    def reach(name: str) -> None:
        if name == wanted and hits:
            hits[0] -= 1
            if not hits[0]:
                hits.clear()
                raise Crash("the run is cut off here")

    for bound in (2, 1, 100):
        try:
            with listening(reach):
                run(engine, xa.folder, target, group_max_transactions=bound)
        except Crash:
            continue
        break
    assert_rows(engine, target, A, rows)
    assert sorted(line["gtrid"] for line in prepared(target, capsys)) == sorted(
        gtrid.hex() for gtrid in left
    )
    assert_applied_once(target)


def test_an_xid_round_trips_through_its_texts():
    # Scenario 88: XIDs are bytes, NUL among them.
    xid = Xid(7, b"a\0b", b"'")
    assert Xid.parse(f"XA COMMIT {xid}".encode()) == xid
    assert Xid.of_hex("610062,27,7") == xid
    assert Xid.of_hex("61") == Xid(1, b"a", b"")
    assert Xid.of_json(xid.to_json()) == xid
    with pytest.raises(StatementError):
        Xid.parse(b"XA COMMIT 'plain'")

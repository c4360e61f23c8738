"""Impossible XA: unknown and duplicate XIDs, malformed sequences. Each stops the applier with its
reason.

Each test names the test of MySQL's that it corresponds to (scenarios.py), and asserts the same
outcome.
"""

from __future__ import annotations

import itertools

import pytest

from spark_repl.cli.main import main
from spark_repl.errors import LogError, SparkReplError, StatementError
from spark_repl.relay.xa_branches import Xid
from tests.support.binlog_writer import Table, delete, insert
from tests.support.local_delta import cuts, rows, run, stopped

A, B = Table("a"), Table("b")
ONE, TWO = (b"one", b"", 1), (b"two", b"", 1)


def prepared(target) -> list[bytes]:
    return [bytes.fromhex(branch["gtrid"]) for branch in cuts(target)[-1].prepared]


def test_wrong_xid_is_unknown(log, target):
    """Scenario 90: the end of an XID that is not prepared: 1397, and the others stay prepared."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.xa_end("ROLLBACK", TWO)
    error = stopped(log.folder, target)
    assert (error.number, error.gtid) == (1397, log.gtid(4))
    assert prepared(target) == [b"one"]


@pytest.mark.parametrize("ended", [True, False])
def test_a_second_prepare_of_an_open_xid_stops_with_1440(log, target, ended):
    """Scenario 91: a second XA PREPARE of an XID is an error (1440) until the first has ended."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    if ended:
        log.xa_end("COMMIT", ONE)
    log.xa_prepare(ONE, insert(A, (11, "again")))
    if ended:
        run(log.folder, target)
        assert prepared(target) == [b"one"]
    else:
        assert stopped(log.folder, target).number == 1440
        assert prepared(target) == [b"one"]


MALFORMED = {
    # scenario 91, binlog_xa_recovery_errors, in mysql.md's order: events behind the GTID; the end
    "XID outside": (["XID"], "XID event can't stand here"),
    "XA_PREPARE outside": (["XA_PREPARE"], "XA_PREPARE event can't stand here"),
    "BEGIN inside": (["BEGIN", "BEGIN", "XID"], "QUERY event can't stand here"),
    "XA START inside": (["XA START", "XA START", "XA_PREPARE"], "QUERY event can't stand here"),
    "BEGIN inside XA": (["XA START", "BEGIN", "XA_PREPARE"], "QUERY event can't stand here"),
    "COMMIT outside": (["COMMIT"], "COMMIT"),
    "DDL inside": (["BEGIN", "CREATE TABLE t.z (id INT)", "XID"], "by statements"),
    "XA COMMIT inside": (["XA START", "XA COMMIT", "XA_PREPARE"], "QUERY event can't stand here"),
    "XA COMMIT inside of BEGIN": (["BEGIN", "XA COMMIT", "XID"], "QUERY event can't stand here"),
    "XA ROLLBACK of nobody": (["XA ROLLBACK"], "Unknown XID"),
    "an XID that can't be read": (["XA COMMIT 'plain'"], "without a readable XID"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_sequence_stops_after_what_precedes_it(log, target, case):
    """Scenarios 62, 91: a malformed sequence of events stops the applier, with reason and place.
    Everything before it is applied, and nothing after it."""
    events, reason = MALFORMED[case]
    log.transaction(insert(A, (3, "before")))
    log.events(events, ONE)
    log.transaction(insert(A, (4, "behind")))
    try:
        run(log.folder, target, group_max_transactions=1)
    except (LogError, StatementError) as error:
        assert reason in error.message, error
        assert error.file is not None and error.position is not None
    else:
        raise AssertionError("the applier did not stop")
    assert rows(target, A) == [(3, "before")]
    with pytest.raises(SparkReplError):
        run(log.folder, target)


PARTS = {
    # of the first part alone: how it differs from a good one; plain, compressed
    "another XID": ({"held": TWO}, "holds an invalid XID"),
    "XID in place of XA_PREPARE": ({"end": "XID"}, "XAER_RMFAIL"),
    "COMMIT in place of XA_PREPARE": ({"end": "COMMIT"}, "XAER_RMFAIL"),
    "DDL inside": ({"amid": "CREATE TABLE t.x (id INT)"}, "by statements"),
    "XA START inside": ({"amid": "XA START X'61',X'',1"}, "transaction"),
    "BEGIN inside": ({"amid": "BEGIN"}, "transaction"),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("case", PARTS)
def test_a_branch_whose_prepare_is_malformed_stops_with_its_reason(log, target, case, compressed):
    """Scenarios 62, 91: XA_PREPARE holds an invalid XID; the branch ends otherwise (1399)."""
    how, reason = PARTS[case]
    log.xa_prepare(ONE, insert(A, (10, "one")), compressed=compressed, **how)
    log.xa_end("COMMIT", ONE)
    error = stopped(log.folder, target)
    assert reason in error.message
    assert error.position is not None
    assert not (target / "t" / "a").exists() or rows(target, A) == []


def test_xa_prepare_behind_begin(log, target):
    """Scenario 91: XA_PREPARE outside of an XA transaction: no XID is taken from what follows."""
    log.xa_prepare(ONE, insert(A, (10, "one")), begin="BEGIN")
    log.xa_prepare(TWO, insert(A, (11, "two")))
    error = stopped(log.folder, target)
    assert "outside of an XA transaction" in error.message
    assert error.gtid == log.gtid(3)
    assert prepared(target) == []


@pytest.mark.parametrize("bad", [(b"g" * 65, b"", 1), (b"g", b"b" * 65, 1), (b"g", b"", 1 << 32)])
def test_an_xid_beyond_its_bounds_stops(log, target, bad):
    """Scenario 91: an XID is 64 + 64 bytes and 32 bits at most."""
    log.xa_prepare(bad, insert(A, (10, "one")), held=ONE)
    assert "holds an invalid XID" in stopped(log.folder, target).message


def test_commit_by_hand_that_does_not_fit(log, target):
    """The branch and the way out are named; it stays prepared until it is rolled back."""
    log.xa_prepare(ONE, delete(A, (77, "no such")))
    run(log.folder, target)
    by_hand = ["--target", str(target), "--xid", b"one".hex()]
    assert main(["xa", "commit", *by_hand]) == 0
    log.transaction(insert(A, (1, "x")))
    error = stopped(log.folder, target)
    assert (error.number, error.gtid) == (1032, log.gtid(3))
    assert "by hand" in error.message and str(Xid(1, b"one", b"")) in error.message
    assert error.hint is not None and "xa rollback" in error.hint
    assert prepared(target) == [b"one"]
    assert main(["xa", "rollback", *by_hand]) == 0
    run(log.folder, target)
    assert rows(target, A) == [(1, "x")]
    assert prepared(target) == []


@pytest.mark.parametrize("changed", ["another is decided", "it is taken back"])
def test_commit_by_hand_cut_off_between_tables(log, target, changed, killed):
    """What is decided between the crash and the restart does not come before what has begun."""
    log.xa_prepare(ONE, insert(A, (1, "one")), insert(B, (1, "one")))
    log.xa_prepare(TWO, insert(A, (2, "two")), insert(B, (2, "two")))
    run(log.folder, target)
    assert main(["xa", "commit", "--target", str(target), "--xid", b"two".hex()]) == 0
    commits = itertools.count(1)
    killed(log, target, lambda at: at == "before_put" and next(commits) > 1)
    assert len(rows(target, A)) + len(rows(target, B)) == 1
    how = ["commit", b"one"] if changed == "another is decided" else ["rollback", b"two"]
    assert main(["xa", how[0], "--target", str(target), "--xid", how[1].hex()]) == 0
    run(log.folder, target)
    want = [(1, "one"), (2, "two")] if how[1] == b"one" else [(2, "two")]
    assert rows(target, A) == rows(target, B) == want
    assert cuts(target)[-1].counts["by_hand"] == len(want), "places behind the cut's position"


@pytest.mark.parametrize(
    ("text", "xid"),
    [
        ("6f", Xid(1, b"o", b"")),
        ("6F,00,7", Xid(7, b"o", b"\0")),
        (",62", Xid(1, b"", b"b")),  # XA START '', 'b' is legal
        ("", None),
        ("6f,,x", None),
        ("6f6", None),
        ("6f,,1,2", None),
        ("6f,,4294967296", None),
        ("6f,,-1", None),
        ("00" * 65, None),
    ],
)
def test_an_xid_of_the_command_line_is_parsed_or_refused(text, xid):
    if xid is not None:
        assert Xid.of_hex(text) == xid
        return
    with pytest.raises(ValueError, match=r"hex|int|XID"):
        Xid.of_hex(text)

"""XA that can't be: unknown and doubled XIDs, malformed sequences. Each stops with its reason.

Each test says which of MySQL's own it stands for (tests/scenarios.py), and asserts what that does.
"""

from __future__ import annotations

import pytest

from spark_repl.errors import LogError, SparkReplError, StatementError
from tests.binlog_writer import Table, insert
from tests.local_delta import cuts, rows, run, stopped

A = Table("a")
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
def test_one_xid_twice(log, target, ended):
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
def test_malformed_sequences(log, target, case):
    """Scenarios 62, 91: a malformed sequence of events stops, with its reason and place; what
    stands before it has been applied, nothing behind it."""
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
    seen = rows(target, A) if (target / "t" / "a").exists() else []
    assert (4, "behind") not in seen
    with pytest.raises(SparkReplError):
        run(log.folder, target)

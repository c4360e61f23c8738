"""Scenarios of MySQL's own tests that no other test of the applier covers.

Each test names the test of MySQL's that it corresponds to (scenarios.py), and asserts the same
outcome.
"""

from __future__ import annotations

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from spark_repl.config import Config
from spark_repl.control.records.operator_decisions import decide
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.observe.status.status import status
from spark_repl.receiver.receiver import Receiver
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.log import open_log
from spark_repl.runtime.part_files import is_part
from spark_repl.service.receiving import executed_of
from tests.applier.test_xa import OLD, ONE, begun, prepared
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.dump_stream import receive
from tests.support.local_delta import CRASHES, LocalDelta, cuts, last_shown, rows, run, stopped

A, B = Table("a"), Table("b")
SYSTEM = Table("x", database="mysql")


def test_a_start_inside_a_group(log, target):
    """Scenario 6: the applier begins in the middle of a transaction, after its GTID event and
    BEGIN. It stops and names the place. It applies neither the rest of the transaction nor later
    ones."""
    log.rotate()
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "x")))
    name, start, _ = log.spans[3]
    data = log.path.read_bytes()
    begin = start + int.from_bytes(data[start + 9 : start + 13], "little")
    rows_at = begin + int.from_bytes(data[begin + 9 : begin + 13], "little")
    log.path.write_bytes(data[:start] + data[rows_at:])
    error = stopped(log.folder, target)
    assert "event can't stand here" in error.message
    assert error.file is not None and error.file.endswith(name) and error.position == str(start)
    assert rows(target, A) == []
    assert cuts(target)[-1].gtid_executed.endswith(":1-3")


@pytest.mark.parametrize("fails", ["keeping the branch", "its commit"])
def test_an_xa_group_is_tried_again(log, target, monkeypatch, faults, fails):
    """Scenario 40: a temporary error in an XA group, in its XA PREPARE or its XA COMMIT: the
    group is rolled back and tried again, and is there once."""
    log.xa_prepare(ONE, insert(A, (1, "x")), insert(B, (1, "x")))
    log.xa_end("COMMIT", ONE)
    kept, left = [], [2 if fails == "keeping the branch" else 0]

    def keep(name: str) -> None:
        if name == "xa_keeping":
            kept.append(name)
            if left[0]:
                left[0] -= 1
                raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(CRASHES, "told", keep)
    tried = faults(("t/a",), 0 if fails == "keeping the branch" else 2)
    run(log.folder, target, group_max_transactions=1)
    want = (3, 1) if fails == "keeping the branch" else (1, 3)
    assert (len(kept), tried.count("t/a")) == want
    assert rows(target, A) == rows(target, B) == [(1, "x")]
    assert LocalDelta().version(str(target / "t/a")) == 1, "one commit behind its creation"
    names = [path.name for path in (target / "_repl" / "xa").iterdir()]
    assert [name for name in names if not is_part(name)] == []


def test_a_new_relay_log_begins_where_the_applier_is(log, tmp_path, target):
    """Scenario 52: relay_log_recovery discards the transactions that were received and not applied.
    The receiver begins a new log after those that were applied."""
    relay = tmp_path / "relay"
    log.transaction(insert(A, (1, "x")))
    with RelayWriter(relay, 9) as writer:
        receive(writer, [log.path])
    run(relay, target)
    for key in (2, 3):
        log.transaction(insert(A, (key, "x")))
    with RelayWriter(relay, 9) as writer:
        receive(writer, [log.path])
        received = writer.received
    shutil.rmtree(relay)
    config = Config.from_mapping({"relay": {"path": str(relay)}, "target": {"path": str(target)}})
    begin = executed_of(config)
    assert begin is not None and begin.count() == 4 < received.count() == 6
    receiver = Receiver(config, begin)
    with receiver.writer as writer:
        receiver._prepare()
        receive(writer, [log.path])
    assert open_log(str(relay)).previous_gtids() == begin
    run(relay, target)
    assert rows(target, A) == [(key, "x") for key in (1, 2, 3)]


def test_channels_have_counters_and_positions_of_their_own(log, tmp_path, faults, killed):
    """Scenarios 39, 48: two channels at work at once; one is tried again, and dies; the other's
    counters and position are its own, and each goes on from where it was."""
    other = LogWriter(tmp_path / "other", source="99999999-2222-3333-4444-555555555555")
    other.ddl("CREATE DATABASE u")
    c = Table("c", database="u")
    other.ddl(c.create)
    lakes = tmp_path / "one", tmp_path / "two"
    for key in range(1, 4):
        log.transaction(insert(A, (key, "x")))
        other.transaction(insert(c, (key, "x")))
    faults(("t/a",), 2)
    with ThreadPoolExecutor(1) as beside:
        both = beside.submit(run, other.folder, lakes[1], group_max_transactions=1)
        run(log.folder, lakes[0], group_max_transactions=1)
        assert both.result()
    counted = [status(str(lake))["replication_applier_status"][0] for lake in lakes]
    assert [one["COUNT_TRANSACTIONS_RETRIES"] for one in counted] == [2, 0]
    for made, table in ((log, A), (other, c)):
        made.transaction(insert(table, (4, "x")))
    killed(log, lakes[0], lambda at: at == "after_put")
    run(other.folder, lakes[1])
    run(log.folder, lakes[0])
    assert rows(lakes[0], A) == rows(lakes[1], c) == [(key, "x") for key in range(1, 5)]
    for lake, made in zip(lakes, (log, other), strict=True):
        assert cuts(lake)[-1].gtid_executed == f"{made.source}:1-{made.gno - 1}"


@pytest.mark.parametrize("action", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("bound", [1, 100])
def test_xa_statements_are_never_filtered(log, target, action, bound):
    """Scenarios 70, 71: a branch has rows of filtered schemas, with or without other rows. Filters
    leave out only the rows: the applier follows the XA statements."""
    log.xa_prepare(ONE, insert(SYSTEM, (1, "x")))
    log.xa_prepare((b"both", b"", 1), insert(SYSTEM, (2, "x")), insert(A, (2, "x")))
    run(log.folder, target, group_max_transactions=bound)
    assert prepared(target) == [b"one", b"both"]
    log.xa_end(action, ONE)
    log.xa_end(action, (b"both", b"", 1))
    log.xa_prepare(ONE, insert(A, (3, "x")))  # 1440 if the first had not ended
    run(log.folder, target, group_max_transactions=bound)
    assert prepared(target) == [b"one"]
    assert rows(target, A) == [(2, "x")] * (action == "COMMIT")
    assert not (target / "mysql").exists()


@pytest.mark.parametrize("both", [True, False])
def test_xa_groups_are_skipped_by_hand(log, target, both):
    """Scenario 72: the GTID of an XA PREPARE is among those that are skipped: there is no branch.
    Its XA COMMIT is unknown (1397) unless it is skipped too."""
    log.xa_prepare(ONE, insert(A, (1, "one")))
    log.xa_end("COMMIT", ONE)
    log.transaction(insert(A, (2, "x")))
    gtids = f"{log.source}:4-5" if both else log.gtid(3)
    decide(Control(Layout(str(target)).control), "skip", {}, gtid_executed=gtids)
    if both:
        run(log.folder, target)
        assert rows(target, A) == [(2, "x")] and prepared(target) == []
        assert cuts(target)[-1].gtid_executed.endswith(":1-6")
    else:
        error = stopped(log.folder, target)
        assert (error.number, error.gtid) == (1397, log.gtid(4))


def test_a_commit_that_failed_is_rolled_back(tmp_path, target, caplog):
    """Scenario 73: XA COMMIT was turned away by the failure of one before it (3197): its branch
    stays prepared, and may be rolled back then; its own XA COMMIT comes late, and does nothing."""
    log = begun(tmp_path / "log")
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.transaction(delete(A, (77, "no such")))
    log.xa_end("COMMIT", ONE)
    log.transaction(update(A, (OLD[0], (1, "behind"))))
    assert stopped(log.folder, target, group_max_transactions=1).number == 1032
    assert "3197" in caplog.text and prepared(target) == [b"one"]
    assert main(["xa", "rollback", "--target", str(target), "--xid", b"one".hex()]) == 0
    run(log.folder, target, exec_mode="idempotent")
    assert "comes late, and is passed over" in caplog.text
    assert rows(target, A) == [(1, "behind"), OLD[1]] and prepared(target) == []


@pytest.mark.parametrize("bound", [1, 100])
def test_a_one_phase_commit_that_fails(tmp_path, target, bound):
    """Scenario 69, rpl_xa_one_phase_error: its rows don't fit: it is named, nothing of it has
    landed in any table, no branch is left behind, and skipped it lets what follows in."""
    log = begun(tmp_path / "log")
    log.transaction(insert(A, (3, "before")))
    changes = insert(B, (5, "one")), update(A, ((77, "no such"), (77, "x")))
    log.xa_prepare(ONE, *changes, one_phase=True)
    log.transaction(insert(A, (4, "behind")))
    error = stopped(log.folder, target, group_max_transactions=bound)
    assert (error.number, error.gtid, error.table) == (1032, log.gtid(5), "t.a")
    assert rows(target, A) == [*OLD, (3, "before")] and rows(target, B) == []
    assert prepared(target) == []
    assert main(["skip", "--target", str(target), "--gtid", log.gtid(5)]) == 0
    run(log.folder, target)
    assert rows(target, A) == [*OLD, (3, "before"), (4, "behind")] and rows(target, B) == []


LOST_EVENTS = b"\1\0\x11" + b"some rows are off"


@pytest.mark.parametrize("named", [True, False], ids=["with a GTID", "by itself"])
def test_an_incident_stops_with_13119_until_it_is_skipped(log, target, named):
    """Scenarios 127, 162: an incident between compressed transactions. Everything before it is
    committed, then the applier stops with MySQL's error 13119. Each start stops there again until
    the user skips the incident."""
    log.transaction(insert(A, (1, "x")), compressed=True)
    start = log.path.stat().st_size
    if named:
        log._transaction([(26, LOST_EVENTS)])
    else:
        log._event(26, LOST_EVENTS)
    log.transaction(insert(A, (2, "x")), compressed=True)
    for _ in range(2):
        error = stopped(log.folder, target)
        assert error.number == 13119 and "LOST_EVENTS occurred on the source" in error.message
        assert error.position == f"000001:{start}" and rows(target, A) == [(1, "x")]
    if named:
        assert error.gtid == log.gtid(4)
        assert main(["skip", "--target", str(target), "--gtid", log.gtid(4)]) == 0
        run(log.folder, target)
        assert rows(target, A) == [(1, "x"), (2, "x")]


def test_status_of_xa_parts_and_of_what_is_left_out(log, target):
    """Scenarios 165-167: each part of an XA transaction is an applied one, by its own GTID; so is
    one that is left out, by whose GTID the next start goes on."""
    log.xa_prepare(ONE, insert(A, (1, "one")))
    seen = []
    for end in ("COMMIT", "skipped"):
        run(log.folder, target)
        seen.append(status(str(target))["replication_applier_status_by_worker"][0])
        if end == "COMMIT":
            log.xa_end(end, ONE)
        else:
            log.transaction(insert(A, (2, "x")))
            assert main(["skip", "--target", str(target), "--gtid", log.gtid(5)]) == 0
    run(log.folder, target)
    seen.append(status(str(target))["replication_applier_status_by_worker"][0])
    found = [one["LAST_APPLIED_TRANSACTION"] for one in seen]
    assert found == [log.gtid(3), log.gtid(4), log.gtid(5)]
    assert rows(target, A) == [(1, "one")]


ROW_IMAGES = Path(__file__).parents[1] / "fixtures" / "row_images"


def test_diffs_of_a_column_that_the_target_lacks(tmp_path):
    """Scenarios 137, 138: JSON diffs of two tables in one transaction, one of which has no such
    column here: its other columns are as if it had, and so are the other tables."""
    lakes = tmp_path / "whole", tmp_path / "without"
    run(ROW_IMAGES, lakes[0])
    run(ROW_IMAGES, lakes[1], tables=[{"match": "images.wide", "exclude": ["j"]}])
    whole, without = map(last_shown, lakes)
    assert any(row[4] for row in whole["images.wide"]) and any(r[3] for r in whole["images.pair"])
    whole["images.wide"] = [(*row[:4], *row[5:]) for row in whole["images.wide"]]
    assert without == whole

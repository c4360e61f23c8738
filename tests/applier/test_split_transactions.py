"""Transactions over several files of a replica's relay log, in the whole applier without Spark.

Scenario 58: r/rpl_gtid_transaction_split_across_relay_logs.
"""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from spark_repl.binlog.event_types import EventType
from spark_repl.decode import spans
from spark_repl.errors import HistoryError
from spark_repl.observe.status.status import status
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import LogWriter, Table, Xid, delete, insert, update
from tests.support.cut_off import STRIDE, shown
from tests.support.local_delta import (
    applier,
    broken,
    cuts,
    rows,
    run,
    stopped,
)
from tests.support.relay_split import description, relayed, source_events, write_file

A, B = Table("a"), Table("b")
ONE: Xid = (b"one", b"", 1)
TWO: Xid = (b"two", b"", 1)


def written(folder: Path) -> Path:
    made = LogWriter(folder)
    for statement in ("CREATE DATABASE t", A.create, B.create):
        made.ddl(statement)
    made.transaction(insert(A, (1, "one"), (2, "two")), insert(B, (1, "one")))
    made.transaction(update(A, ((1, "one"), (1, "uno"))), delete(B, (1, "one")), compressed=True)
    made.xa_prepare(ONE, insert(A, (3, "branch")))
    made.xa_prepare(TWO, insert(B, (4, "branch")), compressed=True)
    made.ddl("TRUNCATE TABLE t.b")
    made.xa_end("COMMIT", ONE)
    made.transaction(insert(B, (5, "five")))
    made.xa_end("COMMIT", TWO)
    return made.folder


WANT_A, WANT_B = [(1, "uno"), (2, "two"), (3, "branch")], [(4, "branch"), (5, "five")]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return written(tmp_path / "source")


@pytest.mark.parametrize("slice_bytes", [16 << 20, 64])
def test_every_event_in_a_file_of_its_own(
    source: Path, tmp_path: Path, slice_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Scenario 58: a transaction that spans relay logs, whatever its kind.
    monkeypatch.setattr(spans, "_SLICE_BYTES", slice_bytes)
    log = relayed(source, tmp_path / "relay", range(1, len(source_events(source))))
    assert run(log, tmp_path / "lake", group_max_transactions=2)
    assert rows(tmp_path / "lake", A) == WANT_A and rows(tmp_path / "lake", B) == WANT_B
    assert cuts(tmp_path / "lake")[-1].gtid_executed.endswith(":1-11")


def test_a_crash_at_each_step_leaves_split_transactions_whole(source: Path, tmp_path: Path) -> None:
    """And the next start at another: every cut that is shown is one of an undisturbed run."""
    log = relayed(source, tmp_path / "relay", range(2, len(source_events(source)), 3))
    assert run(log, tmp_path / "reference", group_max_transactions=1)
    want = shown(tmp_path / "reference")
    for step in range(1, 1000, 2 * STRIDE + 1):
        target = tmp_path / f"lake{step}"
        if run(log, target, crash=step, group_max_transactions=3):
            break
        run(log, target, crash=step % 5 + 1)
        assert run(log, target)
        assert shown(target).items() <= want.items()
        assert rows(target, A) == WANT_A and rows(target, B) == WANT_B
    assert step > 30


class Moment:
    """``open`` of two files: the ``at``-th time the second one can't be read."""

    def __init__(self, names: list[str], at: int) -> None:
        self._names, self._at, self._true = names, at, builtins.open
        self.opened, self.failed = list[str](), 0

    def open(self, path: Any, *args: Any, **options: Any) -> Any:
        if str(path) in self._names:
            self.opened.append(str(path))
            if not self.failed and self.opened.count(self._names[1]) == self._at:
                self.failed = len(self.opened)
                raise broken()
        return self._true(path, *args, **options)


@pytest.mark.parametrize("number", [3, 4, 5, 6, 8])
def test_a_file_in_mid_transaction_that_can_not_be_read_for_a_moment(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Plain and compressed, of rows, of a branch that is kept, and of its end: each time that it is
    opened it is read again, from its first file on, and that is counted."""
    events = source_events(source)
    log = relayed(source, tmp_path / "relay", range(1, len(events)))
    first = [at for at, event in enumerate(events, 1) if event[4] == EventType.GTID][number]
    names = [str(log / f"relay.{first + n:06d}") for n in range(2)]
    for at in range(1, 99):
        moment, target = Moment(names, at), tmp_path / f"lake{at}"
        with applier(log, target, group_max_transactions=1, workers=1) as found:
            begin, end = found.coordinator.mark.position, found.index.end
            with monkeypatch.context() as patched:
                patched.setattr(builtins, "open", moment.open)
                found.coordinator.apply(found.index.slice(begin, end))
            assert found.counters.retries == bool(moment.failed)
        assert rows(target, A) == WANT_A and rows(target, B) == WANT_B
        if number == 3:  # no XA statement: its transaction's own worker reads it
            (worker,) = status(str(target))["replication_applier_status_by_worker"]
            assert worker["COUNT_TRANSACTIONS_RETRIES"] == bool(moment.failed)
        if not moment.failed:
            break
        assert names[0] in moment.opened[moment.failed :]
    assert at > 1


def test_a_log_that_grows_inside_of_transactions(source: Path, tmp_path: Path) -> None:
    """The log is applied after each file. An open transaction waits, and a prepared branch is kept
    as a whole."""
    events, head, log = source_events(source), description(source), tmp_path / "relay"
    done = 0
    for number, at in enumerate(range(0, len(events), 4), 1):
        write_file(log, number, head, events[at : at + 4], rotated=at + 4 < len(events))
        assert run(log, tmp_path / "lake")
        if shown := cuts(tmp_path / "lake"):
            assert shown[-1].position > done - 1
            done = shown[-1].position
    assert rows(tmp_path / "lake", A) == WANT_A and rows(tmp_path / "lake", B) == WANT_B


def test_what_was_applied_may_be_purged_in_mid_transaction(source: Path, tmp_path: Path) -> None:
    """MySQL removes files that its own applier has passed: the rest of a transaction is left."""
    events, head, log = source_events(source), description(source), tmp_path / "relay"
    write_file(log, 1, head, events[:9])  # in the transaction of four
    write_file(log, 2, head, events[9:15])
    assert run(log, tmp_path / "lake")
    position = cuts(tmp_path / "lake")[-1].position
    assert position >> 40 == 2
    (log / "relay.000001").unlink()
    write_file(log, 3, head, events[15:], rotated=False)
    assert run(log, tmp_path / "lake")
    assert rows(tmp_path / "lake", A) == WANT_A and rows(tmp_path / "lake", B) == WANT_B
    error = stopped(log, tmp_path / "new")
    assert isinstance(error, HistoryError) and "begins in mid-history" in str(error)


def test_until_inside_a_split_transaction_applies_the_whole_of_it(
    source: Path, tmp_path: Path
) -> None:
    """It is the one in which the place lies, whichever of its files that is in."""
    log = relayed(source, tmp_path / "relay", range(1, len(source_events(source))))
    for number, want in ((13, [(1, "one"), (2, "two")]), (15, [(1, "uno"), (2, "two")])):
        until = Until.parse(f"relay:relay.{number:06d}:5")
        target = tmp_path / f"lake{number}"
        assert run(log, target, until=until)
        assert rows(target, A) == want


def test_until_a_place_of_the_source_is_found_in_split_files(source: Path, tmp_path: Path) -> None:
    """Found behind files that begin inside of a transaction."""
    log = relayed(source, tmp_path / "relay", range(1, len(source_events(source))))
    for ordinal, want in ((3, [(1, "one"), (2, "two")]), (4, [(1, "uno"), (2, "two")])):
        end = transaction_end(source, ordinal)
        until = Until.parse(f"source:bin.000001:{end}")
        target = tmp_path / f"lake{ordinal}"
        assert run(log, target, until=until)
        assert rows(target, A) == want


def transaction_end(source: Path, ordinal: int) -> int:
    """Where in the source's file the transaction of that number, from 0, ends."""
    events = source_events(source)
    begins = [i for i, event in enumerate(events) if event[4] == EventType.GTID]
    return int.from_bytes(events[begins[ordinal + 1] - 1][13:17], "little")

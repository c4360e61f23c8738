"""Storage that fails while the relay log is read, wherever on a transaction's way: it is tried
again, once for each failure, and what is read twice is applied once."""

from __future__ import annotations

import builtins
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from spark_repl.errors import GivenUpError
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import receive
from tests.support.local_delta import CRASHES, applier, broken, cuts, rows, run

A, B = Table("a"), Table("b")
XID = (b"x", b"", 1)


class Received:
    """A source's log as a receiver has written it: where transactions lie on the source stands in
    the relay files. Of it ``target`` has the first part."""

    def __init__(self, tmp_path: Path) -> None:
        self.log, self.relay = LogWriter(tmp_path / "source"), tmp_path / "relay"
        for statement in ("CREATE DATABASE t", A.create, B.create):
            self.log.ddl(statement)
        self.target = tmp_path / "lake"
        self.receive()
        run(self.relay, self.target)
        self.log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
        self.log.ddl("ALTER TABLE t.b ADD x INT")
        self.log.xa_prepare(XID, insert(A, (2, "x")))
        self.log.transaction(insert(A, (3, "x")))
        self.log.xa_end("COMMIT", XID)
        self.receive()

    def receive(self) -> None:
        with RelayWriter(self.relay, 9, Limits(1 << 30, 0)) as writer:
            receive(writer, sorted(self.log.folder.glob("bin.0*")))


@pytest.fixture
def received(tmp_path: Path) -> Received:
    return Received(tmp_path)


@contextmanager
def opening_fails(*numbers: int) -> Iterator[list[str]]:
    """The openings of relay files with these numbers; gives the paths of all openings."""
    true, seen = builtins.open, list[str]()

    def opened(path: Any, *args: Any, **more: Any) -> Any:
        if "/relay.0" in str(path):
            seen.append(str(path))
            if len(seen) in numbers:
                raise broken()
        return true(path, *args, **more)

    with patch.object(builtins, "open", opened):
        yield seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "until"),
    [
        (True, None),
        pytest.param(False, None, marks=pytest.mark.slow),
        pytest.param(True, "source:{file}:{end}", marks=pytest.mark.slow),
    ],
)
def test_each_failed_read_of_the_relay_log_is_retried(
    received: Received, tmp_path: Path, order: bool, until: str | None
) -> None:
    """Scenario 37: reading for the workers, for XA, and of places on the source for cuts and
    ends."""
    log = received.log
    file, _, end = log.spans[-1]
    said = until and until.format(file=file, end=end)
    number, failed = 0, 1
    while failed:
        number += 1
        target = tmp_path / f"lake{number}"
        shutil.copytree(received.target, target)
        bounds = {"group_max_transactions": 1, "preserve_commit_order": order, "workers": 1}
        with applier(
            received.relay, target, until=Until.parse(said) if said else None, **bounds
        ) as replica:
            records = replica.index.slice(replica.coordinator.mark.position, replica.index.end)
            with opening_fails(number) as seen:
                replica.coordinator.apply(records)
            failed = number <= len(seen)
            assert replica.result(0.0).counters.retries == failed, seen
        assert rows(target, A) == [(1, "x"), (2, "x"), (3, "x")]
        assert cuts(target)[-1].source["position"] == end
        shutil.rmtree(target)
    assert number > 15


@pytest.mark.parametrize("kept_in_vain", [0, 1])
def test_what_reads_an_xa_statement_counts_for_its_transaction(
    received: Received, monkeypatch: pytest.MonkeyPatch, kept_in_vain: int
) -> None:
    """With transaction_retries = 2 two failures to read it and one to keep its branch are in vain,
    as they are wherever else the three fall."""
    run(received.relay, received.target)
    other = (b"other", b"", 1)
    received.log.xa_prepare(other, insert(A, (9, "x")))
    received.receive()
    left = [broken()] * kept_in_vain

    def told(point: str) -> None:
        if point == "xa_keeping" and left:
            raise left.pop()

    with applier(received.relay, received.target, transaction_retries=2) as replica:
        monkeypatch.setattr(CRASHES, "told", told)
        records = replica.index.slice(replica.coordinator.mark.position, replica.index.end)
        with opening_fails(1, 2):
            if kept_in_vain:
                with pytest.raises(GivenUpError, match=r"2 time\(s\) in vain"):
                    replica.coordinator.apply(records)
            else:
                replica.coordinator.apply(records)
        assert replica.result(0.0).counters.retries == 2
    assert len(cuts(received.target)[-1].prepared) == 1 - kept_in_vain

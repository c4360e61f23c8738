"""WL#6813's gaps: without commit order a crash leaves tables at different places. --until
after-gaps applies until all tables have one state of the source, and commit order begins there."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.table.cut import Cut
from spark_repl.observe.status.status import status
from spark_repl.position import RelayPosition
from spark_repl.receiver.writer import RelayWriter
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import receive_at
from tests.support.local_delta import (
    Crash,
    LocalDelta,
    applier,
    apply_without_stream,
    cuts,
    rows,
    run,
)

A, B = Table("a"), Table("b")
_AHEAD = 4  # transactions of t.a that land while t.b's first does not


class Apart:
    """A target whose t.a has four transactions more than t.b, and a log with more behind them.
    ``kind``: which log it goes on with: the same, another one with GTIDs, or one without, received
    again from where the target stands."""

    def __init__(self, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.target, self.kind, self._tmp = tmp_path / "lake", kind, tmp_path
        again = {"server_id": 2, "created": 1} if kind == "gtids" else {}
        self.log = LogWriter(tmp_path / "log")
        self._other = LogWriter(tmp_path / "other", **again)
        for log in (self.log, self._other):
            log.anonymous = kind == "place"
            for statement in ("CREATE DATABASE t", A.create, B.create):
                log.ddl(statement)
            log.transaction(insert(A, (0, "x")), insert(B, (0, "x")))
        run(self.folder(), self.target)
        self.cut = cuts(self.target)[-1]
        for log in (self.log, self._other):
            log.transaction(insert(B, (1, "x")))
            for key in range(1, _AHEAD + 1):
                log.transaction(insert(A, (key, "x")))
        with monkeypatch.context() as patched:
            self._fail(patched)
            assert not run(self.folder(), self.target, preserve_commit_order=False,
                           group_max_transactions=1, crash=10**6)  # fmt: skip
        for log in (self.log, self._other):
            log.transaction(insert(A, (77, "behind")), insert(B, (77, "behind")))
        self.then = self.folder(lost=True)

    def folder(self, *, lost: bool = False) -> Path:
        if self.kind != "place":
            return (self._other if lost and self.kind == "gtids" else self.log).folder
        relay = self._tmp / "relay"
        if lost:
            shutil.rmtree(relay)
        with RelayWriter(relay, 9) as writer:
            if lost:
                source = self.cut.source
                writer.begin_source(source["file"], source["position"])
            receive_at(writer, sorted(self.log.folder.iterdir()))
        return relay

    def _fail(self, patched: pytest.MonkeyPatch) -> None:
        """t.b's commit comes when t.a has all of its own, and ends the run."""
        true, there = LocalDelta.commit, threading.Event()
        count = 0

        def commit(delta: LocalDelta, planned: Any, *args: Any) -> int:
            nonlocal count
            if planned.folder.endswith("t/b"):
                assert there.wait(60)
                raise Crash("t.b")
            version = true(delta, planned, *args)
            count += 1
            if count == _AHEAD:
                there.set()
            return version

        patched.setattr(LocalDelta, "commit", commit)

    @property
    def end(self) -> tuple[str, int]:
        """Where the last transaction ends that t.a has."""
        file, _, end = (self._other if self.kind == "gtids" else self.log).spans[-2]
        return file, end


def place(cut: Cut) -> tuple[str, int]:
    return cut.source["file"], cut.source["position"]


@pytest.fixture(params=["same", "gtids", "place"])
def apart(request, tmp_path, monkeypatch) -> Apart:
    return Apart(tmp_path, request.param, monkeypatch)


def until_after_gaps(apart: Apart, *, order: bool = False) -> None:
    until = Until.parse("after-gaps")
    apply = {"preserve_commit_order": order, "group_max_transactions": 3}
    with applier(apart.then, apart.target, until=until, **apply) as found:
        apply_without_stream(found)
        assert found.coordinator.reached_until
        assert found.coordinator.has_met_until()


def test_status_shows_each_tables_own_position(apart):
    """Scenario 2: the status shows each table's position after the last cut."""
    tables = status(str(apart.target))["tables"]
    assert [tables[name]["ahead"] for name in ("t.a", "t.b")] == [True, False]
    if apart.kind == "same":
        (_, end) = apart.end
        assert tables["t.a"]["position"] == str(RelayPosition(1, end))
        assert tables["t.b"]["position"] == str(RelayPosition.unpack(apart.cut.position))
    ahead = tables["t.a"]["source_file"], tables["t.a"]["source_position"]
    file, _, end = apart.log.spans[-2]
    assert ahead == (file, end)


@pytest.mark.parametrize("order", [True, False])
def test_until_after_gaps_brings_all_tables_to_one_cut_and_no_further(apart, order):
    """SQL_AFTER_MTS_GAPS: all tables are brought to one cut, and nothing beyond; then there is
    nothing more to do."""
    until_after_gaps(apart, order=order)
    want = [(0, "x"), *((key, "x") for key in range(1, _AHEAD + 1))]
    for _ in range(2):
        assert rows(apart.target, A) == want
        assert rows(apart.target, B) == [(0, "x"), (1, "x")]
        assert place(cuts(apart.target)[-1]) == apart.end
        until_after_gaps(apart, order=order)
    run(apart.then, apart.target)
    assert rows(apart.target, A) == [*want, (77, "behind")]
    assert rows(apart.target, B)[-1] == (77, "behind")


def test_commit_order_begins_behind_the_gaps(apart, caplog):
    """With commit order a start on a target with gaps fills them first, says so, and publishes the
    cut there before it goes on."""
    caplog.set_level("INFO")
    with applier(apart.then, apart.target, group_max_transactions=100) as found:
        result = apply_without_stream(found)
    assert "t.a: ahead of the last cut" in caplog.text
    assert any("t.a: ahead of the last cut" in said for said in result.counters.warnings)
    published = [place(cut) for cut in cuts(apart.target)]
    assert published[published.index(place(apart.cut)) + 1] == apart.end
    assert len(rows(apart.target, A)) == _AHEAD + 2
    assert len(rows(apart.target, B)) == 3


@pytest.mark.parametrize("apart", ["same"], indirect=True)
def test_another_end_than_that_of_gaps_fills_none_first(apart, caplog):
    """Without commit order they are closed on the way, and nothing else is said."""
    caplog.set_level("INFO")
    until = Until.parse(f"after-gtids:{apart.log.gtid(len(apart.log.spans) - 1)}")
    order = {"preserve_commit_order": False, "group_max_transactions": 1}
    with applier(apart.then, apart.target, until=until, **order) as found:
        result = apply_without_stream(found)
    assert len(rows(apart.target, A)) == _AHEAD + 2
    assert "ahead of the last cut" not in caplog.text
    assert not result.counters.warnings


@pytest.mark.parametrize("order", [True, False])
def test_no_cut_while_a_table_is_ahead(apart, order):
    run(apart.then, apart.target, group_max_transactions=1, preserve_commit_order=order)
    published = [place(cut) for cut in cuts(apart.target)]
    following = published[published.index(place(apart.cut)) + 1]
    # Without commit order another table may be in work there, so that the next place is the cut's.
    assert following == apart.end if order else following >= apart.end


def test_without_gaps_until_after_gaps_does_nothing(tmp_path, caplog):
    caplog.set_level("INFO")
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    run(log.folder, tmp_path / "lake")
    log.transaction(insert(A, (1, "x")))
    with applier(log.folder, tmp_path / "lake", until=Until.parse("after-gaps")) as found:
        assert found.coordinator.has_met_until()
        apply_without_stream(found)
    assert rows(tmp_path / "lake", A) == []
    run(log.folder, tmp_path / "lake")
    assert rows(tmp_path / "lake", A) == [(1, "x")]
    assert "ahead of the last cut" not in caplog.text


@pytest.mark.parametrize("apart", ["gtids", "place"], indirect=True)
@pytest.mark.parametrize("order", [True, False])
def test_a_batch_that_ends_inside_of_the_gaps_is_not_their_end(apart, order):
    """The log is given transaction by transaction, as a stream may bring it."""
    until = Until.parse("after-gaps")
    bounds = {"preserve_commit_order": order, "group_max_transactions": 1}
    with applier(apart.then, apart.target, until=until, **bounds) as found:
        coordinator, taken = found.coordinator, 0
        records = found.index.slice(coordinator.mark.position, found.index.end)
        while not coordinator.reached_until:
            coordinator.apply(records[taken : taken + 1])
            taken += 1
        assert taken == len(records) - 1, "up to the last that a table was ahead by"
    assert place(cuts(apart.target)[-1]) == apart.end
    assert rows(apart.target, B) == [(0, "x"), (1, "x")]

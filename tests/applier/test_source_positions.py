"""WL#3970 by file and position: a relay log without GTIDs is lost, and fetched again from where the
target stands on the source. Logs are received as the receiver does, and applied without Spark."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl import Config
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.log.stamp import Stamp
from spark_repl.errors import HistoryError, TargetError
from spark_repl.gtid import GtidSet
from spark_repl.observe.status.status import status
from spark_repl.receiver.receiver import Receiver
from spark_repl.receiver.writer import Limits
from spark_repl.service.receiving import executed_of, place_of
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import STRIDE
from tests.support.dump_stream import receive_at
from tests.support.local_delta import HERE, LocalDelta, at_cut, cuts, rows, run, stopped

A, B, BAG = Table("a"), Table("b"), Table("bag", key=())
WIDER = Table("a", columns=(("id", "int"), ("v", "varchar(40)"), ("n", "int")))


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """A log without GTIDs that creates the tables."""
    made = LogWriter(tmp_path / "log")
    made.anonymous = True
    for statement in ("CREATE DATABASE t", A.create, B.create, BAG.create):
        made.ddl(statement)
    return made


@dataclass(frozen=True)
class LogFolder:
    """A log as ``killed`` takes it."""

    folder: Path


class Receiving:
    """The relay log of a target, received from a log's files by file and position."""

    def __init__(self, log: LogWriter, folder: Path, segment: int = 1 << 30) -> None:
        self.log, self.path, self.target = log, folder / "relay", folder / "lake"
        keys = {"relay": {"path": str(self.path)}, "target": {"path": str(self.target)}}
        self.config = Config.from_mapping({**keys, "source": {"auto_position": False}})
        self._segment = segment

    def receive(self) -> Path:
        """All that the source has; where there is no relay log, from where the target stands."""
        receiver = Receiver(self.config, executed_of(self.config), place_of(self.config))
        writer = receiver.writer
        writer.limits = Limits(self._segment)
        with writer:
            receiver._prepare()
            receive_at(writer, sorted(self.log.folder.iterdir()))
        return self.path

    def lose(self) -> Path:
        shutil.rmtree(self.path)
        return self.receive()


def filled(log: LogWriter, *, gtids_from: int = 99) -> LogWriter:
    """Transactions of two tables and of one without a key, a statement, a branch, a rotation;
    from the ``gtids_from``-th of seven parts on with GTIDs."""
    parts = [
        lambda: log.transaction(insert(A, (1, "a"), (2, "a")), insert(BAG, (1, "x"))),
        lambda: log.transaction(insert(B, (1, "b")), insert(BAG, (1, "x"))),
        lambda: log.xa_prepare((b"x", b"", 1), insert(B, (9, "xa"))),
        lambda: log.ddl("ALTER TABLE t.a ADD n INT"),
        lambda: (log.rotate(), log.transaction(update(WIDER, ((1, "a", None), (1, "c", 7))))),
        lambda: log.xa_end("COMMIT", (b"x", b"", 1)),
        lambda: log.transaction(delete(B, (1, "b")), insert(BAG, (2, "y"))),
    ]
    for number, part in enumerate(parts):
        log.anonymous = number < gtids_from
        part()
    return log


def check_whole(target: Path) -> None:
    assert rows(target, WIDER) == [(1, "c", 7), (2, "a", None)]
    assert rows(target, B) == [(9, "xa")]
    assert rows(target, BAG) == [(1, "x"), (1, "x"), (2, "y")]


def places(target: Path) -> list[tuple[str, int]]:
    return [(cut.source["file"], cut.source["position"]) for cut in cuts(target)]


@pytest.mark.parametrize("segment", [1 << 30, 700])
def test_cuts_commits_and_status_have_the_sources_place(log, tmp_path, segment):
    """Scenario 60: what is shown is the source's file and position, not the relay log's."""
    received = Receiving(filled(log), tmp_path, segment)
    run(received.receive(), received.target, group_max_transactions=1)
    ends = [(file, end) for file, _, end in log.spans]
    assert places(received.target) == ends
    cut, table = cuts(received.target)[-1], received.target / "t" / "b"
    commit = read_commit(str(table), LocalDelta().version(str(table)))
    said = next(json.loads(a["commitInfo"]["userMetadata"]) for a in commit if "commitInfo" in a)
    assert said["source"] == dict(cut.source)
    assert (cut.source["server_id"], cut.source["began"]) == (1, 1_700_000_001)
    (shown,) = status(str(received.target))["replica_status"]
    assert (shown["Relay_Source_Log_File"], shown["Exec_Source_Log_Pos"]) == ends[-1]
    assert shown["Relay_Log_File"].startswith("relay.")
    assert place_of(received.config) == ends[-1]


@pytest.mark.parametrize("gtids_from", [99, 3])
@pytest.mark.parametrize("order", [True, False])
def test_lost_relay_log_cut_off_anywhere(log, tmp_path, order, gtids_from):
    """Scenarios 49, 50, 60: cut off at any step, the relay log is lost, and fetched again by file
    and position: equal, nothing twice, also where GTIDs begin within it."""
    filled(log, gtids_from=gtids_from)
    apply = {"preserve_commit_order": order}
    for step in range(1 + 7 * order, 1000, 4 * STRIDE):
        received = Receiving(log, tmp_path / str(step))
        done = run(
            received.receive(), received.target, crash=step, group_max_transactions=2, **apply
        )
        if not done:  # once more, that tables are ahead in two logs
            run(received.lose(), received.target, crash=step % 7 + 1, group_max_transactions=1)
        run(received.lose(), received.target, group_max_transactions=3, **apply)
        check_whole(received.target)
        assert places(received.target)[-1] == (log.spans[-1][0], log.spans[-1][2])
        if done:
            break
    assert step > 30


def test_target_that_is_whole_has_nothing_applied_again(log, tmp_path):
    received = Receiving(filled(log), tmp_path)
    run(received.receive(), received.target)
    before = [LocalDelta().version(str(received.target / "t" / n)) for n in ("a", "b", "bag")]
    run(received.lose(), received.target)
    run(received.receive(), received.target)
    log.anonymous = True
    assert before == [
        LocalDelta().version(str(received.target / "t" / n)) for n in ("a", "b", "bag")
    ]
    log.transaction(insert(BAG, (3, "z")))
    run(received.receive(), received.target)
    assert rows(received.target, BAG)[-1] == (3, "z")


@pytest.mark.parametrize("anonymous", [True, False])
@pytest.mark.parametrize("step", ["before_put", "after_put", "before_cut"])
def test_lost_before_the_first_cut(tmp_path, killed, step, anonymous):
    """No cut says where the target stands: each table's last commit does; of one that was made for
    a group's rows, that it has none of them."""
    log = LogWriter(tmp_path / "log")
    log.anonymous = anonymous
    log.transaction(insert(BAG, (1, "x")))
    received = Receiving(log, tmp_path)
    path = received.receive()
    killed(LogFolder(path), received.target, lambda name: name == step)
    assert not cuts(received.target)
    run(received.lose(), received.target)
    assert rows(received.target, BAG) == [(1, "x")]
    assert len(cuts(received.target)) == 1


def test_table_that_a_statement_was_making_is_found_again(log, tmp_path, killed):
    """Its statement has no GTID, and lies elsewhere in the new log: the source's place counts."""
    received = Receiving(log, tmp_path)
    log.ddl("CREATE TABLE t.c (id INT PRIMARY KEY)")
    hits = itertools.count(1)
    path = received.receive()
    killed(
        LogFolder(path), received.target,
        lambda name: name == "after_statement" and next(hits) == len(log.spans),
    )  # fmt: skip
    run(received.lose(), received.target)
    assert cuts(received.target)[-1].tables["t.c"].path == "t/c"


def test_longer_log_than_is_needed_is_passed_over(log, tmp_path):
    """The receiver begins before the target's place: what is there already is not applied again."""
    received = Receiving(log, tmp_path)
    log.transaction(insert(BAG, (1, "x")))
    run(received.receive(), received.target)
    log.transaction(insert(BAG, (1, "x")))
    shutil.rmtree(received.path)
    receiver = Receiver(received.config)
    with receiver.writer as writer:
        receiver._prepare()
        receive_at(writer, sorted(log.folder.iterdir()))
    run(received.path, received.target)
    assert rows(received.target, BAG) == [(1, "x"), (1, "x")]


@pytest.mark.parametrize("how", ["another server", "reset", "a gap"])
def test_log_that_does_not_hold_the_targets_place_stops(log, tmp_path, how):
    """Scenario 51: without GTIDs the log does not show which transactions the tables have. Nothing
    is applied, and the error names the place of the tables."""
    received = Receiving(log, tmp_path)
    log.transaction(insert(BAG, (1, "x")))
    run(received.receive(), received.target)
    server = {"another server": {"server_id": 2}, "reset": {"gno": 5}}.get(how, {})
    other = LogWriter(tmp_path / "other", **server)
    other.anonymous = True
    for statement in ("CREATE DATABASE t", A.create, B.create, BAG.create):
        other.ddl(statement)
    if how == "a gap":
        other.ddl("CREATE TABLE t.c (id INT PRIMARY KEY)")
    other.transaction(insert(BAG, (1, "x")))
    other.transaction(insert(BAG, (2, "x")))
    error = stopped(other.folder, received.target)
    assert isinstance(error, HistoryError)
    file, _, end = log.spans[-1]
    assert f"they stand at {file}:{end} of server 1" in error.message
    assert rows(received.target, BAG) == [(1, "x")]


def test_table_ahead_whose_commit_does_not_say_its_place(log, tmp_path, killed):
    """A target that an earlier version has left: it is not guessed."""
    received = Receiving(log, tmp_path)
    log.transaction(insert(BAG, (1, "x")))
    run(received.receive(), received.target)
    log.transaction(insert(BAG, (2, "x")))
    received.receive()

    class Earlier(LocalDelta):
        def commit(self, planned: Any, actions: Any, stamp: Stamp) -> int:
            return super().commit(planned, actions, replace(stamp, user_metadata='{"format": 1}'))

    killed(
        LogFolder(received.path), received.target, lambda name: name == "before_cut",
        parts=replace(HERE, delta_log=Earlier),
    )  # fmt: skip
    error = stopped(received.lose(), received.target)
    assert isinstance(error, TargetError)
    assert error.table == "t.bag" and "nobody can tell" in error.message


def test_gtids_that_say_otherwise_count(log, tmp_path):
    """Scenario 121: a log that holds the place by file and position, but other transactions before
    it."""
    log.anonymous = False
    log.transaction(insert(BAG, (1, "x")))
    run(log.folder, tmp_path / "lake")
    other = LogWriter(tmp_path / "other", source=log.source.replace("1", "9"), created=1)
    other.anonymous = True
    for statement in ("CREATE DATABASE t", A.create, B.create, BAG.create):
        other.ddl(statement)
    other.anonymous = False
    other.transaction(insert(BAG, (1, "x")))
    error = stopped(other.folder, tmp_path / "lake")
    assert isinstance(error, HistoryError) and "nobody can tell" in error.message


def test_at_cuts_every_state_is_one_of_the_source(log, tmp_path):
    """Cuts that are published behind a lost relay log show whole states."""
    filled(log)
    whole = Receiving(log, tmp_path / "whole")
    run(whole.receive(), whole.target, group_max_transactions=1)
    shown = [at_cut(whole.target, cut) for cut in cuts(whole.target)]
    want = dict(zip(places(whole.target), shown, strict=True))
    received = Receiving(log, tmp_path / "lost")
    run(received.receive(), received.target, crash=25, group_max_transactions=2)
    run(received.lose(), received.target, group_max_transactions=1)
    for place, cut in zip(places(received.target), cuts(received.target), strict=True):
        assert at_cut(received.target, cut) == want[place]
    assert GtidSet.parse(cut.gtid_executed) == GtidSet()

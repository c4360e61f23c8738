"""--until in its four forms, transactions that are left out, and the delay."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from spark_repl.errors import ConfigError, LogError
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.record import Kind
from spark_repl.schedule.skipped_records import seconds_until_due, skip_copied, skip_transactions
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import SOURCE, LogWriter, Table, insert
from tests.support.dump_stream import receive

A = Table("a")


@pytest.fixture
def made(tmp_path: Path) -> LogWriter:
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    for key in range(1, 6):
        log.transaction(insert(A, (key, "x")))
    log.rotate()
    log.transaction(insert(A, (6, "x")))
    return log


def taken(made: LogWriter, tmp_path: Path, text: str, executed: str = "") -> int | None:
    relay = open_log(str(made.folder))
    records = build_index(relay, str(tmp_path / "index")).records
    until = Until.parse(text.replace("S:", f"{made.source}:"))
    until.check_file(relay)
    have = GtidSet.parse(executed.replace("S:", f"{made.source}:"))
    return until.count_before(records, have, relay, 0)


@pytest.mark.parametrize(
    ("text", "executed", "want"),
    [
        ("before-gtids:S:3", "", 2),
        ("before-gtids:S:4-5", "", 3),
        ("before-gtids:S:99", "", None),
        ("before-gtids:S:2:99", "S:1-2", 0),  # one is there already: MySQL stops at once
        ("after-gtids:S:3", "", 3),
        ("after-gtids:S:2-3", "S:1-2", 3),
        ("after-gtids:S:1-2", "S:1-2", 0),
        ("after-gtids:S:6-99", "", None),
        ("source:bin.000002:4", "", 6),
        ("relay:bin.000001:4", "", 0),
    ],
)
def test_each_form_of_until_ends_at_its_transaction(made, tmp_path, text, executed, want):
    # Scenario 12: UNTIL a position, SQL_BEFORE_GTIDS, SQL_AFTER_GTIDS.
    assert taken(made, tmp_path, text, executed) == want


def test_until_a_position_in_a_transaction_or_at_its_end(made, tmp_path):
    # Scenario 12: inside of a transaction it stops behind it; at the end it waits for no other.
    file, start, end = made.spans[2]
    for offset, want in ((start, 2), (start + 1, 3), (end, 3), (end + 1, 4)):
        assert taken(made, tmp_path, f"source:{file}:{offset}") == want
    file, _, end = made.spans[-1]
    assert taken(made, tmp_path, f"relay:{file}:{end}") == 7
    assert taken(made, tmp_path, f"relay:{file}:{end + 1}") is None


@pytest.mark.parametrize(
    ("text", "done", "want"),
    [
        ("before-gtids:S:2", 7, True),
        ("before-gtids:S:9", 7, False),
        ("after-gtids:S:1-3", 3, False),  # the next transaction will show it
        ("after-gtids:S:1-7", 7, True),
        ("after-gtids:S:1-8", 7, False),
        ("source:bin.000002:4", 6, False),
        ("source:bin.000002:4", 7, True),
        ("relay:bin.000003:4", 7, True),  # begun, and nothing is in it
        ("source:bin.000003:4", 7, True),
        ("relay:bin.000003:9999", 7, False),
    ],
)
def test_until_is_met_where_no_transaction_comes(made, tmp_path, text, done, want):
    # Scenario 12: what is reached when REPLICA is started stops at once.
    made.rotate()
    relay = open_log(str(made.folder))
    index = build_index(relay, str(tmp_path / "index"))
    until = Until.parse(text.replace("S:", f"{made.source}:"))
    at = int(index.records["end"][done - 1])
    assert until.is_reached(index, at, index.gtids(0, at), relay) == want


def test_until_a_place_of_the_source_in_a_receivers_log(made, tmp_path):
    folder = tmp_path / "relay"
    with RelayWriter(folder, 4711, Limits(1 << 30, 0)) as writer:
        receive(writer, sorted(made.folder.iterdir()))
    relay = open_log(str(folder))
    index = build_index(relay, str(tmp_path / "index"))
    for count, (file, start, end) in enumerate(made.spans):
        for offset, want in ((start, count), (start + 1, count + 1), (end, count + 1)):
            until = Until.parse(f"source:{file}:{offset}")
            until.check_file(relay)
            assert until.count_before(index.records, GtidSet(), relay, 0) == want
    for offset, want in ((end, True), (end + 1, False)):
        until = Until.parse(f"source:{file}:{offset}")
        assert until.is_reached(index, index.end, index.gtids(), relay) == want
        assert not until.is_reached(index, int(index.records["position"][-1]), GtidSet(), relay)


def test_equal_texts_of_until_are_equal():
    for text in (f"after-gtids:{SOURCE}:1", "relay:bin.000001:4"):
        assert Until.parse(text) == Until.parse(text)
    assert (Until.parse(f"after-gtids:{SOURCE}:1").file, Until("relay", GtidSet()).offset) == (
        "",
        0,
    )


def test_until_a_place_of_the_relay_log_in_a_receivers_log(made, tmp_path):
    made.rotate()
    folder = tmp_path / "relay"
    with RelayWriter(folder, 4711, Limits(1 << 30, 0)) as writer:
        receive(writer, sorted(made.folder.iterdir()))
    relay = open_log(str(folder))
    index = build_index(relay, str(tmp_path / "index"))
    last = int(index.records["end"][-1])
    for place, want in ((last, 7), (last - 1, 7), (int(index.records["position"][3]), 3)):
        at = RelayPosition.unpack(place)
        until = Until.parse(f"relay:{relay.file(at.file_no).name}:{at.offset}")
        until.check_file(relay)
        assert until.count_before(index.records, GtidSet(), relay, 0) == want
    end = RelayPosition.unpack(index.end)
    assert index.end > last, "where no transaction is, and none may come"
    for offset, want in ((end.offset, True), (end.offset + 1, False)):
        until = Until.parse(f"relay:{relay.file(end.file_no).name}:{offset}")
        assert until.is_reached(index, index.end, index.gtids(), relay) == want
    with pytest.raises(LogError, match="which this log has not"):
        Until.parse("relay:bin.000001:4").check_file(relay)


def test_malformed_texts_of_until_are_refused(made, tmp_path):
    for text in ("S:3", "until:S:3", "relay:bin.000001", "before-gtids:"):
        with pytest.raises(ConfigError):
            taken(made, tmp_path, text)
    with pytest.raises(LogError, match="which this log has not"):
        taken(made, tmp_path, "relay:other.000001:4")


def test_a_skipped_transaction_keeps_its_slot(made, tmp_path):
    # Scenario 26: a filtered transaction commits as an empty one, in order.
    records = build_index(open_log(str(made.folder)), str(tmp_path / "index")).records
    left, count = skip_transactions(records, GtidSet.parse(f"{made.source}:3"))
    assert count == 1
    assert len(left) == len(records)
    changed = np.flatnonzero(left["kind"] != records["kind"])
    assert changed.tolist() == [2]
    assert left["kind"][2] == Kind.EMPTY


def test_what_a_copy_holds_is_empty_but_for_branches(made, tmp_path):
    records = build_index(open_log(str(made.folder)), str(tmp_path / "index")).records.copy()
    kinds = (Kind.XA_PREPARE, Kind.XA_COMMIT, Kind.XA_ROLLBACK)
    records["kind"][2:5] = kinds
    records["kind"][5] = Kind.XA_COMMIT
    left = skip_copied(records, GtidSet.parse(f"{made.source}:1-5"))["kind"]
    assert left[:2].tolist() == [Kind.EMPTY, Kind.EMPTY]
    assert left[2:5].tolist() == [Kind.XA_PREPARE, Kind.XA_ROLLBACK, Kind.XA_ROLLBACK]
    assert left[5:].tolist() == records["kind"][5:].tolist()
    assert skip_copied(records, GtidSet()) is records


def test_a_delay_counts_from_the_last_commit(made, tmp_path):
    # Scenario 63: a transaction waits until SOURCE_DELAY is over.
    records = build_index(open_log(str(made.folder)), str(tmp_path / "index")).records.copy()
    records["commit_time"] = int((time.time() - 10) * 1e6)
    records["commit_time"][0] = 0  # it is the last one that counts
    assert seconds_until_due(records, 5) == 0
    assert 10 < seconds_until_due(records, 30) <= 20
    assert seconds_until_due(records, 0) == 0

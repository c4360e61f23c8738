"""Which log the positions belong to: the same one, another one, one that the source came back to;
and what may be missing before its first transaction."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spark_repl.control.records.log_identity import (
    LogIdentity,
    check_continuity,
    check_same,
    fingerprints,
    indexed,
    record,
    recorded,
    resolve,
)
from spark_repl.control.table.cut import Cut
from spark_repl.errors import HistoryError, LogError
from spark_repl.gtid import GtidSet
from spark_repl.position import OFFSET_BITS, RelayPosition
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.record import Flag
from tests.support.binlog_writer import SOURCE, LogWriter

ANONYMOUS = Path(__file__).parents[3] / "fixtures" / "logs" / "anonymous"
OTHER = "99999999-2222-3333-4444-555555555555"


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Files 1, 2 and 3 with a transaction in each."""
    return filled(LogWriter(tmp_path / "log"))


def filled(log: LogWriter) -> LogWriter:
    for number in range(3):
        if number:
            log.rotate()
        log.ddl("CREATE DATABASE IF NOT EXISTS t")
    return log


def gtids(numbers: str, source: str = SOURCE) -> str:
    return f"{source}:{numbers}" if numbers else ""


def cut(file: int, numbers: str = "1", log_id: str = "x", offset: int = 400) -> Cut:
    return Cut(RelayPosition(file, offset).packed, gtids(numbers), log_id, {}, {})


def of(log: LogWriter | Path) -> LogIdentity:
    folder = log if isinstance(log, Path) else log.folder
    return LogIdentity("x", 0, fingerprints(open_log(str(folder))))


def continued(
    log: LogWriter | Path, history: LogIdentity, last: Cut | None, skip: str = ""
) -> GtidSet:
    folder = log if isinstance(log, Path) else log.folder
    relay = open_log(str(folder))
    index = build_index(relay, str(folder.parent / "index"), complete=False, up_to_damage=True)
    return check_continuity(history, relay, index, last, GtidSet.parse(skip))


def renewed(log: LogWriter | Path) -> LogIdentity:
    return LogIdentity("y", 10, {}, renewed=True)


# Which history.


def test_a_log_that_goes_on_keeps_its_base(control, log):
    first = resolve(control, open_log(str(log.folder)), None, 0)
    assert (first.base, first.renewed) == (0, False)
    record(control, first)
    record(control, first)
    assert len(control.rows("history")) == 1
    log.rotate()
    (log.folder / "bin.000001").unlink()
    relay = open_log(str(log.folder))
    again = resolve(control, relay, cut(3, log_id=first.log_id), 3 << OFFSET_BITS)
    assert (again.log_id, again.base, again.renewed) == (first.log_id, 0, False)
    assert sorted(again.fingerprints) == [1, 2, 3, 4]
    record(control, again)
    assert len(control.rows("history")) == 2


def test_one_file_that_is_another_makes_another_log(control, log, tmp_path):
    record(control, of(log))
    other = tmp_path / "other"
    filled(LogWriter(other, server_id=2, created=1))
    shutil.copy(log.folder / "bin.000001", other)
    found = resolve(control, open_log(str(other)), cut(3), 3 << OFFSET_BITS)
    assert found.log_id != "x" and found.renewed
    assert found.base == 3, "its first file stands behind all positions recorded so far"


def test_a_log_without_a_file_in_common_is_another(control, log):
    record(control, of(log))
    log.rotate()
    for number in (1, 2, 3):
        (log.folder / f"bin.{number:06d}").unlink()
    found = resolve(control, open_log(str(log.folder)), cut(1), 1 << OFFSET_BITS)
    assert found.renewed and found.base == 0, "no position goes below its own number"
    found = resolve(control, open_log(str(log.folder)), cut(9), 9 << OFFSET_BITS)
    assert found.base + 4 == 10


def test_a_log_that_the_source_comes_back_to(control, log):
    """The last cut is of another one: here below this one's positions, there above."""
    first = of(log)
    record(control, LogIdentity("x", 5, first.fingerprints))
    begun = resolve(control, open_log(str(log.folder)), cut(5, log_id="z"), 8 << OFFSET_BITS)
    assert (begun.log_id, begun.base, begun.renewed) == ("x", 5, True)
    back = resolve(control, open_log(str(log.folder)), cut(6, log_id="z"), 8 << OFFSET_BITS)
    assert back.log_id != "x" and back.renewed
    assert back.base == 8


def test_a_log_that_was_applied_before_another_one(control, log, tmp_path):
    """As when a cut is gone back to (a copy of one table): its own history is found."""
    record(control, of(log))
    record(
        control, LogIdentity("z", 3, of(filled(LogWriter(tmp_path / "z", created=1))).fingerprints)
    )
    found = resolve(control, open_log(str(log.folder)), cut(3), 6 << OFFSET_BITS)
    assert (found.log_id, found.base, found.renewed) == ("x", 0, False)


def test_of_two_histories_with_the_same_files_the_newer_counts(control, log):
    record(control, LogIdentity("a", 0, of(log).fingerprints))
    record(control, LogIdentity("x", 5, of(log).fingerprints))
    found = resolve(control, open_log(str(log.folder)), cut(6, log_id="a"), 8 << OFFSET_BITS)
    assert found.log_id not in ("a", "x") and found.base == 8


def test_the_history_that_was_written_last_counts(control, log):
    """Not that which was begun last; and of a file its last row."""
    first, second = of(log), LogIdentity("z", 5, {1: "of another file", 9: "later"})
    record(control, replace(first, fingerprints={**first.fingerprints, 1: "before"}))
    record(control, second)
    record(control, first)
    assert [one.log_id for one in recorded(control)] == ["z", "x"]
    assert recorded(control)[-1].fingerprints == first.fingerprints


def test_a_log_before_any_cut_is_its_own(control, log):
    record(control, of(log))
    found = resolve(control, open_log(str(log.folder)), None, 0)
    assert (found.log_id, found.renewed) == ("x", False)


# What is missing.


def test_without_a_cut_the_log_says_what_was_executed(log):
    (log.folder / "bin.000001").unlink()
    assert continued(log, of(log), None) == GtidSet.parse(gtids("1"))


def test_the_file_of_the_cut_is_there(log):
    for number in (1, 2, 3):
        assert continued(log, of(log), cut(number)) == GtidSet.parse(gtids("1"))


def test_files_behind_the_cut_are_gone(log):
    (log.folder / "bin.000001").unlink()
    assert continued(log, of(log), cut(1, "1")), "it was applied to its end"
    (log.folder / "bin.000002").unlink()
    assert continued(log, of(log), cut(1, "1-2"))
    with pytest.raises(HistoryError, match=f"{gtids('2')} is missing") as found:
        continued(log, of(log), cut(1, "1"))
    assert found.value.hint
    shifted = LogIdentity("x", 10, of(log).fingerprints)
    assert continued(log, shifted, cut(13))
    with pytest.raises(HistoryError):
        continued(log, shifted, cut(12))


@pytest.mark.parametrize("gone", [1, 2])
def test_files_behind_the_cut_are_gone_and_there_are_no_gtids(tmp_path, gone):
    """Found: with more than one file gone nothing said so, as no GTID was missing."""
    folder = tmp_path / "log"
    folder.mkdir()
    (name,) = (path.name for path in ANONYMOUS.iterdir() if path.name.endswith("000001"))
    shutil.copy(ANONYMOUS / name, folder / "bin.000005")
    last = cut(5 - gone, "")
    if gone == 1:
        assert not continued(folder, of(folder), last)
    else:
        with pytest.raises(HistoryError, match="what lies between is missing"):
            continued(folder, of(folder), last)
    assert not continued(folder, of(folder), Cut(0, "", "x", {}, {})), "nothing was applied"


def test_another_log_goes_on_where_the_target_stands(log):
    for numbers in ("1", "1-3"):
        assert continued(log, renewed(log), cut(9, numbers)) == GtidSet.parse(gtids(numbers))


def test_another_log_that_begins_after_the_target_is_refused(log):
    (log.folder / "bin.000001").unlink()
    assert continued(log, renewed(log), cut(9, "1"))
    (log.folder / "bin.000002").unlink()
    with pytest.raises(HistoryError, match=f"missing between .*: {gtids('2')}") as found:
        continued(log, renewed(log), cut(9, "1"))
    assert "older files" in (found.value.hint or "")


def test_what_was_left_out_by_hand_need_not_be_in_another_log(log):
    left_out = gtids("1-3", OTHER)
    last = replace(cut(9), gtid_executed=f"{gtids('1')},{left_out}")
    with pytest.raises(HistoryError, match=f"the target has {left_out}"):
        continued(log, renewed(log), last)
    assert continued(log, renewed(log), last, skip=left_out)


def test_another_servers_log_is_refused(log, tmp_path):
    with pytest.raises(HistoryError, match=f"another server: the target has {gtids('4')}"):
        continued(log, renewed(log), cut(9, "1-4"))
    other = filled(LogWriter(tmp_path / "other", source=OTHER, server_id=9))
    with pytest.raises(HistoryError, match="another server"):
        continued(other, renewed(other), cut(9, "1"))


def test_what_lies_behind_damage_is_not_said_to_be_of_another_server(log):
    _, at, _ = log.spans[-1]
    data = bytearray(log.path.read_bytes())
    data[at + 4] = 99
    log.path.write_bytes(data)
    with pytest.raises(LogError, match="event type 99"):
        continued(log, renewed(log), cut(9, "1-3"))
    assert continued(log, renewed(log), cut(9, "1-2"))
    _, index = indexed(open_log(str(log.folder)), of(log), str(log.folder.parent / "index"))
    assert index.damage and len(index.records) == 2


def test_another_log_without_gtids_is_refused(log, tmp_path):
    """GTIDs are missing on either side, so it is unknown which transactions the tables have."""
    with pytest.raises(HistoryError, match="without GTIDs"):
        continued(log, renewed(log), cut(9, ""))
    empty = LogWriter(tmp_path / "empty")
    with pytest.raises(HistoryError, match="without GTIDs"):
        continued(empty, renewed(empty), cut(9, "1"))
    relay = open_log(str(log.folder))
    index = build_index(relay, str(tmp_path / "index"))
    last = index.files[-1].records.copy()
    last["flags"] = Flag.ANONYMOUS  # gtid_mode was changed meanwhile
    mixed = (*index.files[:-1], replace(index.files[-1], records=last))
    with pytest.raises(HistoryError, match="without GTIDs"):
        check_continuity(renewed(log), relay, replace(index, files=mixed), cut(9, "1"), GtidSet())


def test_a_file_that_was_replaced(log):
    relay = open_log(str(log.folder))
    now = fingerprints(relay)
    check_same(relay, {1: now[1], 9: "of a file that was purged"}, now)
    with pytest.raises(LogError, match="replaced") as found:
        check_same(relay, {1: now[1], 2: "of another one"}, now)
    assert found.value.file == str(log.folder / "bin.000002")
    with pytest.raises(LogError, match="replaced"):
        indexed(relay, LogIdentity("x", 0, {3: "of another one"}), str(log.folder.parent / "index"))


def test_a_file_that_was_only_just_begun_has_no_fingerprint_yet(log):
    data = log.path.read_bytes()
    log.path.write_bytes(data[:40])
    assert sorted(fingerprints(open_log(str(log.folder)))) == [1, 2]


def test_histories_are_read_as_they_were_written(control, log):
    record(control, of(log))
    (row,) = control.rows("history")
    assert json.loads(row["detail"])["fingerprints"].keys() == {"1", "2", "3"}

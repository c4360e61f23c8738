"""Files on disk have a format number. A file without one has the first format, and is read. A later
format is refused, or the file is created again if it can be derived."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from spark_repl import formats
from spark_repl.apply.stream.spark_source import MySQLRelayReader
from spark_repl.binlog.events.transaction import Kind
from spark_repl.control.records.channels import channel_at, channels
from spark_repl.control.records.copies import last_copy
from spark_repl.control.records.operator_decisions import skipped, xa_decisions
from spark_repl.control.records.retention import pins
from spark_repl.control.table import control, control_rows, row_formats
from spark_repl.control.transaction_files import quarantine_store
from spark_repl.control.transaction_files.xa_store import XaStore
from spark_repl.copy import recopy
from spark_repl.copy.repair_request import RepairRequest
from spark_repl.copy.repair_request import left as left_repairs
from spark_repl.errors import FormatError
from spark_repl.gtid import GtidSet
from spark_repl.observe.reports import verify_status
from spark_repl.observe.reports.applier_status import read_applier_status
from spark_repl.observe.status.status import status
from spark_repl.receiver.report import Report, read_report
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.verify.work_folder import TablePlan, WorkFolder
from spark_repl.write.files import key_index, key_segments
from spark_repl.write.tables import table_metadata
from tests.fixtures.make_format_kinds import EACH, KINDS, SHARDS_OF, WITHHELD, rows_of
from tests.fixtures.make_formats import HERE, PLAN, REPAIR, RULES, TABLE
from tests.support import shared_rows
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import applier, at_cut, cuts, rows, run
from tests.support.made_copy import finish
from tests.support.waiting_source import BOUND

LATER = "written by spark_repl 9.8.7 in format 2; this version, .*, knows format 1"
MANY, TOLD = HERE / "v0.1.0-many", HERE / "v0.1.0-told"
ENDS = sorted([(1, "y"), (100, "prepared"), *((k, "x") for k in range(20) if k != 1)])


@pytest.fixture(params=sorted(path.parent.name for path in HERE.glob("*/relay")))
def left(request, tmp_path) -> Path:
    """What a version before has left."""
    return shutil.copytree(HERE / request.param, tmp_path / "left", copy_function=shutil.copy)


@pytest.fixture
def by_a_later_version(monkeypatch):
    """Things that are written meanwhile are of the next format, by version 9.8.7."""

    def write(module, name="_FORMAT", number=2):
        monkeypatch.setattr(formats, "__version__", "9.8.7")
        monkeypatch.setattr(module, name, number)
        return monkeypatch.undo

    return write


def test_a_target_of_before_goes_on(left):
    found = status(str(left / "lake"), str(left / "relay"))
    assert found["gtid_executed"].endswith(":1-4") and found["owner"]["host"] == "fixture"
    assert len(found["xa_recover"]) == 1
    assert found["replication_applier_status_by_coordinator"][0]["SERVICE_STATE"] == "OFF"
    keys = {path: path.stat().st_mtime_ns for path in (left / "lake").rglob("*.npy")}
    run(left / "log", left / "lake")
    assert rows(left / "lake", TABLE) == ENDS
    kept = {path: path.stat().st_mtime_ns for path in keys if path.exists()}
    assert kept and kept.items() <= keys.items(), "key indexes of before are read, not made again"


def test_a_relay_log_of_before_goes_on(left):
    report = read_report(left / "relay")
    assert report is not None and report["RELAY_LOG_POS"] == 1840
    with RelayWriter(left / "relay", 7) as writer:
        assert str(writer.received).endswith(":1-6") and writer.log_id == report["RELAY_LOG_ID"]
    index = build_index(open_log(str(left / "relay")), str(left / "index"))
    assert [Kind(kind).name for kind in index.records["kind"]][-2:] == ["ROWS", "XA_COMMIT"]


@pytest.fixture
def many(tmp_path) -> Path:
    """What a version with channels, quarantine and modes has left."""
    return shutil.copytree(MANY, tmp_path / "many", copy_function=shutil.copy)


def test_two_channels_of_before_go_on(many):
    """With tables of other modes, one in quarantine, and key segments that are read."""
    lake = many / "many"
    assert [one.name for one in channels(str(lake))] == ["default", "us"]
    (segment,) = (lake / "_repl" / "keys" / "t" / "a").glob("*/*.segment.arrow")
    (read_one,) = key_segments._segments(str(segment.parent))
    assert len(read_one.files) == 3 and (lake / "t" / "a" / read_one.files[0]).exists()
    mark = cuts(lake, "default")[-1].quarantined["t.q"]
    assert mark.transactions == 1 and "Can't find record in 'q'" in mark.reason
    with patch.object(key_segments, "ENOUGH", 2):
        assert run(many / "east", lake, keys={"compact_files": 0}, **RULES)
    assert run(many / "us", lake, channel="us")
    cut = cuts(lake, "default")[-1]
    shown = at_cut(lake, cut)
    assert shown["t.a"] == [(0, "y"), (1, "y"), (2, "x"), (3, "x")]
    assert sorted(row[:2] for row in shown["t.c"]) == sorted(
        [*((key, "x") for key in range(4)), (1, "x"), (1, "y")]
    )
    assert sorted(row[:2] for row in shown["t.h"] if row[-1]) == [(0, "x"), (1, "y"), (2, "x"),
                                                                  (3, "x")]  # fmt: skip
    assert sorted(row[:2] for row in shown["t.h"] if not row[-1]) == [(1, "x")]
    assert cut.quarantined["t.q"].transactions == 2
    assert at_cut(lake, cuts(lake, "us")[-1]) == {"u.a": [(1, "x"), (2, "x")]}


@pytest.fixture
def of_before(tmp_path):
    """``of_before(name)``: a copy of the fixture of that name, and what its cuts showed."""

    def copy(name):
        made = HERE / f"v0.1.0-{name}"
        folder = shutil.copytree(made, tmp_path / name, copy_function=shutil.copy)
        return folder, *(json.loads((made / f"{n}.json").read_text()) for n in ("before", "after"))

    return copy


def check_goes_on(lake, before, after, go_on, channel=""):
    """Check that the cuts of before are read, also after ``go_on``, which ends with ``after``."""
    assert rows_of(lake, channel) == before
    go_on()
    found = rows_of(lake, channel)
    assert found[: len(before)] == before and len(found) > len(before)
    assert found[-1:] == after


def test_a_table_of_each_kind_goes_on(of_before):
    """With a pinned cut, prepared branches, one committed by hand, a skipped transaction, a table
    in quarantine, one of an online tool, and checkpoints of the logs."""
    folder, before, after = of_before("kinds")
    lake = folder / "lake"
    found = status(str(lake))
    assert len(found["xa_recover"]) == 2
    control = channel_at(str(lake)).control
    assert pins(control)["yearly"].position == cuts(lake)[4].position
    assert str(skipped(control)).endswith(":33")
    assert [one.action for one in xa_decisions(control)] == ["COMMIT"]
    segments = [*lake.glob("_repl/keys/**/*.segment.arrow")]
    assert len(segments) == len({path.parent for path in segments}) >= len(EACH) - 1
    check_goes_on(lake, before[""], after[""], lambda: run(folder / "log", lake, **KINDS))
    assert cuts(lake)[-1].quarantined["t.q"].transactions == 2


def test_tables_that_withhold_rows_or_columns_go_on(of_before):
    folder, before, after = of_before("withheld")
    lake = folder / "lake"
    check_goes_on(lake, before[""], after[""], lambda: run(folder / "log", lake, **WITHHELD))


@pytest.mark.parametrize("name", ["behind", "first"])
def test_a_copy_that_has_not_caught_up_goes_on(of_before, name):
    folder, before, after = of_before("copies")
    log, lake = folder / name / "log", folder / name / "lake"
    check_goes_on(lake, before[name], after[name], lambda: run(log, lake, **BOUND))


def test_a_copy_that_is_not_finished_goes_on(of_before):
    folder, before, after = of_before("copies")
    lake = folder / "waiting" / "lake"
    assert rows_of(lake) == before["waiting"] and rows_of(lake)[-1:] == after["waiting"]
    executed = cuts(lake)[-1].gtid_executed
    assert run(folder / "waiting" / "log", lake, **BOUND)
    assert cuts(lake)[-1].waiting.keys() == {"t.a"}
    finish(lake, executed)
    assert run(folder / "waiting" / "log", lake, **BOUND)
    assert cuts(lake)[-1].waiting == {}
    assert at_cut(lake, cuts(lake)[-1])["t.a"] == [(k, f"v{k}", 100 - k) for k in range(1, 7)]


@pytest.mark.parametrize("kind", ["shards", "rows"])
def test_a_table_of_two_channels_goes_on(of_before, kind):
    """And the cuts that are pinned together."""
    folder, before, after = of_before(f"shared/{kind}")
    lake = folder / "lake"
    for channel in ("eu", "us"):
        assert "both" in pins(channel_at(str(lake), channel).control)
        assert rows_of(lake, channel) == before[channel]
    for channel in ("eu", "us"):
        options = SHARDS_OF if kind == "shards" else shared_rows.by(channel, disjoint=False)
        assert run(folder / channel, lake, **{**options, "channel": channel})
    for channel in ("eu", "us"):
        found = rows_of(lake, channel)
        assert found[: len(before[channel])] == before[channel]
        assert found[-1:] == after[channel]


def test_a_target_that_merge_wrote_goes_on(of_before):
    """With the direct writer, which finds rows in the files that MERGE wrote."""
    folder, before, after = of_before("merge")
    lake = folder / "lake"
    options = {"keys": {"column_mapping": True}, "writer": "direct"}
    check_goes_on(lake, before[""], after[""], lambda: run(folder / "log", lake, **options))


def test_cuts_that_are_told_since_others_go_on(tmp_path):
    lake = shutil.copytree(TOLD, tmp_path / "told", copy_function=shutil.copy) / "many"
    before = [at_cut(lake, cut) for cut in cuts(lake, "default")]
    assert run(lake.parent / "east", lake, keys={"compact_files": 0}, **RULES)
    found = cuts(lake, "default")
    assert [at_cut(lake, cut) for cut in found[: len(before)]] == before
    assert before[-1]["t.a"] == [(0, "y"), (1, "x"), (2, "x"), (3, "x")]
    assert at_cut(lake, found[-1])["t.a"] == [(0, "y"), (1, "y"), (2, "x"), (3, "x")]


def test_a_repair_and_a_verify_of_before_go_on(many):
    layout = channel_at(str(many / "many"), "default").layout
    (request,) = left_repairs(Path(layout.requests))
    found = RepairRequest.read(request)
    assert found.keys.equals(REPAIR.keys)
    assert (found.table, found.wheres, found.key) == (REPAIR.table, REPAIR.wheres, REPAIR.key)
    definition = classify(TABLE.create, "t").definition
    assert definition is not None
    with WorkFolder(layout.verify) as work:
        assert work.of(TargetTable.mirror_of(definition), TablePlan(("1",)))[1] == PLAN, (
            "as it was begun"
        )
    assert verify_status.read_verify_status(layout.verified)["at"] == "2026-11-26T00:00:00+00:00"


def test_a_control_table_of_later_is_refused(log, target, by_a_later_version, monkeypatch):
    undo = by_a_later_version(control_rows, "KNOWN_FORMAT", 6)
    monkeypatch.setattr(control, "KNOWN_FORMAT", 6)
    monkeypatch.setattr(row_formats, "FIRST", 6)
    run(log.folder, target)
    run(log.folder, target)
    undo()
    for look in (lambda: run(log.folder, target), lambda: status(str(target))):
        with pytest.raises(FormatError, match=LATER.replace("2", "6").replace("1", "5")) as caught:
            look()
        assert caught.value.file == str(target / "_repl" / "control") and caught.value.hint


def test_a_tables_definition_of_later_is_refused(log, target, by_a_later_version):
    undo = by_a_later_version(table_metadata, "_DEFINITION_FORMAT", 3)
    run(log.folder, target)
    undo()
    with pytest.raises(FormatError, match=LATER.replace("2", "3").replace("1", "2")) as caught:
        run(log.folder, target)
    assert caught.value.file.endswith(("t/a", "t/b"))


def test_a_commit_of_later_is_refused(log, target, tmp_path, killed, by_a_later_version):
    """Where its GTIDs are needed: another log is given, and a table is ahead of the last cut."""
    other, second = LogWriter(tmp_path / "other", server_id=2, created=1_700_009_999), Table("b")
    for statement in ("CREATE DATABASE t", TABLE.create, second.create):
        other.ddl(statement)
    for made in (log, other):
        made.transaction(insert(TABLE, (1, "x")), insert(second, (1, "x")))
    undo = by_a_later_version(table_metadata, "_COMMIT_FORMAT")
    killed(log, target, lambda at: at == "after_put")
    undo()
    with pytest.raises(FormatError, match="the last commit was " + LATER):
        run(other.folder, target)


def test_a_request_of_later_is_given_up(log, target, by_a_later_version):
    with applier(log.folder, target) as found:
        undo = by_a_later_version(recopy)
        recopy.ask(found.config, ("t.a",))
        undo()
        recopier = recopy.Recopier(found.spark, found.config, found)
        assert len(recopier._queue.requests()) == 1
        recopier._next_copy()
        copy = last_copy(found.tracking.control)
        assert copy is not None and list(copy.bounds) == ["t.a"]
        assert re.search("this request was " + LATER, copy.error)
        assert recopier._queue.requests() == []


def test_a_branch_of_later_is_refused(tmp_path):
    (tmp_path / "00000000000000000004.events2").touch()
    with pytest.raises(FormatError, match="a prepared XA branch was written in format 2"):
        XaStore(str(tmp_path)).clean((), lambda: None)
    assert (tmp_path / "00000000000000000004.events2").exists()


def test_a_file_of_the_quarantine_of_later_is_refused(many, monkeypatch):
    """One with an owner's epoch in its name by a version that knows none; format 1 is read."""
    lake = many / "many"
    assert run(many / "east", lake, keys={"compact_files": 0}, **RULES)
    found = {
        path: quarantine_store._read(str(path)) for path in lake.rglob("quarantine/*/*.events")
    }
    assert sorted(bool(one.epoch) for one in found.values()) == [False, True]
    monkeypatch.setattr(quarantine_store, "_FORMAT", 1)
    for path, one in found.items():
        if one.epoch:
            with pytest.raises(FormatError, match=r"of the quarantine was written .*format 2"):
                quarantine_store._read(str(path))
        else:
            assert quarantine_store._read(str(path)).gtids == one.gtids


def later_end(folder):
    data = (folder / "relay.end").read_bytes()
    (folder / "relay.end").write_bytes(b"SRE2" + data[4:] + b"more")


def later_list(folder):
    text = (folder / "relay.index").read_text()
    text = text.replace("relay log ", "relay log format 2 by 9.8.7 ")
    (folder / "relay.index").write_text(text)


@pytest.mark.parametrize("change", [later_end, later_list])
def test_a_relay_log_of_later_is_refused(left, change):
    change(left / "relay")
    before = {path.name: path.read_bytes() for path in (left / "relay").iterdir()}
    for look in (lambda: open_log(str(left / "relay")), lambda: _opened(left / "relay")):
        with pytest.raises(FormatError, match=r"this relay log was written .*in format 2"):
            look()
    assert {path.name: path.read_bytes() for path in (left / "relay").iterdir()} == before


def _opened(folder):
    with RelayWriter(folder, 7) as writer:
        writer.renew(GtidSet())


def test_a_checkpoint_of_later_is_refused(left):
    reader = MySQLRelayReader({"path": str(left / "log")})
    with pytest.raises(FormatError, match="format 3"):
        reader.partitions({"position": 4, "format": 3}, {"position": 8})


def test_what_is_only_looked_at_is_left_out(log, target, left):
    run(log.folder, target)
    place = target / "_repl" / "status.json"
    assert read_applier_status(str(place)) is not None
    place.write_text(place.read_text().replace('"format": 1', '"format": 2'))
    assert read_applier_status(str(place)) is None
    assert status(str(target))["replication_applier_status_by_worker"] == []
    with RelayWriter(left / "relay", 7) as writer:
        Report(left / "relay", "default").write("OFF", writer)
    report = left / "relay" / "receiver.json"
    assert "format" not in (read_report(left / "relay") or {})
    report.write_text(report.read_text().replace('"format": 1', '"format": 2'))
    assert read_report(left / "relay") is None


def test_key_indexes_of_another_format_are_made_anew(log, target, monkeypatch):
    log.transaction(insert(TABLE, *[(key, "x") for key in range(9)]))
    with monkeypatch.context() as patched:
        patched.setattr(key_index, "_SUFFIX", ".2.npy")
        run(log.folder, target)
    for path in (target / "_repl" / "keys").rglob("*.2.npy"):
        np.save(path.open("wb"), np.zeros((2, 9), np.int64))  # would find nothing
    log.transaction(update(TABLE, ((3, "x"), (3, "y"))))
    run(log.folder, target)
    assert rows(target, TABLE)[3] == (3, "y")


@pytest.mark.parametrize("text", ["{}", '{"a": {"format": 7, "written_by": "x"}}', '{"a":1}\n'])
def test_a_stamp_is_taken_off_again(text):
    stamped = formats.stamp(text, 1)
    assert json.loads(stamped)["format"] == 1
    assert json.loads(formats.unstamp(stamped, 1, "it")) == json.loads(text)
    assert json.loads(formats.unstamp(text, 9, "it")) == json.loads(text)


def test_the_documentation_lists_them():
    page = Path(__file__).parents[2].joinpath("docs", "architecture.md").read_text("utf-8")
    table = page[page.index("## Formats") :].split("\n## ")[0]
    names = ("control", "xa", "relay.index", "relay.end", "receiver.json", "keys", "index")
    names += ("checkpoint", "requests", "staging", "status.json", "spark_repl.definition")
    assert [name for name in names if f"`{name}`" not in table] == []

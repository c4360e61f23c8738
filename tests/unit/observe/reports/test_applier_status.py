"""The status file has one writer: that of the latest epoch, which need not read its own."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from spark_repl import Config
from spark_repl.observe.reports import applier_status
from spark_repl.observe.reports.applier_status import ApplierStatus, Notice, read_applier_status


@pytest.fixture
def reads(monkeypatch):
    """The paths whose epoch was read."""
    found, true = [], applier_status._epoch_of
    monkeypatch.setattr(
        applier_status, "_epoch_of", lambda path: [found.append(path), true(path)][1]
    )
    return found


def written(status, text):
    status.state(text, "")
    status._write(at_once=True)
    return read_applier_status(status.path)


def test_a_former_owner_writes_nothing_over_the_next_ones(tmp_path, reads):
    path = str(tmp_path / "state" / "status.json")
    former = ApplierStatus(path, Config(), 1)
    assert written(former, "a")["epoch"] == 1
    owner = ApplierStatus(path, Config(), 2)
    assert written(owner, "b")["epoch"] == 2
    said = written(former, "c")
    assert said["epoch"] == 2 and said["coordinator"]["PROCESSLIST_STATE"] == "b"
    assert written(owner, "d")["coordinator"]["PROCESSLIST_STATE"] == "d"


def test_what_it_wrote_itself_is_not_read_again(tmp_path, reads):
    status = ApplierStatus(str(tmp_path / "status.json"), Config(), 1)
    written(status, "a")
    reads.clear()
    for text in "bcd":
        assert written(status, text)["coordinator"]["PROCESSLIST_STATE"] == text
    assert reads == []
    os.remove(status.path)
    assert written(status, "e")["epoch"] == 1, "a file that was removed comes back"


def test_a_copy_is_under_way_until_it_is_not(tmp_path):
    status = ApplierStatus(str(tmp_path / "status.json"), Config(), 1)
    status.copies([f"t.{number}" for number in range(10_000)], 5, 20)
    status._write(at_once=True)
    copy = read_applier_status(status.path)["copy"]
    assert copy["number"] == 10_000 and (copy["rows"], copy["expected"]) == (5, 20)
    assert len(json.dumps(copy)) < 1000
    status.copies((), 0, 0)
    assert read_applier_status(status.path)["copy"] == {}
    status.copies(["t.a"], 5, 20)
    status.stopped(None)
    assert read_applier_status(status.path)["copy"] == {}, "a copy ends with the applier"


def test_what_others_say_and_what_is_reloaded_is_said_from_then_on(tmp_path):
    notes = dict[str, Notice]()
    status = ApplierStatus(str(tmp_path / "status.json"), Config(), 1, notes=notes)
    assert written(status, "a")["notes"] == []
    notes["page"] = Notice("there is no page", "ask for one")
    assert written(status, "b")["notes"] == [{"what": "there is no page", "hint": "ask for one"}]
    status.reload(replace(Config().apply, xa_age_limit_s=7))
    assert written(status, "c")["xa_age_limit_s"] == 7

"""Disks that are full, as `status` sees them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.control.records.channels import layout_of
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.owner import Owner
from spark_repl.observe.reports.applier_status import ApplierStatus, read_applier_status
from spark_repl.observe.reports.run_report import read_run_report, report_of
from spark_repl.observe.status.problems import FullDisk, bytes_left, full_disks, problems
from spark_repl.observe.status.status import _scratch, status
from spark_repl.runtime.target_uri import canonical
from tests.support.no_source import no_source


def test_what_is_on_a_full_disk_is_named_together(tmp_path: Path) -> None:
    places = {"the target": str(tmp_path), "the relay log": str(tmp_path / "relay")}
    (tmp_path / "relay").mkdir()
    assert full_disks(places, lambda path: 1 << 20) == []
    (one,) = full_disks(places, lambda path: 4096)
    assert one == FullDisk(("the target", "the relay log"), str(tmp_path), 4096)
    others = full_disks(places, lambda path: 0 if path.endswith("relay") else 1 << 30)
    assert [one.names for one in others] == [("the relay log",)]


def test_unknown_disks_are_no_problem(tmp_path: Path) -> None:
    assert bytes_left(str(tmp_path / "none")) is None
    assert bytes_left(str(tmp_path)) is not None
    assert full_disks({"the target": canonical("s3://bucket/x")}, lambda path: 0) == []
    assert full_disks({"the target": str(tmp_path / "none")}) == []


def test_sparks_scratch_folder_is_that_of_the_applier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the process that asks for the status, nor that of its host."""
    here, file = Owner.me("c"), str(tmp_path / "status.json")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/of/the/applier,/other")
    ApplierStatus(file, Config(), 1).stopped(None)
    report_of(config := no_source(tmp_path)).begins("starting Spark")
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    live, run = read_applier_status(file) or {}, read_run_report(layout_of(config).run, None)
    assert _scratch((1, here), live, {}) == _scratch(None, {}, run) == "/of/the/applier"
    elsewhere = replace(here, host="elsewhere")
    assert _scratch((1, elsewhere), live, {}) == _scratch(None, live, {}) == ""
    assert _scratch((1, here), live, {**run, "here": False}) == _scratch((1, here), {}, {}) == ""


def test_a_full_disk_is_wrong(tmp_path: Path) -> None:
    control = Control(Layout(str(tmp_path)).control)
    control.claim()
    control.release()
    shown: dict[str, Any] = status(str(tmp_path))
    assert shown["full_disks"] == []
    shown["full_disks"] = [{"names": ("the target", "the relay log"), "path": "/x", "bytes": 12}]
    (problem,) = problems(shown)
    assert problem.what == "the disk of the target and the relay log is full: 12 bytes left at /x"
    assert problem.hint.startswith("make room there: the applier waits for it")

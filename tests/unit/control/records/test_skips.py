"""What can't be left out: what a cut shows, what a table may have, what a copy may have read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.records.copies import Copy, record_copy
from spark_repl.control.records.skips import check_skip
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.errors import TargetError
from spark_repl.gtid import GtidSet

_UUID = "11111111-2222-3333-4444-555555555555"


def gtids(numbers: str) -> GtidSet:
    return GtidSet.parse(f"{_UUID}:{numbers}")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path))


@pytest.fixture
def control(layout: Layout) -> Control:
    """Tables t.a and t.b, and a cut of both behind transaction 5, at version 1."""
    found = Control(layout.control)
    found.claim()
    versions = {}
    for name in ("a", "b"):
        found.write("table", detail=json.dumps({"name": f"t.{name}", "path": f"t/{name}"}))
        versions[f"t.{name}"] = TableVersion(f"t/{name}", 1, "m", 5)
        for version in (0, 1):
            commit(layout, name, version, group=str(gtids("1-5")))
    found.publish(Cut(5, str(gtids("1-5")), "log", {}, versions))
    return found


def commit(layout: Layout, name: str, version: int, **said: Any) -> None:
    """Of ours; with nothing ``said`` it is somebody else's."""
    info = {"operation": "?", "userMetadata": json.dumps(said) if said else None}
    txn = [{"txn": {"appId": "spark_repl:default", "version": version}}] if said else []
    log = Path(layout.table(f"t/{name}"), "_delta_log")
    log.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(action) for action in [{"commitInfo": info}, *txn]]
    (log / f"{version:020d}.json").write_text("\n".join(lines))


def refused(control: Control, layout: Layout, numbers: str) -> str:
    with pytest.raises(TargetError) as found:
        check_skip(control, layout, gtids(numbers))
    assert found.value.hint
    return found.value.message


def test_a_transaction_that_a_cut_shows_can_not_be_skipped(
    control: Control, layout: Layout
) -> None:
    check_skip(control, layout, gtids("6"))
    assert (
        refused(control, layout, "3-6") == f"{gtids('3-5')} has been applied: the last cut shows it"
    )
    control.write("skip", gtid_executed=str(gtids("3-5")))
    check_skip(control, layout, gtids("3-6"))  # said again: nothing new


def test_what_groups_behind_the_cut_have_brought(control: Control, layout: Layout) -> None:
    commit(layout, "a", 2)
    commit(layout, "a", 3, group=str(gtids("9-10")), gtid_executed=str(gtids("1-10")))
    check_skip(control, layout, gtids("6-8"))  # of tables that were behind, perhaps
    said = refused(control, layout, "8-9")
    assert f"t.a ({gtids('9')})" in said
    assert "t.b" not in said


def test_commits_of_a_version_before_that_named_no_group(control: Control, layout: Layout) -> None:
    commit(layout, "b", 2, gtid_executed=str(gtids("1-10")))
    assert f"t.b ({gtids('8')})" in refused(control, layout, "8")


def test_a_transaction_that_a_copy_may_have_read_can_not_be_skipped(
    control: Control, layout: Layout
) -> None:
    behind = control.cuts()[-1]
    copy = Copy(gtids("1-5"), {"t.a": ()}, {"t.a": "t/a@2"}, behind=behind)
    record_copy(control, copy)
    assert "t.a" in refused(control, layout, "6")
    record_copy(control, replace(copy, until=gtids("1-8")))
    assert "t.a" in refused(control, layout, "8")
    check_skip(control, layout, gtids("9"))
    record_copy(control, replace(copy, error="given up"))
    check_skip(control, layout, gtids("8"))

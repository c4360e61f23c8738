"""Numbers of formats of the control table's rows: a version that would misread a row refuses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import write_deltalake

from spark_repl.control.records.copies import Copy, record_copy
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.repair_results import RepairResult, repair_results
from spark_repl.control.records.repair_results import record_result as record_repair
from spark_repl.control.records.replaced_tables import gone_paths
from spark_repl.control.records.retention import Retention
from spark_repl.control.records.table_notes import record_checked
from spark_repl.control.records.table_paths import RESET, announce
from spark_repl.control.table import control_rows, row_formats
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, InQuarantine, TableVersion, Waiting
from spark_repl.control.table.given_paths import KIND as GIVEN
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.row_formats import rows_table
from spark_repl.errors import FormatError
from spark_repl.gtid import GtidSet

CUT = Cut(1, "", "log", {}, {"t.a": TableVersion("t/a", 1, "", 1)}, counts={})
MARK = InQuarantine("broken", "1", 2, 300)
OWNED = replace(MARK, owners=((1, 2, 300),))
BRANCH = {"gtrid": "61", "position": 1}
COPY = Copy(GtidSet(), {}, {"t.a": "t/a"})
SHORT = Retention(1, 1, 1)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "lake"))


@pytest.fixture
def control(layout: Layout) -> Control:
    control = Control(layout.control)
    control.claim()
    return control


def numbers_of(control: Control, kind: str) -> set[int]:
    rows = control._rows_of(control._open()).to_pylist()
    return {json.loads(row["detail"])["format"] for row in rows if row["kind"] == kind}


def reset(control: Control) -> None:
    control.begin_again(("owner",), {RESET: '{"paths": ["t/a"]}', GIVEN: '{"paths": {"t/b": 2}}'})


MISREAD: dict[str, tuple[str, Callable[[Control], None]]] = {
    "reset": (RESET, reset),
    "given": (GIVEN, reset),
    "statistics": ("statistics", lambda c: record_checked(c, {"t/a": 1})),
    "copy that begins empty": (
        "copy", lambda c: record_copy(c, replace(COPY, without_rows=("t.a",)))
    ),
    "copy with owners": ("copy", lambda c: record_copy(
        c, replace(COPY, behind=replace(CUT, quarantined={"t.a": OWNED}))
    )),
    "copy with files of branches": ("copy", lambda c: record_copy(
        c, replace(COPY, behind=replace(CUT, prepared=({**BRANCH, "file": "1-1.events"},)))
    )),
    "repair": (
        "repair", lambda c: record_repair(c, RepairResult("1", "t.a", 1, failed="too long"))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISREAD)
def test_rows_that_an_earlier_version_would_misread_have_a_higher_number(
    control: Control, name: str
) -> None:
    kind, write = MISREAD[name]
    write(control)
    assert Control(control.path).snapshot()
    assert numbers_of(control, kind) == {4}


def test_other_rows_keep_the_first_number(control: Control) -> None:
    record_copy(control, replace(COPY, behind=replace(CUT, quarantined={"t.a": MARK})))
    record_repair(control, RepairResult("1", "t.a", 1, refused="no key"))
    announce(control, "t.a", "t/a", 1, "1")
    for kind in ("copy", "repair", "table"):
        assert numbers_of(control, kind) == {1}


@pytest.mark.parametrize("publish", [False, True])
def test_an_earlier_version_refuses_a_target_that_this_one_has_claimed(
    control: Control, monkeypatch: pytest.MonkeyPatch, publish: bool
) -> None:
    """It would read cuts without tables."""
    if publish:
        control.publish(CUT)
    monkeypatch.setattr(control_rows, "KNOWN_FORMAT", 4)
    with pytest.raises(FormatError, match=r"format 5; this version, .*, knows format 4"):
        Control(control.path).snapshot()


def test_a_number_stays_when_rows_are_pruned(control: Control, layout: Layout) -> None:
    """A cut, and paths that are noted together."""
    for at in range(1, 4):
        control.publish(replace(CUT, position=at))
    announce(control, "t.gone", "t/gone", 1, "1")
    control.prune(
        PruneBy(SHORT),
        DurabilityBarrier(control, layout),
        lambda: gone_paths(control, layout),
        due=True,
    )
    assert (numbers_of(control, "cut"), numbers_of(control, GIVEN)) == ({5}, {4})


def test_fields_of_a_later_version_under_the_same_number_are_ignored(control: Control) -> None:
    """Such a field changes nothing of what the others mean."""
    control.publish(replace(CUT, quarantined={"t.a": OWNED}, waiting={"t.b": Waiting("why", "1")}))
    record_repair(control, RepairResult("1", "t.a", 1))
    row = control.rows("cut")[-1]
    detail = json.loads(row["detail"])
    for fields in (detail["quarantined"]["t.a"], detail["waiting"]["t.b"]):
        fields["later"] = 1
    later = {**row, "detail": json.dumps(detail), "at": row["at"] + timedelta(1)}
    write_deltalake(control.path, rows_table([later]), mode="append")
    repair = {**asdict(RepairResult("2", "t.a", 1)), "later": 1}
    control.write("repair", detail=json.dumps(repair))
    control.write("retention", detail=json.dumps({**asdict(SHORT), "later": 1}))
    owner = json.loads(control.rows("owner")[-1]["detail"])
    control.write("owner", detail=json.dumps({**owner, "later": 1}))
    first, second = Control(control.path).cuts()
    assert (first.tables, first.quarantined, first.waiting) == (
        second.tables, second.quarantined, second.waiting
    )  # fmt: skip
    assert set(repair_results(control)) == {"1", "2"}
    SHORT.record(control)
    owned = Control(control.path).owner()
    assert owned is not None and owned[0] == control.epoch
    assert row_formats.known_fields(Retention, {"later": 1}) == {}

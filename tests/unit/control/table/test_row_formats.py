"""Numbers of formats of the control table's rows: a version that would misread a row refuses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from spark_repl.control.records.copies import Copy, record_copy
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.repair_results import RepairResult, repair_results
from spark_repl.control.records.repair_results import record_result as record_repair
from spark_repl.control.records.replaced_tables import gone_paths
from spark_repl.control.records.retention import Retention
from spark_repl.control.records.table_notes import record_checked
from spark_repl.control.records.table_paths import RESET, announce
from spark_repl.control.table import control as module
from spark_repl.control.table import control_rows, row_formats
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, InQuarantine, TableVersion, Waiting
from spark_repl.control.table.given_paths import KIND as GIVEN
from spark_repl.control.table.layout import Layout
from spark_repl.errors import FormatError
from spark_repl.gtid import GtidSet

TABLES = {f"t.a{number}": TableVersion(f"t/a{number}", 1, "", 1) for number in range(60)}
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


def read_by_3(control: Control, monkeypatch: pytest.MonkeyPatch) -> Control:
    """The control table as a version reads it that knows format 3, and those before."""
    monkeypatch.setattr(control_rows, "KNOWN_FORMAT", 3)
    monkeypatch.setattr(module, "KNOWN_FORMAT", 3)
    return Control(control.path)


def reset(control: Control) -> None:
    control.begin_again(("owner",), {RESET: '{"paths": ["t/a"]}', GIVEN: '{"paths": {"t/b": 2}}'})


def told(control: Control) -> None:
    control.publish(replace(CUT, tables=TABLES))
    control.publish(replace(CUT, position=2, tables=TABLES, quarantined={"t.a1": OWNED}))


MISREAD: dict[str, Callable[[Control], None]] = {
    "quarantine": lambda c: c.publish(replace(CUT, quarantined={"t.a": OWNED})),
    "xa": lambda c: c.publish(replace(CUT, prepared=({**BRANCH, "file": "1-1.events"},))),
    "told": told,
    "reset": reset,
    "statistics": lambda c: record_checked(c, {"t/a": 1}),
    "without history": lambda c: record_copy(c, replace(COPY, without_rows=("t.a",))),
    "copy": lambda c: record_copy(
        c, replace(COPY, behind=replace(CUT, quarantined={"t.a": OWNED}))
    ),
    "repair": lambda c: record_repair(c, RepairResult("1", "t.a", 1, failed="too long")),
}  # fmt: skip


@pytest.mark.parametrize("name", MISREAD)
def test_an_earlier_version_refuses_what_it_would_misread(
    control: Control, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    MISREAD[name](control)
    assert Control(control.path).snapshot()
    with pytest.raises(FormatError, match=r"format 4; this version, .*, knows format 3"):
        read_by_3(control, monkeypatch).snapshot()


def test_an_earlier_version_reads_what_is_as_it_was(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.publish(replace(CUT, quarantined={"t.a": MARK}, prepared=(BRANCH,)))
    record_copy(control, COPY)
    record_repair(control, RepairResult("1", "t.a", 1, refused="no key"))
    announce(control, "t.a", "t/a", 1, "1")
    (cut,) = read_by_3(control, monkeypatch).cuts()
    assert cut.quarantined == {"t.a": MARK} and cut.prepared == (BRANCH,)


def test_a_number_stays_when_rows_are_pruned(
    control: Control, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut that is told anew, and paths that are noted together."""
    for at in range(1, 4):
        marks = {"t.a1": OWNED} if at == 3 else {}
        control.publish(replace(CUT, position=at, tables=TABLES, quarantined=marks))
    announce(control, "t.gone", "t/gone", 1, "1")
    control.prune(
        PruneBy(SHORT),
        DurabilityBarrier(control, layout),
        lambda: gone_paths(control, layout),
        due=True,
    )
    numbers = {
        (row["kind"], json.loads(row["detail"])["format"])
        for row in control._rows_of(control._open()).to_pylist()
    }
    assert ("cut", 4) in numbers and (GIVEN, 4) in numbers
    with pytest.raises(FormatError, match="format 4"):
        read_by_3(control, monkeypatch).snapshot()


def test_fields_of_a_later_version_under_the_same_number_are_ignored(control: Control) -> None:
    """Such a field changes nothing of what the others mean."""
    control.publish(replace(CUT, quarantined={"t.a": OWNED}, waiting={"t.b": Waiting("why", "1")}))
    record_repair(control, RepairResult("1", "t.a", 1))
    row = control.rows("cut")[-1]
    detail = json.loads(row["detail"])
    for fields in (detail["tables"]["t.a"], detail["quarantined"]["t.a"], detail["waiting"]["t.b"]):
        fields["later"] = 1
    control.write("cut", position=1, detail=json.dumps(detail))
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

"""What later rows of the control table say as well goes; what a start could need stays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from spark_repl.control.records import pruning, repair_results
from spark_repl.control.records.copies import Copy, consistent_paths, last_copy, record_copy
from spark_repl.control.records.definitions import Definitions
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.log_identity import LogIdentity, record, recorded
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.replaced_tables import gone_paths
from spark_repl.control.records.retention import Retention
from spark_repl.control.records.schema_tool_tables import SchemaToolTable, SchemaToolTables
from spark_repl.control.records.table_paths import announce, given_paths, used_paths
from spark_repl.control.table import control as module
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.cut_tables import CUT_TABLE
from spark_repl.control.table.layout import Layout
from spark_repl.gtid import GtidSet
from spark_repl.position import OFFSET_BITS
from spark_repl.tables.target_table import TargetTable

UUID = "11111111-2222-3333-4444-555555555555"
SHORT = Retention(1, 1, 1)
PATH = "t/a"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "lake"))


@pytest.fixture
def control(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Control:
    monkeypatch.setattr(module, "_PRUNE_EVERY", 0)
    found = Control(layout.control)
    found.claim()
    return found


def prune(control: Control, layout: Layout) -> None:
    assert control.prune(
        PruneBy(SHORT), DurabilityBarrier(control, layout), lambda: gone_paths(control, layout)
    )


def cut(number: int, *, paths: tuple[str, ...] = (PATH,), log: str = "log", file: int = 0) -> Cut:
    tables = {f"t.{path[2:]}": TableVersion(path, 1, "", number) for path in paths}
    at = number + (file << OFFSET_BITS)
    return Cut(at, f"{UUID}:1-{number}", log, {}, tables, group_gtids=f"{UUID}:{number}")


def definition(number: int) -> TargetTable:
    return TargetTable("t", f"a{number}", (), ())


def details(control: Control, kind: str) -> list[dict[str, Any]]:
    return [json.loads(row["detail"]) for row in Control(control.path).rows(kind)]


def test_definitions_before_the_oldest_cut_are_pruned(control: Control, layout: Layout) -> None:
    kept = Definitions(control)
    for number in range(1, 7):
        gtid = f"{UUID}:{number}" if number % 2 else ""
        kept.record(PATH, definition(number), number, gtid, by_rows=number == 2)
    control.publish(cut(4))
    control.publish(cut(5))
    before = {at: kept.at(PATH, at, GtidSet.parse(f"{UUID}:1-{at}")) for at in (4, 5, 6)}
    prune(control, layout)
    found = Definitions(Control(control.path))
    found.load()
    after = {at: found.at(PATH, at, GtidSet.parse(f"{UUID}:1-{at}")) for at in (4, 5, 6)}
    assert before == after and None not in after.values()
    assert sorted(row["position"] for row in control.rows("definition")) == [2, 4, 5, 6]


def test_definitions_from_where_a_copy_goes_back_to(control: Control, layout: Layout) -> None:
    kept = Definitions(control)
    for number in (1, 2, 3):
        kept.record(PATH, definition(number), number, f"{UUID}:{number}")
    record_copy(control, Copy(GtidSet(), {"t.a": ()}, {"t.a": "t/a@2"}, behind=cut(2)))
    control.publish(cut(3))
    prune(control, layout)
    assert [row["position"] for row in control.rows("definition")] == [2, 3]


def test_tables_that_are_no_more(control: Control, layout: Layout) -> None:
    """t/a is shown, t/b was dropped and is there, t/c was removed, t/d is going to be made."""
    for name in "abc":
        announce(control, f"t.{name}", f"t/{name}", 1, f"{UUID}:1")
        Definitions(control).record(f"t/{name}", definition(1), 1, f"{UUID}:1")
    for number, path in ((1, "t/a@2"), (2, "t/b")):
        copy = Copy(GtidSet(), {"t.x": ()}, {"t.x": path}, until=GtidSet(), behind=cut(number))
        record_copy(control, copy)
        record_copy(control, replace(copy, shown=True))
    record_copy(control, Copy(GtidSet(), {"t.x": ()}, {}, error="no such table"))
    record_copy(control, Copy(GtidSet(), {"t.y": ()}, {}, error="again"))
    control.publish(cut(8))
    announce(control, "t.d", "t/d", 9, f"{UUID}:9")
    Path(layout.table("t/b")).mkdir(parents=True)
    prune(control, layout)
    again = Control(control.path)
    assert used_paths(again) == {"t/a", "t/b", "t/d"}
    assert all(path in given_paths(again) for path in ("t/a", "t/a@2", "t/b", "t/c", "t/d"))
    assert [details(again, "given")[-1]["paths"]] == [{"t/a": 2, "t/c": 1}]
    assert layout.fresh_path("t", "c", given_paths(again)) == "t/c@2"
    assert layout.fresh_path("t", "c2", given_paths(again)) == "t/c2"
    assert {row["path"] for row in details(again, "definition")} == {"t/a", "t/b"}
    assert consistent_paths(again) == {"t/b"} and len(again.rows("copy")) == 2
    last = last_copy(again)
    assert last is not None and last.error == "again"


def test_rows_of_tables_that_were_reset_are_pruned(control: Control, layout: Layout) -> None:
    """Their row goes with the last of the folders that are there still."""
    control.write("reset", detail=json.dumps({"paths": ["t/a", "t/b"]}))
    folder = Path(layout.table("t/b"))
    folder.mkdir(parents=True)
    control.publish(cut(1, paths=()))
    prune(control, layout)
    assert details(control, "reset")[-1]["paths"] == ["t/b"]
    folder.rmdir()
    prune(control, layout)
    assert not details(control, "reset")
    assert details(control, "given")[-1]["paths"] == {"t/a": 1, "t/b": 1}


def test_rows_of_tools_tables_that_ended_are_pruned(control: Control, layout: Layout) -> None:
    left = SchemaToolTables(control)
    left.put(SchemaToolTable("t._a_gho", "t.a"), cut(1))
    left.put(SchemaToolTable("t._a_gho", "t.a", copy=True), cut(2))
    left.put(SchemaToolTable("t._b_gho", "t.b"), cut(2))
    left.end("t._b_gho", cut(3))
    left.end("t._a_gho", cut(6))
    for at in (4, 6):
        control.publish(cut(at))
    prune(control, layout)
    for at, names in ((4, {"t._a_gho"}), (6, set())):
        found = SchemaToolTables(Control(control.path))
        found.load(cut(at))
        assert found.tables.keys() == names
        assert all(table.copy for table in found.tables.values())
    assert len(control.rows("left_out")) == 2


def test_fingerprints_of_old_log_files_are_pruned(
    control: Control, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_FILES", 3)
    monkeypatch.setattr(pruning, "_LOGS", 1)
    for number in range(1, 9):
        record(control, LogIdentity("log", 10, {n: f"of {n}" for n in range(1, number + 1)}))
        size = sum(len(row["detail"]) for row in control.rows("history"))
        assert size < number * 120, "a row has its own file alone"
    for other in ("x", "y"):
        record(control, LogIdentity(other, 90, {1: other}))
    control.publish(cut(1, file=16))  # its sixth file; the applier is behind
    prune(control, layout)
    logs = {log.log_id: log for log in recorded(Control(control.path))}
    assert logs.keys() == {"log", "y"} and logs["log"].base == 10
    assert logs["log"].fingerprints == {n: f"of {n}" for n in range(4, 9)}
    assert len(control.rows("history")) == 2


def test_which_logs_cuts_are_of_is_seen_at_their_beginning(
    control: Control, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables in quarantine may follow: of all but the first and the last nothing else can be read.
    What does not begin as cuts do is read all the same."""
    monkeypatch.setattr(pruning, "_LOGS", 1)
    for log in ("a", 'b"', "c", "d", "e"):
        record(control, LogIdentity(log, 10, {1: log}))
    control.publish(cut(1))
    details = ['{"log_id": "a", ', '{"tables": {}, "log_id": "d"}', json.dumps({"log_id": 'b"'})]
    control.publish(cut(9))
    for number, detail in enumerate(details, 2):
        control.write("cut", position=number, detail=f"{detail[:-1]} }}")
    rows = control._rows_of(control._open()).filter(pc.field("kind") != CUT_TABLE)
    left = pruning.live_rows(rows, set()).to_pylist()
    logs = [json.loads(row["detail"])["log_id"] for row in left if row["kind"] == "history"]
    assert logs == ["a", 'b"', "d", "e"]
    assert sum(row["kind"] == "cut" for row in left) == 5


def test_rows_that_later_rows_repeat_are_pruned(control: Control, layout: Layout) -> None:
    control.publish(cut(1))
    kinds = ("names", "time_zone", "retention", "registers")
    for kind in kinds:
        for value in (1, 2):
            control.write(kind, detail=json.dumps({"value": value}))
    control.write("skip", gtid_executed=f"{UUID}:3")
    control.write("skip", gtid_executed=f"{UUID}:4")
    for name in ("t.a", "t.a", "t.b"):
        control.write("foreign_keys", position=1, detail=json.dumps({"name": name, "keys": []}))
    prune(control, layout)
    assert [details(control, kind) for kind in kinds] == [[{"value": 2}]] * len(kinds)
    assert len(control.rows("skip")) == 2
    assert [one["name"] for one in details(control, "foreign_keys")] == ["t.a", "t.b"]


def test_answers_that_may_be_waited_for(
    control: Control, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes may wait for answers at once, so a later answer removes no earlier one."""
    control.publish(cut(4))
    for number in range(4):
        repair_results.record_result(
            control, repair_results.RepairResult(f"{number}.repair", "t.a")
        )
    prune(control, layout)
    assert [*repair_results.repair_results(control)] == [f"{number}.repair" for number in range(4)]
    monkeypatch.setattr(pruning, "RESULTS_KEPT", 2)
    control.publish(cut(5))
    prune(control, layout)
    assert [*repair_results.repair_results(Control(control.path))] == ["2.repair", "3.repair"]

"""What a cut's row tells: with many tables those that are not what they were in the cut before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention
from spark_repl.control.table import cut_encoding
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_snapshot import ControlSnapshot
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.cut_encoding import LEAST_TABLES, MOST_SINCE, base_of, bases_of
from spark_repl.control.table.layout import Layout
from spark_repl.errors import FormatError, TargetError

MANY = 1000
TABLES = {
    f"t.a{number:03}": TableVersion(f"t/a{number:03}", 1, "m" * 36, 1 << 40)
    for number in range(MANY)
}
CUT = Cut(1, "u:1", "log", {}, TABLES)


def changed(cut: Cut, number: int, *names: str) -> Cut:
    """The next cut: these tables have another version."""
    tables = {
        name: replace(one, version=number) for name, one in cut.tables.items() if name in names
    }
    return replace(cut, position=number, tables={**cut.tables, **tables})


@pytest.fixture
def control(tmp_path: Path) -> Control:
    owned = Control(Layout(str(tmp_path / "lake")).control)
    owned.claim()
    return owned


def details(control: Control) -> list[str]:
    return [row["detail"] for row in Control(control.path).rows("cut")]


def test_a_group_that_changes_one_table_of_a_thousand_tells_one(control: Control) -> None:
    control.publish(CUT)
    control.publish(changed(CUT, 2, "t.a500"))
    whole, since = details(control)
    assert len(since) < len(whole) / 200 and list(json.loads(since)["tables"]) == ["t.a500"]
    before, behind = Control(control.path).cuts()
    assert before.tables == TABLES and behind.tables == changed(CUT, 2, "t.a500").tables


def test_a_table_that_is_gone(control: Control) -> None:
    control.publish(CUT)
    left = {name: one for name, one in TABLES.items() if name != "t.a500"}
    control.publish(replace(CUT, position=2, tables=left))
    control.publish(replace(CUT, position=3))
    assert json.loads(details(control)[1])["gone"] == ["t.a500"]
    assert [len(cut.tables) for cut in Control(control.path).cuts()] == [MANY, MANY - 1, MANY]


def test_of_few_tables_each_row_tells_all_as_before(control: Control) -> None:
    few = dict(list(TABLES.items())[: LEAST_TABLES - 1])
    for position in (1, 2):
        control.publish(replace(CUT, position=position, tables=few))
    assert all(set(json.loads(detail)) == {"log_id", "source", "tables", "counts", "prepared"}
               for detail in details(control))  # fmt: skip
    known_before(control, 1)


def test_where_most_tables_are_others_all_are_told(control: Control) -> None:
    control.publish(CUT)
    control.publish(changed(CUT, 2, *list(TABLES)[: MANY // 2 + 1]))
    assert [base_of(detail)[1] for detail in details(control)] == ["", ""]


def test_so_many_rows_stand_on_one(control: Control) -> None:
    for position in range(1, MOST_SINCE + 3):
        control.publish(replace(CUT, position=position))
    whole = [position for position, one in enumerate(details(control)) if not base_of(one)[1]]
    assert whole == [0, MOST_SINCE + 1]


def test_who_takes_over_tells_all_once(control: Control) -> None:
    control.publish(CUT)
    control.release()
    control.claim()
    control.publish(replace(CUT, position=2))
    control.publish(replace(CUT, position=3))
    assert [bool(base_of(detail)[1]) for detail in details(control)] == [False, False, True]


def known_before(control: Control, number: int) -> ControlSnapshot:
    """As a version reads it that knows formats up to ``number``."""
    table = DeltaTable(control.path)
    return ControlSnapshot.of(table.version(), table.to_pyarrow_table(), number, control.path)


def test_a_version_of_before_refuses_what_it_would_take_for_all_tables(control: Control) -> None:
    control.publish(CUT)
    known_before(control, 1)
    control.publish(replace(CUT, position=2))
    with pytest.raises(FormatError, match=r"in format 3; this version, .*, knows format 2"):
        known_before(control, 2)


def prune(control: Control) -> None:
    """Nothing is promised but the newest."""
    settle = DurabilityBarrier(control, Layout(str(Path(control.path).parents[1])))
    assert control.prune(PruneBy(Retention(0, 0, 0)), settle, due=True)


def test_what_is_forgotten_is_told_by_the_next_one(control: Control) -> None:
    cut = CUT
    for position in range(1, 6):
        control.publish(cut := changed(cut, position, f"t.a{position}00"))
    prune(control)
    (detail,) = details(control)
    assert base_of(detail)[1] == "" and len(json.loads(detail)["tables"]) == MANY
    known_before(control, 1)
    control.publish(changed(cut, 6, "t.a600"))
    assert [one.tables["t.a500"].version for one in Control(control.path).cuts()] == [5, 5]
    assert Control(control.path).cuts()[-1].tables["t.a600"].version == 6


def test_what_is_pending_keeps_what_it_is_told_since(control: Control) -> None:
    """It is not the newest one any more: another process of this owner has gone on meanwhile."""
    control.publish(CUT)
    control.publish(changed(CUT, 2, "t.a500"), later=True)
    beside = {"position": 9, "gtid_executed": "", "detail": replace(CUT, position=9).to_detail()}
    control._pending.rows, held_back = [], control._pending.rows
    control.write("cut", **beside)
    control._pending.rows = held_back
    prune(control)
    control.write_pending()
    assert [cut.position for cut in Control(control.path).cuts()] == [1, 2, 9]
    assert Control(control.path).cuts()[1].tables["t.a500"].version == 2


def test_a_row_that_somebody_has_removed_is_missed(control: Control) -> None:
    control.publish(CUT)
    control.publish(replace(CUT, position=2))
    DeltaTable(control.path).delete("kind = 'cut' AND position = 1")
    with pytest.raises(TargetError, match="lacks a row that a cut is told since") as caught:
        Control(control.path).last_cut()
    assert caught.value.file == control.path and caught.value.hint


def test_marks_of_rows_at_once() -> None:
    told, since = "0" * 32, "f" * 32
    texts = [
        f'{{"id": "{told}", "since": "{since}", "log_id": "x"}}', f'{{"id": "{told}", "a": 1}}',
        '{"log_id": "x"}', "", f'{{"id": "{told[1:]}"}}', f'{{"a": 1, "id": "{told}"}}',
    ]  # fmt: skip
    wanted = [(told, since), (told, ""), *[("", "")] * 4]
    assert bases_of(pa.chunked_array([texts[:2], texts[2:]])) == wanted
    assert [base_of(text) for text in texts] == wanted
    assert bases_of(pa.chunked_array([], pa.string())) == []


def test_an_id_says_what_its_row_told(control: Control) -> None:
    first, told = cut_encoding.encode(CUT, None)
    assert told is not None and cut_encoding.encode(CUT, None)[0] == first
    again, behind = cut_encoding.encode(CUT, told)
    assert behind is not None and behind.id != told.id and base_of(again) == (behind.id, told.id)
    assert cut_encoding.encode(CUT, behind)[1] != behind

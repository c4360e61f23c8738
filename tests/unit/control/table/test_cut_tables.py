"""Rows of cuts' tables: one for each table that changes; which of them pruning keeps."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.replaced_tables import paths_at_cuts
from spark_repl.control.records.retention import Retention, pin
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, RowsCommit
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.cut_tables import CUT_TABLE, CutTables, needed_rows
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.row_formats import rows_table

TABLES = {
    f"t.a{number:03}": TableVersion(f"t/a{number:03}", 1, "m" * 36, 1 << 40)
    for number in range(100)
}
CUT = Cut(1, "u:1", "log", {}, TABLES)


def changed(cut: Cut, number: int, *names: str) -> Cut:
    """The next cut: these tables have another version."""
    tables = {
        name: replace(table, version=number) for name, table in cut.tables.items() if name in names
    }
    return replace(cut, position=number, tables={**cut.tables, **tables})


@pytest.fixture
def control(tmp_path: Path) -> Control:
    owned = Control(Layout(str(tmp_path / "lake")).control)
    owned.claim()
    return owned


def stored(control: Control) -> list[tuple[int, str, str | None]]:
    """Number, table and path of each row, by their order."""
    rows = control._rows_of(control._open()).to_pylist()
    of = [(r["sequence"], r["table_name"], r["path"]) for r in rows if r["kind"] == CUT_TABLE]
    return sorted(of, key=lambda row: row[:2])


def prune(control: Control) -> None:
    """Keep the newest cut and the pinned ones."""
    barrier = DurabilityBarrier(control, Layout(str(Path(control.path).parents[1])))
    assert control.prune(PruneBy(Retention(0, 0, 0)), barrier, due=True)


def test_a_cut_writes_the_tables_that_change(control: Control) -> None:
    control.publish(CUT)
    control.publish(changed(CUT, 2, "t.a050"))
    control.publish(changed(CUT, 3))
    assert stored(control)[100:] == [(2, "t.a050", "t/a050"), (3, "t.a050", "t/a050")]
    first, second, third = Control(control.path).cuts()
    assert first.tables == third.tables == TABLES
    assert second.tables == changed(CUT, 2, "t.a050").tables


def test_a_dropped_table_has_a_row_without_a_path(control: Control) -> None:
    control.publish(CUT)
    remaining = {name: table for name, table in TABLES.items() if name != "t.a050"}
    control.publish(replace(CUT, position=2, tables=remaining))
    control.publish(replace(CUT, position=3))
    assert stored(control)[100:] == [(2, "t.a050", None), (3, "t.a050", "t/a050")]
    assert [len(cut.tables) for cut in Control(control.path).cuts()] == [100, 99, 100]


def test_the_next_owner_writes_only_changes(control: Control) -> None:
    control.publish(CUT)
    control.release()
    control.claim()
    control.publish(changed(CUT, 2, "t.a050"))
    assert stored(control)[100:] == [(2, "t.a050", "t/a050")]


def test_a_cut_that_changes_nothing_has_a_number_of_its_own(control: Control) -> None:
    control.publish(CUT)
    control.publish(replace(CUT, position=2))
    control.release()
    control.claim()
    control.publish(changed(CUT, 3, "t.a050"))
    cuts = Control(control.path).cuts()
    assert [cut.tables["t.a050"].version for cut in cuts] == [1, 1, 3]
    assert [row["sequence"] for row in control.rows("cut")] == [1, 2, 3]


def test_cuts_that_one_commit_writes_follow_each_other(control: Control) -> None:
    control.publish(CUT, later=True)
    control.publish(cut := changed(CUT, 2, "t.a050"), later=True)
    control.publish(changed(cut, 3, "t.a051"))
    assert stored(control)[100:] == [(2, "t.a050", "t/a050"), (3, "t.a051", "t/a051")]
    assert Control(control.path).cuts() == control.cuts()


def test_a_held_back_cut_is_compared_after_pruning(control: Control) -> None:
    control.publish(CUT)
    control.publish(changed(CUT, 2, "t.a050"), later=True)
    prune(control)
    control.write_pending()
    assert [cut.tables["t.a050"].version for cut in Control(control.path).cuts()] == [1, 2]


def test_a_cut_is_compared_with_one_whose_answer_was_lost(tmp_path: Path) -> None:
    """The applier gave it up, and writes another one."""
    lost = [False]

    def lose(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        landed = log.commit(rows, commit)
        if lost[0]:
            raise OSError(errno.EIO, "Input/output error")
        return landed

    class Blind(Control):
        def _open(self) -> ControlLog:
            if lost[0]:
                raise OSError("Input/output error")
            return super()._open()

    control = Blind(Layout(str(tmp_path / "lake")).control, write_rows=lose)
    control.claim()
    control.publish(CUT)
    lost[0] = True
    with pytest.raises(OSError, match="Input/output"):
        control.publish(changed(CUT, 2, "t.a050"))
    lost[0] = False
    control.publish(changed(CUT, 3, "t.a051"))
    assert stored(control)[100:] == [
        (2, "t.a050", "t/a050"), (3, "t.a050", "t/a050"), (3, "t.a051", "t/a051")
    ]  # fmt: skip
    assert [cut.tables["t.a050"].version for cut in Control(control.path).cuts()] == [1, 2, 1]


def test_pruning_keeps_one_row_a_table_for_one_cut(control: Control) -> None:
    control.publish(cut := CUT)
    for number in range(2, 9):
        control.publish(cut := changed(cut, number, "t.a050"))
    prune(control)
    assert len(stored(control)) == 100
    assert Control(control.path).cuts()[0].tables == cut.tables
    assert paths_at_cuts(control) == {table.path for table in TABLES.values()}


def test_a_pinned_cut_keeps_its_tables(control: Control) -> None:
    control.publish(CUT)
    control.publish(cut := changed(CUT, 2, "t.a050"))
    pin(Control(control.path), control.cuts()[0], "kept")
    moved = {**cut.tables, "t.a050": TableVersion("t/a050@2", 1, "n", 3)}
    control.publish(replace(cut, position=3, tables=moved))
    prune(control)
    assert len(stored(control)) == 101
    assert [cut.tables["t.a050"].path for cut in control.cuts()] == ["t/a050", "t/a050@2"]


def test_the_tables_at_the_highest_number_stay_without_their_cut(control: Control) -> None:
    """Positions went back: the newest cut is an earlier one."""
    control.publish(replace(CUT, position=9))
    control.publish(changed(CUT, 2, "t.a050"))
    prune(control)
    assert [cut.position for cut in control.cuts()] == [9]
    assert stored(control)[100:] == [(2, "t.a050", "t/a050")]
    assert ("t/a050", 2) not in control.snapshot().shown_versions
    control.publish(changed(CUT, 10, "t.a051"))
    assert [cut.tables["t.a050"].version for cut in Control(control.path).cuts()] == [1, 1]


def rows(*of: tuple[int, str, str | None]) -> pa.Table:
    return rows_table(
        [{"kind": CUT_TABLE, "sequence": s, "table_name": n, "path": p} for s, n, p in of]
    )


@pytest.mark.parametrize(
    ("kept", "needed"),
    [([1, 2, 3, 4], [1, 2, 3, 4]), ([1], [1, 4]), ([2], []), ([3], [3, 4]), ([4], []),
     ([2, 4], []), ([1, 4], [1, 4]), ([], []), ([1, 2], [1, 2])],
)  # fmt: skip
def test_rows_of_a_table_that_is_dropped_twice(kept: list[int], needed: list[int]) -> None:
    """A row without a path is needed only after one with a path."""
    found = needed_rows(rows((1, "a", "x"), (2, "a", None), (3, "a", "y"), (4, "a", None)), kept)
    assert found.column("sequence").to_pylist() == needed


def test_rows_in_any_order() -> None:
    of = [(1, "b", "x"), (1, "a", "y"), (2, "b", "x2"), (5, "a", "y2")]
    for table in (rows(*of), rows(*reversed(of))):
        assert needed_rows(table, [3]).num_rows == 3 and needed_rows(table, [1, 3]).num_rows == 4
        assert set(needed_rows(table, [5])["path"].to_pylist()) == {"x2", "y2"}
        found = CutTables.of(table)
        assert {name: t.path for name, t in found.at(4).items()} == {"a": "y", "b": "x2"}
        assert found.shown([4])["path"].to_pylist() == ["y", "x2"]
        assert found.cuts_with("x2", [1, 3, 5]) == {3, 5}
        assert found.highest == 5


def test_there_may_be_no_row() -> None:
    assert needed_rows(rows(), [1]).num_rows == 0
    assert (CutTables().at(3), CutTables().highest) == ({}, 0)
    assert CutTables().shown([1]).num_rows == 0


def test_no_row_of_a_table_is_a_row_of_a_cut(control: Control) -> None:
    control.publish(CUT)
    table = control._rows_of(control._open())
    of_tables = table.filter(pc.field("kind") == CUT_TABLE)
    assert of_tables.num_rows == 100 and of_tables.column("detail").null_count == 100
    assert control.cut_count() == 1 and len(control.rows("cut")) == 1

"""Which tables cuts show is asked each time that cuts are pruned: few of them are read for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.replaced_tables import CutPaths
from spark_repl.control.records.retention import Retention
from spark_repl.control.table import control as module
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout

A, B, C = "t/a", "t/b@2", "t/c"


@pytest.fixture
def control(tmp_path: Path) -> Control:
    owned = Control(Layout(str(tmp_path / "lake")).control)
    owned.claim()
    return owned


def publish(control: Control, position: int, *paths: str) -> None:
    tables = {f"t.{path[2]}": TableVersion(path, 1, "", position) for path in paths}
    control.publish(Cut(position, "", "log", {}, tables))


def publish_unreadable(control: Control, *positions: int) -> None:
    for position in positions:
        control.write("cut", position=position, detail="{no JSON}")


def test_the_newest_cut_that_shows_a_table_is_the_last_one_read(control: Control) -> None:
    publish_unreadable(control, 1, 2)
    publish(control, 3, A)
    publish(control, 4, B)
    assert CutPaths(control).among({A, B}) == {A, B}
    assert CutPaths(Control(control.path)).among({A}) == {A}
    with pytest.raises(ValueError, match="property name"):
        CutPaths(control).among({A, C})


def test_a_cut_that_is_kept_is_not_read_again(control: Control) -> None:
    publish(control, 1, A, B)
    shown = CutPaths(control)
    assert shown.among({A, B, C}) == {A, B}
    publish_unreadable(control, 2, 3)
    assert shown.among({A, B}) == {A, B}


def test_what_only_cuts_showed_that_are_forgotten_is_not_shown(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PRUNE_EVERY", 0)
    shown = CutPaths(control)
    publish(control, 1, A, C)
    publish(control, 2, B, C)
    assert shown.among({A, B, C}) == {A, B, C}
    layout = Layout(str(Path(control.path).parents[1]))
    assert control.prune(PruneBy(Retention(0, 0, 0)), DurabilityBarrier(control, layout))
    publish(control, 3, B)
    assert shown.among({A, B, C}) == {B, C}


def test_there_may_be_no_cut(control: Control) -> None:
    assert CutPaths(control).among({A}) == set()
    assert CutPaths(control).among(set()) == set()

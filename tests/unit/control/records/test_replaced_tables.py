"""Which folders cuts show: of tables, and of Delta tables that shards are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.replaced_tables import paths_at_cuts
from spark_repl.control.records.retention import Retention
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
    tables = {f"t.{path[2:]}": TableVersion(path, 1, "", position) for path in paths}
    control.publish(Cut(position, "", "log", {}, tables))


def test_a_folder_is_shown_until_its_last_cut_is_pruned(control: Control) -> None:
    reader = Control(control.path)
    publish(control, 1, A, C)
    publish(control, 2, B, C)
    assert paths_at_cuts(control) == paths_at_cuts(reader) == {A, B, C}
    layout = Layout(str(Path(control.path).parents[1]))
    barrier = DurabilityBarrier(control, layout)
    assert control.prune(PruneBy(Retention(0, 0, 0)), barrier, due=True)
    publish(control, 3, B)
    assert paths_at_cuts(control) == paths_at_cuts(reader) == {B, C}


def test_paths_of_a_cut_include_the_shards_delta_table(control: Control) -> None:
    publish(control, 1, "t/all//1")
    assert paths_at_cuts(control) == {"t/all//1", "t/all"}


def test_without_a_cut_there_are_no_paths(control: Control) -> None:
    assert paths_at_cuts(control) == set()

"""Tracking: tables that threads create at the same time are all tracked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, KeysView
from contextlib import suppress
from pathlib import Path

from spark_repl import Config
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.runtime.threads import Pool
from spark_repl.sql.classify import classify
from spark_repl.write.tables.table import Table
from spark_repl.write.tables.target_options import TargetOptions
from spark_repl.write.tables.tracking import Tracking
from tests.support.local_delta import LocalDelta

_LANES = 4


class SlowlyCopied(dict[str, Table]):
    """Tables whose copy takes until the other lanes copy them too, or for a while."""

    def __init__(self) -> None:
        super().__init__()
        self._copied = threading.Barrier(_LANES)

    def keys(self) -> KeysView[str]:
        with suppress(threading.BrokenBarrierError):
            self._copied.wait(0.2)
        return super().keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


def test_tables_created_in_parallel_are_all_tracked(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "lake"))
    control = Control(layout.control)
    control.claim()
    options = TargetOptions.of(Config.from_mapping({"target": {"path": layout.target}}))
    tracking = Tracking(layout, control, LocalDelta(), options)
    tracking.load(None)
    tracking.tables = SlowlyCopied()
    stamp = tracking.stamp(Cut(1, "", "log", {}, {}))
    names = [f"t.n{number}" for number in range(_LANES)]

    def make(name: str) -> str:
        definition = classify(f"CREATE TABLE {name} (id INT PRIMARY KEY)", "t").definition
        assert definition is not None
        return tracking.create(definition, stamp).path

    with Pool(_LANES) as lanes:
        assert sorted(lanes.map(make, names)) == [name.replace(".", "/") for name in names]
    assert sorted(tracking.tables) == names

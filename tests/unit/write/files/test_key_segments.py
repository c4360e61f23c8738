"""Key segments on a disk that may lose power."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_repl.write.files import key_segments
from spark_repl.write.files.key_index import KeyIndex
from spark_repl.write.files.key_segments import FoldTask, fold_segments
from tests.support.disk_steps import disk_steps


def test_a_segment_is_synced_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segments that it replaces are removed after that."""
    monkeypatch.setattr(key_segments, "ENOUGH", 2)
    index, live = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["id"]), list[str]()
    for number in range(9):
        live.append(f"{number}.parquet")
        index.add(live[-1], np.array([number], np.int64))
        if number == 4:
            fold_segments(FoldTask(index, pa.array(live, pa.string())))
    (before,) = Path(index.folder).glob("*.segment.arrow")
    steps = disk_steps(monkeypatch)
    fold_segments(FoldTask(index, pa.array(live, pa.string())))
    (segment,) = Path(index.folder).glob("*.segment.arrow")
    assert [step.what for step in steps] == ["sync", "rename", "remove"]
    assert steps[0][1:] == (f"{segment.name}.part", segment.stat().st_size)
    assert (steps[1].name, steps[2].name) == (segment.name, before.name)

"""Key segments: on a disk that may lose power, and on the own disk of a process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.write.files import key_segments
from spark_repl.write.files.key_index import KeyIndex
from spark_repl.write.files.key_segments import FoldTask, candidates, fold_segments, prepare_own
from tests.support.disk_steps import disk_steps

FILES = pa.array([f"part-{number}.parquet" for number in range(5)])


@pytest.fixture
def index(tmp_path: Path) -> KeyIndex:
    table = tmp_path / "table"
    table.mkdir()
    for number, name in enumerate(FILES.to_pylist()):
        rows = pa.table({"n": pa.array(range(number * 10, number * 10 + 10), pa.int64())})
        pq.write_table(rows, table / name)
    return KeyIndex(str(tmp_path / "keys"), str(table), ["n"], [pa.int64()])


def found(index: KeyIndex) -> list[tuple[int, int]]:
    needed = np.array([3, 25, 41, 99], np.int64)
    pairs = candidates(index, FILES, needed)
    return sorted((number, int(row)) for number, _, rows in pairs for row in rows)


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


def test_missing_indexes_are_built(index: KeyIndex) -> None:
    index.build("part-1.parquet")
    prepare_own(index, FILES)
    assert index.missing(FILES.to_pylist()) == []
    assert found(index) == [(0, 3), (2, 5), (4, 1)]


def test_many_indexes_are_folded(index: KeyIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_segments, "ENOUGH", 2)
    prepare_own(index, FILES)
    segments = [name for name in Path(index.folder).iterdir() if name.name.endswith(".arrow")]
    assert len(segments) == 1 and found(index) == [(0, 3), (2, 5), (4, 1)]

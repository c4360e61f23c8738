"""Key segments: on a disk that may lose power, and on the own disk of a process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.runtime.executor_disk import ExecutorDisk
from spark_repl.write.files import key_index, key_segments
from spark_repl.write.files.key_index import KeyIndex
from spark_repl.write.files.key_segments import FoldTask, candidates, fold_segments, prepare_own
from tests.support.child import in_child
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


class CountedIndex(KeyIndex):
    """``read``: the data files whose keys were read since."""

    def __init__(self, index: KeyIndex) -> None:
        super().__init__(index._folder, index.table_folder, ["n"], [pa.int64()])
        self.read = list[str]()

    def read_keys(self, data_file: str) -> list[pa.ChunkedArray]:
        self.read.append(data_file)
        return super().read_keys(data_file)


_INDEX_BYTES = 128 + 10 * 16


def look_up_twice(index: KeyIndex, folder: Path, most: int) -> list[tuple[int, int, int]]:
    """Look keys up in two tasks on an executor's own disk of ``most`` bytes. Return for each the
    number of data files that it read, of files on the disk, and of bytes in them."""

    def tasks() -> list[tuple[int, int, int]]:
        os.environ["SPARK_LOCAL_DIRS"] = str(folder)
        counted, results = CountedIndex(index), []
        for _ in range(2):
            counted.read.clear()
            with ExecutorDisk(most).entered():
                prepare_own(counted, FILES)
                assert found(counted) == [(0, 3), (2, 5), (4, 1)]
            files = [path for path in folder.rglob("*") if path.is_file()]
            results.append(
                (len(counted.read), len(files), sum(path.stat().st_size for path in files))
            )
        return results

    return in_child(tasks)


@pytest.mark.parametrize("enough", [2, 64])
@pytest.mark.parametrize("fitting", [0, 1, 2, 5])
def test_what_an_executor_has_no_room_for_is_built_and_dropped(
    index: KeyIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enough: int, fitting: int
) -> None:
    """What its disk holds stays there: the second task reads only the other files."""
    monkeypatch.setattr(key_segments, "ENOUGH", enough)
    monkeypatch.setattr(key_segments, "BUILDS_AT_ONCE", 1)
    monkeypatch.setattr(key_index, "BUILDS_AT_ONCE", 1)
    most = fitting * _INDEX_BYTES + 100
    (first, _, _), (second, count, size) = look_up_twice(index, tmp_path / "own", most)
    missing = 5 - fitting
    read = missing + (missing > 0)  # twice the first that does not fit
    assert (first, second) == (read + fitting, read)
    assert size <= most or count == 1, "a segment has names also"
    assert count == (1 if enough == 2 and fitting == 5 else fitting)


def test_indexes_that_a_segment_covers_are_not_built_again(
    index: KeyIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an executor's own disk the segment replaces them."""
    monkeypatch.setattr(key_segments, "ENOUGH", 2)
    first, second = look_up_twice(index, tmp_path / "own", 1 << 20)
    assert first[:2] == (5, 1) and second[:2] == (0, 1)
    assert next((tmp_path / "own").rglob("*.arrow"))

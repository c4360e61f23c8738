"""Key segments: what the indexes of all live files say, with few files opened, whatever came, went
and broke between."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_repl.write.files import key_segments
from spark_repl.write.files.key_index import Hashes, KeyIndex
from spark_repl.write.files.key_segments import (
    FoldTask,
    candidates,
    fold_is_due,
    fold_segments,
    forget_gone_segments,
)

KEYS = st.lists(st.integers(-6, 6), max_size=9)
STEPS = st.lists(
    st.tuples(st.lists(KEYS, max_size=6), st.sets(st.integers(0, 20)), st.integers(0, 9)),
    max_size=8,
)


def _found(index: KeyIndex, live: list[str], needed: Hashes) -> set[tuple[str, int, int]]:
    found = [
        (live[number], int(a), int(r))
        for number, at, rows in candidates(index, pa.array(live, pa.string()), needed)
        for a, r in zip(at, rows, strict=True)
    ]
    assert len(found) == len(set(found)), "a file is asked once"
    return set(found)


@settings(max_examples=150, deadline=None)
@given(STEPS, KEYS)
@example([([[], []], set(), 0), ([[], [], [], [], []], set(), 0)], [])  # rows were counted too high
def test_segments_find_what_the_files_indexes_find(steps, wanted):
    needed = np.sort(np.array(wanted, np.int64))
    stored: dict[str, list[int]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.multiple(key_segments, ENOUGH=3, _FULL_ROWS=20),
    ):
        index = KeyIndex(str(Path(folder) / "keys"), folder, ["id"])
        for number, (new, gone, broken) in enumerate(steps):
            for at, keys in enumerate(new):
                stored[f"{number}-{at}"] = keys
                index.add(f"{number}-{at}", np.array(keys, np.int64))
            for name in [name for at, name in enumerate(stored) if at in gone]:
                del stored[name]
            live = list(stored)
            fold_segments(FoldTask(index, pa.array(live, pa.string())))
            assert (
                not fold_is_due(index, pa.array(live, pa.string()))
                or sum(map(len, stored.values())) > 20
            )
            segments = sorted(Path(index.folder).glob("*.segment.arrow"))
            if broken == 0 and segments:  # by a dead machine
                segments[0].write_bytes(segments[0].read_bytes()[:-9])
            want = {
                (name, i, row)
                for name, keys in stored.items()
                for i, key in enumerate(needed)
                for row, k in enumerate(keys)
                if k == key
            }
            assert _found(index, live, needed) == want


def test_files_that_a_look_up_opens_are_bounded(tmp_path):
    index = KeyIndex(str(tmp_path / "keys"), str(tmp_path), ["id"])
    names: list[str] = []
    for number in range(300):
        names.append(f"f{number}")
        index.add(names[-1], np.array([number, number + 1000], np.int64))
        if fold_is_due(index, pa.array(names, pa.string())):
            fold_segments(FoldTask(index, pa.array(names, pa.string())))
    loads: list[str] = []
    true = index.load
    index.load = lambda path: loads.append(path) or true(path)  # type: ignore[method-assign, func-returns-value]
    found = _found(index, names, np.array([7, 1299], np.int64))
    assert found == {("f7", 0, 0), ("f299", 1, 1)}
    segments = list((tmp_path / "keys").glob("*.segment.arrow"))
    assert len(loads) + len(segments) <= key_segments.ENOUGH
    forget_gone_segments(index.folder, str(tmp_path))  # no data file is there
    assert not list((tmp_path / "keys").glob("*.segment.arrow"))
    shutil.rmtree(tmp_path / "keys")

"""Part files: what killed writers have left goes, and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spark_repl.runtime.part_files import remove_dead_parts

PARTS = ["relay.index.12.part", "status.json.7.new", ".3.ab-cd.tmp", "..3.ab-cd.tmp.crc"]
OTHERS = ["relay.index", "0", ".0.crc", "a.part.npy", "part-1.parquet"]


@pytest.mark.parametrize(("minutes", "gone"), [(61, PARTS), (59, [])])
def test_part_files_of_killed_writers_are_removed(
    tmp_path: Path, minutes: int, gone: list[str]
) -> None:
    then = time.time() - 60 * minutes
    for name in [*PARTS, *OTHERS]:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (then, then))
    remove_dead_parts(tmp_path, tmp_path / "missing", tmp_path / "0")
    assert {path.name for path in tmp_path.iterdir()} == {*PARTS, *OTHERS}.difference(gone)

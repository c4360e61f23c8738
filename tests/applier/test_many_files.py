"""A table of 10,000 files is opened, and its files are listed, in as much work as one of ten: no
data file is looked at, and no more of the log."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from tests.support.binlog_writer import LogWriter
from tests.support.local_delta import LocalDelta, applier, put, run

_ASKED = ("open", "os.listdir", "os.scandir")


class Looks:
    """What Python has opened and listed below a folder, while it is asked for: an audit hook stays
    as long as the process."""

    def __init__(self) -> None:
        self._below, self._seen = "", Counter[str]()
        sys.addaudithook(self._note)

    def _note(self, event: str, args: tuple[object, ...]) -> None:
        if self._below and event in _ASKED and str(args[0]).startswith(self._below):
            self._seen[f"{event} {os.path.relpath(str(args[0]), self._below)}"] += 1

    @contextmanager
    def below(self, folder: Path) -> Iterator[Counter[str]]:
        self._seen, self._below = Counter(), str(folder)
        try:
            yield self._seen
        finally:
            self._below = ""


LOOKS = Looks()


def with_files(target: Path, count: int, *, checkpoint: bool) -> None:
    """Make the log of t.a name ``count`` files, as after another writer's OPTIMIZE. None of them
    exists, so a test fails if one is opened."""
    folder = str(target / "t" / "a")
    add = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": False,
           "stats": '{"numRecords": 1}'}  # fmt: skip
    adds = [{"add": {**add, "path": f"part-{number:05d}.parquet"}} for number in range(count)]
    put(folder, LocalDelta().version(folder) + 1, adds)
    if checkpoint:
        DeltaTable(folder).create_checkpoint()


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_start_costs_as_much_with_many_files_as_with_few(
    log: LogWriter, tmp_path: Path, checkpoint: bool
) -> None:
    seen = []
    for count in (10, 10_000):
        target = tmp_path / str(count)
        assert run(log.folder, target)
        with_files(target, count, checkpoint=checkpoint)
        with LOOKS.below(target / "t" / "a") as looks, applier(log.folder, target) as found:
            table = found.tracking.tables["t.a"]
            with table.lock:
                assert len(found.tracking.commits.live(table).adds) == count
        seen.append(dict(looks))
        assert Control(Layout(str(target)).control).last_cut() is not None
    assert seen[0] == seen[1] and 0 < sum(seen[0].values()) < 20, seen[0]

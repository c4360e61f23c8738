"""Who has read the control table reads what was appended since, and no more; all of it again where
something else was done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_repl import formats
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention
from spark_repl.control.table import control_rows, row_formats
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_rows import rows_since
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.errors import FormatError

CUT = Cut(7, "u:1-3", "log", {}, {})


class Reader(Control):
    """``read``: how often all rows were read."""

    read = 0

    def _rows_of(self, table: DeltaTable) -> Any:
        self.read += 1
        return super()._rows_of(table)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "lake"))


@pytest.fixture
def control(layout: Layout) -> Control:
    owned = Control(layout.control)
    owned.claim()
    owned.publish(CUT)
    return owned


@pytest.fixture
def reader(control: Control) -> Reader:
    made = Reader(control.path)
    assert len(made.cuts()) == made.read == 1
    return made


def same(reader: Control) -> bool:
    """Return whether it reads the same rows as a reader that has read nothing before."""
    fresh = Control(reader.path)
    kinds = ("cut", "owner", "skip", "test")
    return (
        [reader.rows(kind) for kind in kinds] == [fresh.rows(kind) for kind in kinds]
        and reader.last_cut() == fresh.last_cut()
        and reader.snapshot().version == fresh.snapshot().version
    )


def test_a_reader_reads_only_appended_rows(control: Control, reader: Reader) -> None:
    """By the owner, several rows in one commit, and by others beside it."""
    control.publish(replace(CUT, position=9), later=True)
    control.publish(replace(CUT, position=8))
    Control(control.path).write_beside("test", lambda: True)
    control.write("skip", gtid_executed="u:9")
    assert same(reader) and reader.read == 1
    assert [cut.position for cut in reader.cuts()] == [7, 8, 9]
    control.write("test")
    assert same(reader) and reader.read == 1


def test_what_was_pruned_is_read_anew(control: Control, reader: Reader, layout: Layout) -> None:
    control.publish(replace(CUT, position=8))
    assert control.prune(PruneBy(Retention(0, 0, 0)), DurabilityBarrier(control, layout), due=True)
    control.publish(replace(CUT, position=9))
    assert same(reader) and reader.read == 2
    assert [cut.position for cut in reader.cuts()] == [8, 9]


def test_who_prunes_goes_on_behind_what_that_commits(control: Control, layout: Layout) -> None:
    """To remove old files is noted in the log by delta-rs."""
    reader = Reader(control.path)
    control.release()
    reader.claim()
    for position in range(3):
        reader.publish(replace(CUT, position=position))
        assert reader.prune(
            PruneBy(Retention(0, 0, 0)), DurabilityBarrier(reader, layout), due=True
        )
    reader.read = 0
    reader.publish(replace(CUT, position=9))
    assert same(reader) and not reader.read


def test_more_commits_than_it_is_worth(
    control: Control, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_rows, "_MOST", 2)
    for read, count in ((1, 2), (2, 3)):
        for _ in range(count):
            control.write("test")
        assert same(reader) and reader.read == read


def test_commits_that_are_gone(control: Control, reader: Reader) -> None:
    """Behind a checkpoint, that has what they say; in whichever order they go."""
    for _ in range(3):
        control.write("test")
    table = DeltaTable(control.path)
    table.create_checkpoint()
    log = Path(control.path) / "_delta_log"
    (log / f"{table.version() - 1:020d}.json").unlink()
    assert rows_since(control.path, table.version() - 3) is None
    assert same(reader) and reader.read == 2


@pytest.mark.parametrize("left", [b"", b'{"add": {"pa'])
def test_a_commit_that_is_not_whole(control: Control, reader: Reader, left: bytes) -> None:
    version = reader.snapshot().version
    control.write("test")
    (Path(control.path) / "_delta_log" / f"{version + 1:020d}.json").write_bytes(left)
    assert rows_since(control.path, version) is None


def test_a_file_that_is_gone(control: Control, reader: Reader) -> None:
    """Who reads so slowly that what he reads is pruned and removed meanwhile."""
    version, there = reader.snapshot().version, set(Path(control.path).glob("*.parquet"))
    control.write("test")
    (written,) = set(Path(control.path).glob("*.parquet")) - there
    written.unlink()
    assert rows_since(control.path, version) is None


def test_a_row_of_a_later_version_is_refused(
    control: Control, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "__version__", "9.8.7")
    monkeypatch.setattr(row_formats, "FIRST", 99)
    control.write("test")
    with pytest.raises(FormatError, match=r"written by spark_repl 9\.8\.7 in format 99") as caught:
        reader.snapshot()
    assert caught.value.file == control.path and reader.read == 1

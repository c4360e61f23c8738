"""Former owners are fenced, and lost answers found, whatever fails in the look behind a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.delta.log.log_replay import commit_path
from spark_repl.errors import FencedError

CUT = Cut(7, "u:1-3", "log", {}, {})
BROKEN = "Generic LocalFileSystem error: Unable to rename file: Input/output error (os error 5)"


class Sleeper(Control):
    """``unread``: in the look behind a commit that failed the newest commit can't be read."""

    unread = False

    def _open(self) -> DeltaTable:
        table = super()._open()
        if self.unread:
            self.commit = Path(commit_path(self.path, table.version()))
            self.commit.rename(f"{self.commit}.hidden")
            self.commit.mkdir()
        return table

    def publish_twice(self, cut: Cut) -> None:
        """As it is tried again when storage failed in that look."""
        self.unread = True
        with pytest.raises(IsADirectoryError):
            self.publish(cut)
        self.unread = False
        self.commit.rmdir()
        Path(f"{self.commit}.hidden").rename(self.commit)
        self.publish(cut)


def claimed(path: Path, append: Callable[..., object] = write_deltalake) -> Sleeper:
    made = Sleeper(str(path / "control"), append=append)
    made.claim()
    return made


def successor(control: Control) -> Control:
    made = Control(control.path)
    made.claim(take_over=True)
    return made


def positions(control: Control) -> list[int]:
    return [cut.position for cut in control.cuts()]


def test_a_lost_answer_that_could_not_be_looked_for_is_found(tmp_path: Path) -> None:
    lost = list[str]()

    def append(table: DeltaTable, *args: Any, **options: Any) -> None:
        if lost:
            write_deltalake(DeltaTable(table.table_uri), *args, **options)
            raise DeltaError(lost.pop())
        write_deltalake(table, *args, **options)

    control = claimed(tmp_path, append)
    lost.append(BROKEN)
    control.publish_twice(CUT)
    assert positions(control) == [7]


def test_a_former_owner_is_fenced_though_a_look_failed(tmp_path: Path) -> None:
    control = claimed(tmp_path)
    second = successor(control)
    with pytest.raises(FencedError, match="taken this target over"):
        control.publish_twice(CUT)
    second.publish(CUT)
    assert positions(second) == [7]


def test_a_former_owner_is_fenced_where_its_successor_has_removed_commits(tmp_path: Path) -> None:
    """It slept behind a pruning: neither then nor at its end does it write anything."""
    control = claimed(tmp_path)
    second = successor(control)
    second.publish(CUT)
    newest = DeltaTable(control.path)
    newest.create_checkpoint()
    for number in range(newest.version()):
        Path(commit_path(control.path, number)).unlink()
    with pytest.raises(FencedError, match="taken this target over"):
        control.publish(replace(CUT, position=6))
    control.release()
    second.publish(replace(CUT, position=8))
    assert positions(second) == [7, 8]

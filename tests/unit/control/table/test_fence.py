"""Former owners are fenced, and lost answers found, whatever fails in the look behind a commit."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, RowsCommit, WriteRows
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.owner import Owner
from spark_repl.delta.log.log_replay import commit_path
from spark_repl.errors import FencedError

CUT = Cut(7, "u:1-3", "log", {}, {})
BROKEN = OSError(errno.EIO, "Input/output error")


class Sleeper(Control):
    """``unread``: in the look behind a commit that failed the newest commit can't be read."""

    unread = False

    def _open(self) -> ControlLog:
        log = super()._open()
        if self.unread:
            self.commit = Path(commit_path(self.path, log.version))
            self.commit.rename(f"{self.commit}.hidden")
            self.commit.mkdir()
        return log

    def publish_twice(self, cut: Cut) -> None:
        """As it is tried again when storage failed in that look."""
        self.unread = True
        with pytest.raises(IsADirectoryError):
            self.publish(cut)
        self.unread = False
        self.commit.rmdir()
        Path(f"{self.commit}.hidden").rename(self.commit)
        self.publish(cut)


def claimed(path: Path, write_rows: WriteRows = ControlLog.commit) -> Sleeper:
    made = Sleeper(str(path / "control"), write_rows=write_rows)
    made.claim()
    return made


def successor(control: Control) -> Control:
    made = Control(control.path)
    made.claim(take_over=True)
    return made


def positions(control: Control) -> list[int]:
    return [cut.position for cut in control.cuts()]


def test_a_lost_answer_that_could_not_be_looked_for_is_found(tmp_path: Path) -> None:
    lost = list[OSError]()

    def write_rows(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        if lost:
            newest = ControlLog.newest(log.folder)
            assert newest is not None
            newest.commit(rows, commit)
            raise lost.pop()
        return log.commit(rows, commit)

    control = claimed(tmp_path, write_rows)
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
    without_commits_before(second)
    with pytest.raises(FencedError, match="taken this target over"):
        control.publish(replace(CUT, position=6))
    control.release()
    second.publish(replace(CUT, position=8))
    assert positions(second) == [7, 8]


def without_commits_before(control: Control) -> None:
    """Remove what a clean-up of the log removes an hour later."""
    newest = control._open()
    newest.write_checkpoint()
    for number in range(newest.version):
        Path(commit_path(control.path, number)).unlink()


def test_a_reader_does_not_read_what_a_sleeper_writes_in_a_removed_place(tmp_path: Path) -> None:
    """The sleeper's commit stands before a commit of the successor whose claim was removed."""
    control = claimed(tmp_path)
    reader = Control(control.path)
    assert reader.cuts() == []
    second = successor(control)
    second.publish(CUT)
    without_commits_before(second)
    with pytest.raises(FencedError):
        control.publish(replace(CUT, position=6))
    assert positions(reader) == positions(second) == [7]


def test_a_row_beside_is_written_again_where_its_place_was_removed(tmp_path: Path) -> None:
    """Its writer slept after it had read the log, and meets one that was cleaned up since."""
    control = claimed(tmp_path)
    asleep = [True]

    def write_rows(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        if asleep:
            asleep.pop()
            for position in (7, 8):
                control.publish(replace(CUT, position=position))
            without_commits_before(control)
        return log.commit(rows, commit)

    beside = Control(control.path, write_rows=write_rows)
    beside.write_beside("test", lambda: True)
    assert len(Control(control.path).rows("test")) == 1
    assert positions(Control(control.path)) == [7, 8]


@pytest.mark.parametrize("hint", ["", '{"version": 1, "size": 1}'])
def test_a_sleeper_is_fenced_whatever_the_last_checkpoint_says(tmp_path: Path, hint: str) -> None:
    """It slept inside its own checkpoint, and has put an older hint over its successor's."""
    control = claimed(tmp_path)
    second = successor(control)
    second.publish(CUT)
    without_commits_before(second)
    last = Path(control.path) / "_delta_log/_last_checkpoint"
    last.write_text(hint) if hint else last.unlink()
    with pytest.raises(FencedError, match="taken this target over"):
        control.publish(replace(CUT, position=6))
    with pytest.raises(FencedError):
        control.check_owner()
    second.publish(replace(CUT, position=8))
    assert positions(second) == [7, 8]


class Rival(Control):
    """Takes the owner for a dead one when it looks first."""

    looked = False

    def _newest_owner(self) -> tuple[int, Owner] | None:
        newest = super()._newest_owner()
        assert newest is not None
        epoch, owner = newest
        owner, self.looked = replace(owner, released=not self.looked), True
        return epoch, owner


def test_a_claim_that_gives_up_leaves_the_owner_alone(tmp_path: Path) -> None:
    """The owner seemed dead, but has committed during the claim, and has renewed its lease."""
    owner = claimed(tmp_path)

    def write_rows(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        owner.publish(CUT)
        return log.commit(rows, commit)

    rival = Rival(owner.path, write_rows=write_rows)
    with pytest.raises(FencedError, match="another applier owns this target"):
        rival.claim()
    rival.release()
    owner.publish(replace(CUT, position=8))
    assert positions(owner) == [7, 8]


def test_a_takeover_succeeds_as_the_former_owner_gives_the_target_back(tmp_path: Path) -> None:
    owner = claimed(tmp_path)
    releases = [owner.release]

    def write_rows(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        if releases:
            releases.pop()()
        return log.commit(rows, commit)

    rival = Control(owner.path, write_rows=write_rows)
    assert rival.claim(take_over=True) == 2
    rival.publish(CUT)

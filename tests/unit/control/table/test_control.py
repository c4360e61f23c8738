"""The control table: second owners told from faults of storage, lost answers looked for."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention
from spark_repl.control.table import control as control_cleanup
from spark_repl.control.table import control as module
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, RowsCommit
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.fence import Fence
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.owner import Owner
from spark_repl.control.table.owner_lease import Renewals, watch_of
from spark_repl.errors import FencedError, TargetError

CUT = Cut(7, "u:1-3", "log", {}, {})
FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")


class Storage:
    """Commits rows, but fails once where it is told to; ``hears`` of each before."""

    def __init__(self) -> None:
        self.error: OSError | None = None
        self.lands = False
        self.hears: Callable[[], object] = bool

    def __call__(self, log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        self.hears()
        error, self.error = self.error, None
        if error and self.lands:
            newest = ControlLog.newest(log.folder)
            assert newest is not None
            newest.commit(rows, commit)
        if error:
            raise error
        return log.commit(rows, commit)


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
def faulty(storage: Storage) -> Callable[..., None]:
    """``faulty(error, lands)``: the next commit fails with ``error``, and is there if it lands."""

    def install(error: OSError, *, lands: bool) -> None:
        storage.error, storage.lands = error, lands

    return install


class Noting(Control):
    """``fails``: the next looks at the table; ``opened``, ``read``: how often that was done."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fails, self.opened, self.read = 0, 0, 0

    def _open(self) -> ControlLog:
        self.opened += 1
        if self.fails:
            self.fails -= 1
            raise OSError(errno.EIO, "Input/output error")
        return super()._open()

    def _rows_of(self, log: ControlLog) -> Any:
        self.read += 1
        return super()._rows_of(log)


@pytest.fixture
def control(tmp_path: Path, storage: Storage) -> Noting:
    """This process owns it."""
    made = Noting(str(tmp_path / "control"), write_rows=storage)
    made.claim()
    return made


def barrier_of(control: Control) -> DurabilityBarrier:
    return DurabilityBarrier(control, Layout(os.path.dirname(os.path.dirname(control.path))))


def positions(control: Control) -> list[int]:
    return [cut.position for cut in control.cuts()]


def test_a_second_owner_fences_and_is_named(control):
    # The form "woken": the first slept while a second one took over.
    second = Control(control.path)
    second.claim(take_over=True)
    with pytest.raises(FencedError, match=f"taken this target over: pid {os.getpid()} on host"):
        control.publish(CUT)
    with pytest.raises(FencedError, match="does not own"):
        control.publish(CUT)
    second.publish(CUT)
    assert positions(second) == [7]


def test_a_takeover_meets_commits_of_the_owner(control):
    """It claims again, until it comes first."""
    left = [1, 2, 3]

    def busy() -> None:
        if left:
            control.write("test", position=left.pop())

    storage = Storage()
    storage.hears = busy
    second = Control(control.path, write_rows=storage)
    assert second.claim(take_over=True) == 2 and second.took_over
    assert len(second.rows("test")) == 3
    with pytest.raises(FencedError, match="taken this target over"):
        control.publish(CUT)
    second.check_owner()


def test_a_claim_meets_a_commit_of_an_owner_that_runs_after_all(control):
    """Without a takeover it looks at the owner again."""
    owner = replace(Owner.me("", "its claim", lease_s=30), host="elsewhere")
    control.write("owner", detail=json.dumps(asdict(owner)))
    watch = watch_of(control.path, owner)
    watch.look()
    watch.unchanged_s = 30.0  # it has expired

    def busy() -> None:
        control.write("test")
        Renewals(control, control.epoch, owner).renew()

    storage = Storage()
    storage.hears = busy
    with pytest.raises(FencedError, match="another applier owns this target") as caught:
        Control(control.path, write_rows=storage).claim()
    assert "renews its lease" in caught.value.hint
    control.write("test")


def test_of_two_that_start_together_one_works(control):
    """Both have read that there is no owner; only one of their claims can land."""
    control.release()
    one, other = Control(control.path), Control(control.path)
    before = control._open()
    epoch = one.claim()
    other._seen = before
    other._fence = Fence(epoch, "other")
    with pytest.raises(FencedError, match=f"pid {os.getpid()}"):
        other.write("owner")
    one.publish(CUT)


def test_lost_answer_is_looked_for(control, faulty):
    faulty(BROKEN, lands=True)
    control.publish(CUT)
    control.publish(Cut(8, "u:1-4", "log", {}, {}))
    assert positions(control) == [7, 8]


def test_tried_again_it_is_written_once(control, faulty):
    """The look failed too: the next attempt meets the first one's commit."""
    faulty(BROKEN, lands=True)
    control.fails = 1
    with pytest.raises(OSError, match="Input/output"):
        control.publish(CUT)
    control.publish(CUT)
    assert positions(control) == [7]
    assert control.cuts()[0].at == Control(control.path).cuts()[0].at, "as it was written first"


def test_tried_again_after_another_look_it_is_written_once(control, faulty):
    """Found: another thread had read the commit that landed, so that the next attempt wrote the
    cut's tables as changes to themselves, and did not find its own mark."""
    first = Cut(7, "u:1-3", "log", {}, {"d.a": TableVersion("d/a", 1, "m", 7)})
    control.publish(first)
    cut = Cut(8, "u:1-4", "log", {}, {"d.a": TableVersion("d/a", 2, "m", 8)})
    faulty(BROKEN, lands=True)
    control.fails = 1
    with pytest.raises(OSError, match="Input/output"):
        control.publish(cut)
    control.snapshot()
    control.publish(cut)
    assert positions(control) == [7, 8]


@pytest.mark.parametrize("error", [FULL, BROKEN])
def test_faults_of_storage_bear_their_number(control, faulty, error):
    faulty(error, lands=False)
    with pytest.raises(OSError, match="Errno") as found:
        control.publish(CUT)
    assert found.value.errno == error.errno
    control.publish(CUT)
    assert positions(control) == [7]


def test_a_control_table_that_was_removed_is_named(control):
    shutil.rmtree(control.path)
    with pytest.raises(TargetError, match="the control table is gone"):
        control.publish(CUT)
        control.publish(CUT)


def test_maintenance_is_no_second_owner(control):
    control.publish(CUT)
    DeltaTable(control.path).optimize.compact()
    control.publish(Cut(8, "u:1-4", "log", {}, {}))
    assert positions(control) == [7, 8]


def test_several_threads_write_at_once(control):
    """Scenario 13: workers that record their positions at the same moment: every row is there."""
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: control.publish(Cut(n, f"u:1-{n}", "log", {}, {})), range(1, 25)))
    assert positions(control) == [*range(1, 25)]


def test_a_living_owner_is_not_overrun(control):
    claim = (
        f"from spark_repl.control.table.control import Control; Control({control.path!r}).claim()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", claim], capture_output=True, text=True, timeout=300, check=False
    )
    assert f"another applier owns this target: pid {os.getpid()}" in ran.stderr


def test_old_cuts_and_owners_are_forgotten(control, monkeypatch):
    monkeypatch.setattr(module, "_PRUNE_EVERY", 3)
    skipped = "11111111-2222-3333-4444-555555555555:9"
    control.write("skip", gtid_executed=skipped)
    for position in (1, 2, 3):
        control.publish(replace(CUT, position=position))
    control.prune(PruneBy(Retention(1, 1, 1)), barrier_of(control))
    assert positions(control) == [1, 2, 3], "all are promised"
    reader = DeltaTable(control.path)
    control.prune(PruneBy(Retention(0, 0, 0)), barrier_of(control))
    assert positions(control) == [1, 2, 3], "not that soon again"
    for position in (4, 5, 6):
        control.publish(replace(CUT, position=position))
    control.prune(PruneBy(Retention(0, 0, 0)), barrier_of(control))
    assert positions(control) == [6], "the last one is needed whatever its age"
    assert [row["gtid_executed"] for row in control.rows("skip")] == [skipped]
    assert len(DeltaTable(control.path).file_uris()) == 1
    assert reader.to_pyarrow_table().num_rows >= 5, "who reads just then is not disturbed"
    control.publish(replace(CUT, position=7))
    control.release()
    later = Control(control.path)
    assert later.claim() == control.epoch + 1
    assert positions(later) == [6, 7]


def test_a_commit_removes_nothing(control, monkeypatch):
    monkeypatch.setattr(control_cleanup, "_CHECKPOINT_EVERY", 1000)
    for position in range(101):
        control.publish(replace(CUT, position=position))
    log = os.listdir(os.path.join(control.path, "_delta_log"))
    assert not [name for name in log if "checkpoint" in name]


def test_nothing_is_pruned_that_could_be_needed_again(control, monkeypatch):
    monkeypatch.setattr(module, "_PRUNE_EVERY", 0)
    control.publish(CUT)
    gone: list[str] = []
    needless = Path(control.path) / "part-of-a-commit-that-failed.parquet"
    needless.touch()
    os.utime(needless, (0, 0))
    monkeypatch.setattr(control_cleanup, "remove_commits", lambda *_, **__: gone.append("commits"))
    barrier = barrier_of(control)
    monkeypatch.setattr(barrier.durable, "_failed", OSError(errno.EIO, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        control.prune(PruneBy(Retention(0, 0, 0)), barrier)
    assert gone == [] and needless.exists()
    assert control.prune(PruneBy(Retention(0, 0, 0)), barrier_of(control))
    assert gone == ["commits"] and not needless.exists()


def test_what_killed_writers_leave_goes_with_pruning(control, monkeypatch):
    """The probe for conditional writes, and a file that is renamed when it is whole."""
    monkeypatch.setattr(module, "_PRUNE_EVERY", 0)
    control.publish(CUT)
    names = [f".{uuid.uuid4()}", f".part.parquet.{uuid.uuid4()}.tmp", ".other", f".{uuid.uuid4()}"]
    for name in names:
        path = Path(control.path) / name
        path.touch()
        if name != names[-1]:
            os.utime(path, (0, 0))
    assert control.prune(PruneBy(Retention(0, 0, 0)), barrier_of(control))
    assert [(Path(control.path) / name).exists() for name in names] == [False, False, True, True]


def test_pruning_where_commits_are_few(control, monkeypatch):
    """All that a prune removes is old then: also the checkpoint from which the table was opened."""
    monkeypatch.setattr(module, "_PRUNE_EVERY", 3)
    monkeypatch.setattr(control_cleanup, "_CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(control_cleanup, "_OPENED_S", -10)
    pruned = 0
    for position in range(12):
        control.publish(replace(CUT, position=position))
        pruned += control.prune(PruneBy(Retention(1, 1, 1)), barrier_of(control))
    assert pruned > 3
    assert positions(control) == positions(Control(control.path)) == [*range(12)]
    log = os.listdir(os.path.join(control.path, "_delta_log"))
    assert len([name for name in log if "checkpoint.parquet" in name]) < 3


def test_a_former_owner_can_not_prune(control, monkeypatch):
    monkeypatch.setattr(module, "_PRUNE_EVERY", 0)
    control.publish(CUT)
    second = Control(control.path)
    second.claim(take_over=True)
    with pytest.raises(FencedError, match="taken this target over"):
        control.prune(PruneBy(Retention(0, 0, 0)), barrier_of(control))
    assert positions(second) == [7]


def test_own_rows_are_known_without_reading_them(control):
    control.publish(CUT)
    assert positions(control) == [7]
    control.read = 0
    control.publish(replace(CUT, position=8))
    control.publish(replace(CUT, position=9))
    assert positions(control) == [7, 8, 9]
    assert not control.read
    anew = Control(control.path)
    assert [anew.rows(kind) for kind in ("cut", "owner")] == [
        control.rows(kind) for kind in ("cut", "owner")
    ]


def test_rows_are_known_while_they_are_written_and_pruned(control, storage, monkeypatch):
    """Another thread asks for them meanwhile, thousands of times with thousands of tables."""
    monkeypatch.setattr(module, "_PRUNE_EVERY", 0)
    control.publish(CUT)
    seen = [positions(control)]
    storage.hears = lambda: seen.append(positions(control))
    control.read = 0
    control.publish(replace(CUT, position=8))
    assert not control.read
    assert control.prune(PruneBy(Retention(1, 1, 1)), barrier_of(control))
    seen.append(positions(control))
    assert control.read == 1, "what is pruned is read, and known behind it"
    assert seen == [[7], [7], [7, 8], [7, 8]]


def test_pruning_reads_no_file_that_this_process_has_appended(control):
    """It reads those of others: of the last pruning, and of processes beside the owner."""
    control.publish(CUT)
    control.write_beside("skip", lambda: True)
    for position in (8, 9):
        control.publish(replace(CUT, position=position))
        log = ControlLog.newest(control.path)
        assert log is not None
        Path(control.path, [*log.files][-1]).write_bytes(b"")
        assert control.prune(PruneBy(Retention(1, 1, 1)), barrier_of(control), due=True)
    assert positions(control) == positions(Control(control.path)) == [7, 8, 9]
    assert len(Control(control.path).rows("skip")) == 1


def test_who_reads_slowly_makes_nobody_read_again(control, monkeypatch):
    control.publish(CUT)
    DeltaTable(control.path).optimize.compact()  # which is more than rows that are appended
    true = control._rows_of

    def slowly(log: ControlLog) -> Any:
        rows = true(log)
        monkeypatch.undo()
        assert positions(control) == [7]
        control.publish(replace(CUT, position=8))
        return rows

    monkeypatch.setattr(control, "_rows_of", slowly)
    control.snapshot()
    control.read = 0
    assert positions(control) == [7, 8]
    assert not control.read


def test_rows_of_others_are_read(control):
    control.publish(CUT)
    assert positions(control) == [7]
    other = Control(control.path)
    other.claim(take_over=True)
    other.publish(replace(CUT, position=8))
    assert positions(control) == [7, 8]
    other.publish(replace(CUT, position=9))
    assert positions(control) == [7, 8, 9]


def test_what_was_read_is_read_again_once_there_is_more(tmp_path):
    """Also where the commit behind it was removed since, behind a checkpoint."""
    writer, reader = Control(str(tmp_path)), Noting(str(tmp_path))
    assert reader.owner() is None
    writer.claim()
    for _ in range(3):
        assert reader.owner()[0] == 1 and reader.cuts() == []
    assert reader.read == 1, "nothing was written between"
    for number in (1, 2, 3):
        writer.write("test", position=number)
    DeltaTable(str(tmp_path)).create_checkpoint()
    for commit in (tmp_path / "_delta_log").glob("0*.json"):
        commit.unlink()
    assert [row["position"] for row in reader.rows("test")] == [1, 2, 3]


def test_rows_that_are_held_back_are_written_once(control):
    control.publish(replace(CUT, position=8), later=True)
    assert positions(control) == []
    control.publish(replace(CUT, position=9))
    control.write_pending()
    control.publish(replace(CUT, position=10))
    assert positions(control) == [8, 9, 10]

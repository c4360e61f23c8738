"""An applier sleeps right before it removes something below the target, and others own that
meanwhile: it wakes and removes nothing that they stand on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.quarantine import quarantines
from spark_repl.control.records.replaced_tables import remove_replaced
from spark_repl.control.records.retention import Retention, pin
from spark_repl.control.records.table_paths import used_paths
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.crash_points import listening
from spark_repl.errors import FencedError
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import CRASHES, Crash, applier, cuts, last_shown, rows, run
from tests.support.tended import age, hurry, tended

A, B = Table("a"), Table("b")
WHERE = ["before_removal", "removal"]
"""before the owner is asked for, and behind its answer: the window that remains"""


class Sleeper:
    """Sleeps once, where a point is reached for the first time; ``meanwhile`` is what others do."""

    def __init__(self, point: str, meanwhile: Callable[[], object]) -> None:
        self.point, self.meanwhile, self.slept = point, meanwhile, False

    def __call__(self, name: str) -> None:
        if name == self.point and not self.slept:
            self.slept = True
            self.meanwhile()

    def act(self, act: Callable[[], object]) -> FencedError | None:
        """Does it, and sleeps in it."""
        CRASHES.told = self
        try:
            with listening(self):
                act()
        except FencedError as error:
            return error
        finally:
            CRASHES.told = lambda name: None
            assert self.slept
        return None


def owned(target: Path) -> Control:
    """The control table, by a new owner."""
    control = Control(Layout(str(target)).control)
    control.claim(take_over=True)
    return control


def control_files(target: Path) -> set[Path]:
    return set((target / "_repl" / "control").glob("*.parquet"))


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("who", ["a successor", "somebody who pins a cut"])
def test_a_sleeper_removes_no_row_of_control_that_others_need(
    log: LogWriter, target: Path, where: str, who: str
) -> None:
    """It sleeps for two hours: what came to the table meanwhile is old when it wakes."""
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    sleeper = owned(target)
    log.transaction(insert(A, (2, "y")))

    def meanwhile() -> None:
        before = control_files(target)
        if who == "a successor":
            run(log.folder, target, take_over=True)
        else:
            control = Control(sleeper.path)
            cut = control.last_cut()
            assert cut is not None
            pin(control, cut, "keep_me")
        came = control_files(target) - before
        assert came
        for path in came:
            os.utime(path, (time.time() - 7200,) * 2)

    age(target / "_repl" / "control")
    durable = DurabilityBarrier(sleeper, Layout(str(target)))
    fenced = Sleeper(where, meanwhile).act(
        lambda: sleeper.prune(PruneBy(Retention(1, 1, 1)), durable, due=True)
    )
    assert bool(fenced) == (who == "a successor")
    assert cuts(target)
    run(log.folder, target, take_over=True)
    assert rows(target, A) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("where", WHERE)
def test_the_folder_of_a_table_that_comes_again(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A successor has removed it, and forgotten its row, when the log makes the table again."""
    hurry(monkeypatch)
    log.transaction(insert(A, (1, "old")), insert(B, (1, "x")))
    run(log.folder, target)
    log.ddl("DROP TABLE t.a")
    log.transaction(insert(B, (2, "y")))
    for _ in range(2):
        tended(log.folder, target)
    noted = target / "_repl" / "replaced"
    age(noted)

    def meanwhile() -> None:
        claimed = owned(target)  # in place of the sleeper, which may be alive
        claimed.release()
        tended(log.folder, target)
        assert not (target / "t" / "a").exists()
        tended(log.folder, target)
        assert "t/a" not in used_paths(Control(claimed.path))
        log.ddl(A.create)
        log.transaction(insert(A, (7, "live")))
        run(log.folder, target)

    sleeper, layout = owned(target), Layout(str(target))
    assert Sleeper(where, meanwhile).act(
        lambda: remove_replaced(sleeper, layout, 1, DurabilityBarrier(sleeper, layout))
    )
    assert cuts(target)[-1].tables["t.a"].path == "t/a@2"
    run(log.folder, target)
    assert last_shown(target) == {"t.a": [(7, "live")], "t.b": [(1, "x"), (2, "y")]}


@pytest.mark.parametrize("where", [*WHERE, "set_aside"])
def test_a_sleeper_removes_no_commit_that_replaced_an_empty_one(
    log: LogWriter, target: Path, where: str
) -> None:
    """A successor has removed it, and committed that version."""
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    commits = target / "t" / "a" / "_delta_log"
    empty = commits / f"{len(list(commits.glob('*.json'))):020d}.json"
    empty.write_bytes(b"")
    os.utime(empty, (time.time() - 600,) * 2)
    log.transaction(insert(A, (2, "y")))

    def meanwhile() -> None:
        assert run(log.folder, target, take_over=True)
        assert empty.read_bytes()

    def start() -> None:
        with applier(log.folder, target):
            pass

    Sleeper(where, meanwhile).act(start)
    assert last_shown(target)["t.a"] == [(1, "x"), (2, "y")]
    assert run(log.folder, target, take_over=True)
    assert rows(target, A) == [(1, "x"), (2, "y")]


KEEP: dict[str, Any] = {"on_error": "quarantine", "group_max_transactions": 1}


def cut_off(log: LogWriter, target: Path, point: str) -> None:
    """A run ends where it has kept bytes that no cut names."""

    def ends(name: str) -> None:
        if name == point:
            raise Crash(name)

    CRASHES.told = ends
    assert not run(log.folder, target, **KEEP)
    CRASHES.told = lambda name: None


def start(log: LogWriter, target: Path) -> None:
    with applier(log.folder, target, **KEEP):
        pass


@pytest.mark.parametrize("where", WHERE)
def test_a_sleeper_removes_no_transaction_that_a_cut_names(
    log: LogWriter, target: Path, where: str
) -> None:
    """The sleeper has found them behind the newest cut; a successor keeps them, and its cut names
    them."""
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(delete(A, (77, "none")))
    assert run(log.folder, target, **KEEP)
    log.transaction(insert(A, (2, "kept")), insert(B, (2, "x")))
    cut_off(log, target, "quarantine_kept")

    def meanwhile() -> None:
        assert run(log.folder, target, take_over=True, **KEEP)

    Sleeper(where, meanwhile).act(lambda: start(log, target))
    assert cuts(target)[-1].quarantined["t.a"].transactions == 2
    assert main(["quarantine", "replay", "--target", str(target), "--table", "t.a"]) == 0
    assert run(log.folder, target, **{**KEEP, "exec_mode": "idempotent"})
    assert rows(target, A) == [(1, "x"), (2, "kept")] and not cuts(target)[-1].quarantined


def test_a_sleeper_keeps_what_its_successor_has_kept(log: LogWriter, target: Path) -> None:
    """It wakes before it keeps them. Its file is not meant: no cut of its own comes."""
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(delete(A, (77, "none")))
    assert run(log.folder, target, **KEEP)
    log.transaction(insert(A, (2, "kept")))

    def meanwhile() -> None:
        log.transaction(insert(A, (3, "kept")))
        assert run(log.folder, target, take_over=True, **KEEP)

    sleeper = Sleeper("staged", meanwhile)
    assert sleeper.act(lambda: run(log.folder, target, **KEEP))
    kept = [path.name for path in (target / "_repl" / "quarantine").rglob("*.events")]
    assert len(kept) == 4, "one of them the sleeper's"
    assert main(["quarantine", "list", "--target", str(target), "--json"]) == 0
    assert main(["quarantine", "replay", "--target", str(target), "--table", "t.a"]) == 0
    assert run(log.folder, target, **{**KEEP, "exec_mode": "idempotent"})
    assert rows(target, A) == [(1, "x"), (2, "kept"), (3, "kept")]


@pytest.mark.parametrize("lost", ["the last", "all"])
def test_a_replay_of_files_that_are_lost(log: LogWriter, target: Path, lost: str) -> None:
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    log.transaction(delete(A, (77, "none")))
    assert run(log.folder, target, **KEEP)
    log.transaction(insert(A, (2, "kept")), insert(B, (2, "x")))
    assert run(log.folder, target, **KEEP)
    kept = sorted((target / "_repl" / "quarantine").rglob("*.events"))
    for path in kept if lost == "all" else kept[-1:]:
        path.unlink()
    assert main(["quarantine", "replay", "--target", str(target), "--table", "t.a"]) == 0
    log.transaction(insert(B, (3, "x")))
    assert run(log.folder, target, **{**KEEP, "exec_mode": "idempotent"})
    mark = cuts(target)[-1].quarantined["t.a"]
    assert mark.transactions == 2 and [count for _, count, _ in mark.owners] == [1, 1]
    (one,) = quarantines(Control(Layout(str(target)).control))
    assert "the cut's mark says 2 of" in one.failed and not one.asked
    assert last_shown(target)["t.b"] == [(1, "x"), (2, "x"), (3, "x")]


@pytest.mark.parametrize("where", WHERE)
def test_a_sleeper_removes_no_bytes_of_a_branch_prepared_again(
    log: LogWriter, target: Path, where: str
) -> None:
    """The sleeper has found its bytes, that no cut names; a successor prepares it, too."""
    xid = (b"one", b"", 1)
    log.transaction(insert(A, (1, "x")))
    assert run(log.folder, target, **KEEP)
    log.xa_prepare(xid, insert(A, (2, "kept")))
    cut_off(log, target, "xa_kept")

    def meanwhile() -> None:
        assert run(log.folder, target, take_over=True, **KEEP)

    Sleeper(where, meanwhile).act(lambda: start(log, target))
    log.xa_end("COMMIT", xid)
    assert run(log.folder, target, take_over=True, **KEEP)
    assert rows(target, A) == [(1, "x"), (2, "kept")]
    assert not list((target / "_repl" / "xa").iterdir())


def test_a_target_that_was_made_again(log: LogWriter, target: Path, tmp_path: Path) -> None:
    """The epochs of both count alike; whose it is the claim says."""
    run(log.folder, target)
    sleeper = owned(target)
    sleeper.check_owner()
    target.rename(tmp_path / "before")
    with pytest.raises(FencedError):
        sleeper.check_owner()
    while True:
        control = owned(target)
        if control.epoch >= sleeper.epoch:
            break
        control.release()
    assert control.epoch == sleeper.epoch
    with pytest.raises(FencedError):
        sleeper.check_owner()

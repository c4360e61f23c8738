"""``reset`` of a target on an object store: what it lists and removes, killed between any two steps
and called again. Another channel's tables are not touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.config import load
from spark_repl.control.records.channel_reset import reset_all, reset_tables
from spark_repl.control.records.channels import Channel, opened
from spark_repl.control.records.table_paths import RESET, given_paths
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog
from spark_repl.crash_points import listening
from spark_repl.delta.store import storage
from spark_repl.delta.store.remover import Remover
from spark_repl.runtime.target_uri import canonical
from spark_repl.service.channel_run import is_new
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import at_cut, cuts, run

A, B = Table("a"), Table("b")
X = [(1, "x")]
STEPS_OF_ALL = 2 + 2 * 2 + 2
"""before and after: the commit that forgets the tables, the removal of each of two folders, and the
commit that notes their paths"""


EACH_STEP = [
    pytest.param(number, marks=() if number == 4 else pytest.mark.slow)
    for number in range(STEPS_OF_ALL)
]


class KilledError(BaseException):
    """Nothing is cleaned up behind it."""


@pytest.fixture
def target(s3_prefix: str) -> str:
    return f"{s3_prefix}/lake"


@pytest.fixture
def file(log: LogWriter, us: LogWriter, target: str, tmp_path: Path) -> Path:
    """The first channel's configuration: it has t.a and t.b, another one u.a."""
    log.transaction(insert(A, *X), insert(B, *X))
    assert run(log.folder, target) and run(us.folder, target, channel="us")
    made = tmp_path / "run.toml"
    made.write_text(f'[relay]\npath = "{log.folder}"\n[target]\npath = "{target}"\n')
    made.chmod(0o600)
    return made


def objects(target: str, below: str = "") -> dict[str, bytes]:
    """What lies below a folder of the target: name -> content."""
    folder = f"{canonical(target)}/{below}".rstrip("/")
    paths = (f"{folder}/{name}" for name, _ in storage.walk(folder))
    return {path: storage.read(path) for path in sorted(paths)}


def reset(file: Path, *more: str) -> int:
    return main(["reset", "--config", str(file), *more, "--json"])


class Killer:
    """Ends the process before its ``number``-th step; a removal also leaves one object removed."""

    def __init__(self, number: int) -> None:
        self.left = number

    def step(self) -> None:
        if not self.left:
            raise KilledError
        self.left -= 1

    def append(self, *given: Any) -> ControlLog:
        self.step()
        landed = ControlLog.commit(*given)
        self.step()
        return landed

    def carry_out(self, file: Path, act: Callable[[Channel, Remover], object]) -> None:
        at = opened(load(str(file)))
        at.control.claim()
        at.control._write_rows = self.append  # what ``Control(append=...)`` gives it
        try:
            with listening(self._removal):
                act(at, Remover(at.control.check_owner))
        finally:
            at.control._write_rows = ControlLog.commit
            at.control.release()  # as the next start of the same host would find it: nobody's

    def _removal(self, point: str) -> None:
        if point in ("before_removal", "removal"):
            self.step()


def check_us(target: str, before: dict[str, dict[str, bytes]], us: LogWriter) -> None:
    assert {below: objects(target, below) for below in before} == before
    us.transaction(insert(Table("a", database="u"), (9, "us")))
    assert run(us.folder, target, channel="us")
    assert at_cut(target, cuts(target, "us")[-1])["u.a"][-1] == (9, "us")


@pytest.fixture
def beside(target: str, file: Path) -> dict[str, dict[str, bytes]]:
    """What the other channel has."""
    return {below: objects(target, below) for below in ("u", "_repl/channels")}


def test_reset_all_lists_and_removes_every_object(
    log: LogWriter, us: LogWriter, target: str, file: Path,
    beside: dict[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    before = objects(target)
    assert reset(file, "--all", "--dry-run") == 0
    shown = capsys.readouterr()
    said = json.loads(shown.out.splitlines()[-1])
    assert said["tables"] == ["t.a", "t.b"] and said["dry_run"]
    assert [name.removeprefix(canonical(target)) for name in said["folders"]] == ["/t/a", "/t/b"]
    assert objects(target) == before
    assert reset(file, "--all") == 0
    assert not objects(target, "t") and not cuts(target, "default") and is_new(load(str(file)))
    check_us(target, beside, us)
    assert run(log.folder, target)
    cut = cuts(target, "default")[-1]
    assert at_cut(target, cut) == {"t.a": X, "t.b": X}
    assert {at.path for at in cut.tables.values()} == {"t/a@2", "t/b@2"}


@pytest.mark.slow
@pytest.mark.parametrize("number", EACH_STEP)
def test_all_again_behind_a_kill_at_any_step(
    log: LogWriter, us: LogWriter, target: str, file: Path,
    beside: dict[str, dict[str, bytes]], number: int,
) -> None:  # fmt: skip
    killer = Killer(number)
    with pytest.raises(KilledError):
        killer.carry_out(file, reset_all)
    left = sorted(objects(target, "t"))
    if any("/t/a/" in name for name in left) and number > 2:
        storage.remove(left[0])  # of a batch that was removed in part
    control = Control(opened(load(str(file))).layout.control)
    assert bool(cuts(target, "default")) == (number == 0)
    assert reset(file, "--all") == 0
    assert not objects(target, "t") and not control.rows(RESET) and is_new(load(str(file)))
    assert all(path in given_paths(control) for path in ("t/a", "t/b"))
    check_us(target, beside, us)
    assert run(log.folder, target)
    assert at_cut(target, cuts(target, "default")[-1]) == {"t.a": X, "t.b": X}


def test_the_steps_of_all_are_all_steps(file: Path) -> None:
    Killer(STEPS_OF_ALL).carry_out(file, reset_all)


@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_reset_table_on_s3_waits_for_its_copy(
    log: LogWriter, us: LogWriter, target: str, file: Path,
    beside: dict[str, dict[str, bytes]], number: int,
) -> None:  # fmt: skip
    """Whether it was killed before or after its commit. Cuts from before still show the table."""
    kept, earlier = objects(target, "t"), cuts(target, "default")[-1]
    with pytest.raises(KilledError):
        Killer(number).carry_out(file, lambda at, _: reset_tables(at, ["t.a"]))
    assert reset(file, "--table", "t.a", "--dry-run") == 0
    assert reset(file, "--table", "t.a") == 0
    assert cuts(target, "default")[-1].waiting.keys() == {"t.a"}
    assert objects(target, "t") == kept
    log.transaction(insert(A, (2, "x")), insert(B, (2, "x")))
    assert run(log.folder, target)
    assert at_cut(target, cuts(target, "default")[-1]) == {"t.b": [*X, (2, "x")]}
    assert at_cut(target, earlier) == {"t.a": X, "t.b": X}
    check_us(target, beside, us)

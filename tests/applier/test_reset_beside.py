"""A reset of the first channel frees its names, but none of its paths. Another channel that takes a
name gets a folder of its own, also after a kill or a suspended process."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from spark_repl.config import load
from spark_repl.control.records.channel_reset import reset_all
from spark_repl.control.records.channels import Channel, opened
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.replaced_tables import remove_replaced
from spark_repl.control.records.table_paths import RESET
from spark_repl.crash_points import listening
from spark_repl.delta.store.remover import Remover
from spark_repl.errors import FencedError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import at_cut, cuts, run

A, B = Table("a"), Table("b")
X = [(1, "x")]


class KilledError(BaseException):
    """Nothing is cleaned up behind it."""


@pytest.fixture
def file(log: LogWriter, us: LogWriter, target: Path, tmp_path: Path) -> Path:
    """The first channel's configuration: it has t.a and t.b, another one u.a."""
    log.transaction(insert(A, *X), insert(B, *X))
    assert run(log.folder, target) and run(us.folder, target, channel="us")
    us.ddl("CREATE DATABASE t", "t")
    made = tmp_path / "run.toml"
    made.write_text(f'[relay]\npath = "{log.folder}"\n[target]\npath = "{target}"\n')
    made.chmod(0o600)
    return made


def claimed(file: Path) -> Channel:
    """The first channel, by a new owner."""
    at = opened(load(str(file)))
    at.control.claim(take_over=True)
    return at


def take_name(us: LogWriter, target: Path) -> None:
    """The other channel has a table t.a from here on."""
    us.ddl(A.create)
    us.transaction(insert(A, (7, "us")))
    assert run(us.folder, target, channel="us")


def check_us(us: LogWriter, target: Path) -> None:
    """The other channel's t.a has a folder that the first one never had, and goes on."""
    cut = cuts(target, "us")[-1]
    assert cut.tables["t.a"].path == "t/a@2"
    assert at_cut(target, cut)["t.a"] == [(7, "us")]
    us.transaction(insert(A, (8, "us")))
    assert run(us.folder, target, channel="us")
    assert at_cut(target, cuts(target, "us")[-1])["t.a"] == [(7, "us"), (8, "us")]


def remove_old(at: Channel) -> list[str]:
    """Remove what upkeep has seen to be replaced, and waited for."""
    make_durable = DurabilityBarrier(at.control, at.layout)
    remove_replaced(at.control, at.layout, 1, make_durable)
    for path in Path(at.layout.state, "replaced").rglob("*"):
        os.utime(path, (time.time() - 7200,) * 2)
    return remove_replaced(at.control, at.layout, 1, make_durable)


@pytest.mark.parametrize("then", ["reset", "upkeep"])
def test_another_takes_a_name_of_a_reset_that_was_killed(
    log: LogWriter, us: LogWriter, target: Path, file: Path, then: str
) -> None:
    def kill() -> None:
        if not (target / "t/a").exists():
            raise KilledError

    at = claimed(file)
    with pytest.raises(KilledError):
        reset_all(at, Remover(kill))
    at.control.release()
    take_name(us, target)
    if then == "reset":
        assert main(["reset", "--config", str(file), "--all", "--json"]) == 0
    else:
        assert run(log.folder, target, filters={"ignore_table": ["t.a"]})
        at = claimed(file)
        assert remove_old(at) == ["t/b"]
        at.control.release()
    assert not (target / "t/b").exists()
    check_us(us, target)


@pytest.mark.parametrize("removal", [1, 2, 3, 4])
def test_a_reset_sleeps_while_another_takes_a_name(
    us: LogWriter, target: Path, file: Path, removal: int
) -> None:
    """It wakes behind the answer that it owns the target, and removes one file more."""
    at, reached = claimed(file), list[str]()

    def sleep(name: str) -> None:
        if name == "removal":
            reached.append(name)
        if name == "removal" and len(reached) == removal:
            other = claimed(file)
            reset_all(other, Remover(other.control.check_owner))
            other.control.release()
            take_name(us, target)

    with listening(sleep), pytest.raises(FencedError):
        reset_all(at, Remover(at.control.check_owner))
    check_us(us, target)


@pytest.mark.parametrize("then", ["reset", "upkeep"])
def test_a_path_that_another_names_is_passed_over(
    target: Path, file: Path, then: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As a version before has left it: the row of a reset claims the other channel's table."""
    at = claimed(file)
    at.control.write(RESET, detail=json.dumps({"paths": ["u/a"]}))
    if then == "reset":
        planned = reset_all(at, Remover(at.control.check_owner))
        assert planned.folders == tuple(str(target / "t" / name) for name in "ab")
        assert not at.control.rows(RESET)
    else:
        assert remove_old(at) == []
    at.control.release()
    assert (target / "u/a").exists()
    assert "another channel has its table there" in caplog.text

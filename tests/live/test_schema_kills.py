"""SIGKILL at random while a log is applied of which at least a third are statements that change
tables; each start has other bounds of groups: every cut, and the end, is the server's.

``SPARK_REPL_SEED`` chooses the statements and the moments, ``SPARK_REPL_KILLS`` how many there are.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.live.schema_load import recorded
from tests.support.live.server import Server

from .test_ddl_definitions import OPTIONS
from .test_schema_changes import assert_equal

_END_S = 300.0


def started(log: Path, target: Path, bound: int, *, mapping: bool) -> subprocess.Popen[str]:
    """An applier that has loaded all that it needs."""
    command = [sys.executable, "-m", "tests.support.live.apply_once", str(log), str(target)]
    process = subprocess.Popen(
        [*command, str(bound), str(mapping)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def kill_until_done(log: Path, target: Path, dice: random.Random, most: int, mapping: bool) -> int:
    """How many times it was killed at work. It is let go on to its end after ``most``."""
    kills, wait_s = 0, 1.5
    while True:
        process = started(log, target, dice.choice((1, 2, 3, 7, 50)), mapping=mapping)
        last = kills == most
        try:
            _, said = process.communicate(timeout=_END_S if last else dice.uniform(0, wait_s))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            assert not last, "it does not end"
            kills += 1
        else:
            assert process.returncode == 0, said[-3000:]
            return kills


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statements", "kills"), [(40, 4), pytest.param(250, 100, marks=pytest.mark.soak)]
)
def test_kills_between_schema_changes_leave_each_cut_equal(
    make_server: Callable[..., Server], tmp_path: Path, statements: int, kills: int
) -> None:
    """Where a log is at its end before so many kills, another one follows."""
    seed, server, done = int(os.environ.get("SPARK_REPL_SEED", "1")), make_server(*OPTIONS), 0
    kills = int(os.environ.get("SPARK_REPL_KILLS", kills))
    dice, until = random.Random(seed), time.monotonic() + 3 * 3600
    while done < kills and time.monotonic() < until:
        place = tmp_path / f"{seed}"
        load = recorded(server, place / "log", seed, statements)
        assert len(load.said) * 3 >= len(load.states)
        mapping = seed % 2 == 1
        done += kill_until_done(place / "log", place / "lake", dice, kills - done, mapping)
        assert assert_equal(place / "lake", load.states) > statements
        shutil.rmtree(place)
        seed += 1
    assert done == kills

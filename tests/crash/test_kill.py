"""SIGKILL at chosen points and at random moments: the end state is the server's, nothing twice."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.crash_points import POINTS
from tests.spark.lab import (
    assert_applied_once,
    assert_rows,
    assert_server_state_elsewhere,
    cuts,
    run,
)
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.wait_until import wait_until
from tests.support.with_spark import WITH_SPARK


@pytest.fixture
def config(bank: Path, tmp_path: Path) -> Path:
    path = tmp_path / "replica.toml"
    path.write_text(
        f'[relay]\npath = "{bank}"\n[target]\npath = "{tmp_path / "lake"}"\n'
        "[apply]\ngroup_max_transactions = 200\n"
    )
    return path


def _start(config: Path, crash: str = "") -> subprocess.Popen[bytes]:
    """The applier in a session of its own: Spark's JVM and workers are ended with it."""
    environment = {**os.environ, "SPARK_REPL_CRASH": crash}
    command = [sys.executable, "-m", "spark_repl", "apply"]
    if crash.startswith("before_checkpoint"):  # only a stream has one
        command = [*WITH_SPARK, "apply", "--follow"]
    with (config.parent / "out.txt").open("ab") as out:
        return subprocess.Popen(
            [*command, "--config", str(config)],
            stdout=out,
            stderr=out,
            env=environment,
            cwd=config.parent,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes], timeout: float = 600) -> int:
    try:
        return process.wait(timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _check(spark: SparkSession, bank: Path, target: Path) -> None:
    """Applies the rest, in groups of another size, and looks at everything."""
    run(spark, bank, target, stream=True, group_max_transactions=500)
    assert_server_state_elsewhere(target, bank / "expected")
    assert_applied_once(target)
    published = cuts(target)
    executed = (bank / "gtid_executed.txt").read_text().strip()
    assert published[-1].gtid_executed == executed
    for cut in published:
        assert all(table.position <= cut.position for table in cut.tables.values())


# The n-th hit; the log has five statements, and few batches. Those that run with `make soak` lie
# next to one that always runs.
_HITS = {
    "before_checkpoint": 1, "before_statement": 3, "after_statement": 4,
    "compacted": 1, "after_compaction": 2,
}  # fmt: skip
_SOAK = {
    "before_stage", "staged", "planned", "before_commit", "xa_keeping", "after_commit",
    "before_cut", "after_cut", "before_statement", "after_statement", "after_compaction",
    "xa_kept", "xa_forget",
}  # fmt: skip
_LONGER = [(pytest.mark.soak, _SOAK), (pytest.mark.slow, {"before_checkpoint", "compacted"})]
_XA = [point for point in POINTS if point.startswith("xa_")]
# live/test_receiver.py, applier/test_quarantine.py, applier/test_row_repair.py;
# unit/control/records/test_copies.py, applier/test_alterations.py
_ELSEWHERE = [
    point
    for point in POINTS
    if point.startswith(("relay_", "quarantine_", "rows_"))
    or point in ("replaced_removed", "planned_statement", "moving_file", "target_moved")
]


def points(wanted: list[str]) -> list[Any]:
    return [
        pytest.param(point, marks=[mark for mark, those in _LONGER if point in those])
        for point in wanted
    ]


@pytest.mark.parametrize(
    "point", points([point for point in POINTS if point not in _XA + _ELSEWHERE])
)
def test_a_kill_at_each_point_leaves_the_servers_tables(spark, bank, config, tmp_path, point):
    # Scenario 27: a crash at each stage of the commit leaves no gap behind the restart.
    crash = f"{point}:{_HITS.get(point, 6)}"
    if "compact" in point:  # which upkeep reaches early, however slow it is beside the groups
        config.write_text(config.read_text().replace("[apply]", "compact_files = 3\n[apply]"))
    assert _end(_start(config, crash)) == -signal.SIGKILL, (tmp_path / "out.txt").read_text()
    _check(spark, bank, tmp_path / "lake")


@pytest.mark.parametrize("point", points(_XA))
def test_killed_while_a_branch_is_kept(spark, config, tmp_path, point):
    """Its bytes written and not named yet, named, or about to go: it ends in its place, once."""
    log, table, target = LogWriter(tmp_path / "log"), Table("a"), tmp_path / "lake"
    log.ddl("CREATE DATABASE t")
    log.ddl(table.create)
    for number in range(3):
        log.xa_prepare((b"%d" % number, b"", 1), insert(table, (number, "x")))
        log.transaction(insert(table, (10 + number, "x")))
        log.xa_end("ROLLBACK" if number == 1 else "COMMIT", (b"%d" % number, b"", 1))
    text = config.read_text().replace("= 200", "= 1")
    config.write_text(re.sub(r'path = ".*"', f'path = "{log.folder}"', text, count=1))
    said = (tmp_path / "out.txt").read_text
    assert _end(_start(config, f"{point}:2")) == -signal.SIGKILL, said()
    run(spark, log.folder, target)
    assert_rows(spark, target, table, [(n, "x") for n in (0, 2, 10, 11, 12)])
    assert [*(target / "_repl" / "xa").iterdir()] == []
    assert_applied_once(target)


@pytest.mark.parametrize("wanted", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_kills_at_random_moments_leave_the_servers_tables(spark, bank, config, tmp_path, wanted):
    """Two kills (five in the soak), each some time after the applier has begun to publish cuts."""
    control = tmp_path / "lake" / "_repl" / "control" / "_delta_log"
    dice = random.Random(int(os.environ.get("SPARK_REPL_SEED", "1")))
    kills = 0
    for _ in range(wanted):
        before = len(list(control.glob("*.json")))
        process = _start(config)
        wait_until(
            lambda before=before, process=process: (
                process.poll() is not None or len(list(control.glob("*.json"))) > before + 1
            ),
            300,
        )
        time.sleep(dice.uniform(0, 1.2))  # the kill comes at any moment
        if process.poll() is None:
            process.kill()
            kills += 1
        _end(process)
    assert kills, (tmp_path / "out.txt").read_text()
    _check(spark, bank, tmp_path / "lake")

"""Storage that really fails under a whole run: every process's calls fail, time out, or land while
the answer is lost; a disk that is full for a while. The end state is the server's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_repl.delta.store.delta_rs_read import read
from spark_repl.errors import TargetError
from spark_repl.observe.status.status import status
from tests.crash.storage_steps import NUMBERS, STEPS
from tests.spark.lab import assert_applied_once, assert_server_state, cuts
from tests.support.binlog_writer import LogWriter, Table, insert

_SOURCE = Path(__file__).with_name("faulty_storage.c")
_STARTS_MAX = 12


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the faulty storage needs a C compiler and Linux")
    made = tmp_path_factory.mktemp("faulty") / "faulty_storage.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return made


def _apply(log: Path, target: Path, bound: int, **more: str) -> subprocess.CompletedProcess[str]:
    config = target.parent / "replica.toml"
    config.write_text(
        f'[relay]\npath = "{log}"\n[target]\npath = "{target}"\n'
        f"[apply]\ngroup_max_transactions = {bound}\ntransaction_retries = 30\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "spark_repl", "apply", "--config", str(config), "--json"],
        capture_output=True, text=True, timeout=400, env={**os.environ, **more},
        cwd=target.parent, check=False,
    )  # fmt: skip


def _through_faults(
    log: Path, target: Path, bound: int, library: Path, every: int, seed: int
) -> int:
    """Applies the log where about every n-th call to storage fails, until it is through. Returns
    how often an applier tried again, of itself, in all its starts."""
    retries = 0
    for start in range(1, _STARTS_MAX + 1):
        plan = f"{target}/:{every}:{seed * 100 + start}"
        ran = _apply(log, target, bound, FAULTY_STORAGE=plan, LD_PRELOAD=str(library))
        with suppress(TargetError):  # nothing was claimed yet
            (applier,) = status(str(target))["replication_applier_status"]
            retries += applier["COUNT_TRANSACTIONS_RETRIES"]
        if ran.returncode == 0:
            break
        # Where nothing retries (a start, Spark's own files) the applier stops, saying why.
        assert ran.returncode == 1 and "Error:" in ran.stderr, ran.stderr[-3000:]
    assert ran.returncode == 0, ran.stderr[-3000:]
    met = Counter(line.split()[0] for line in (target / ".faults").read_text().splitlines())
    assert met.total() >= 3
    print(f"{start} starts, {retries} retries, faults: {dict(met)}")
    return retries


def test_a_fault_at_each_step_is_retried(tmp_path: Path, faulty: Path) -> None:
    """Scenario 37, not only survived: each is counted for its worker, with its number; what landed
    although the answer was lost is found, and not tried again."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.storage_steps", str(tmp_path)],
        capture_output=True, text=True, timeout=400, check=False, cwd=_SOURCE.parents[2],
        env={**os.environ, "LD_PRELOAD": str(faulty)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    want = [
        {
            "step": name, "kind": kind, "met": 1, "all": True,
            "retries": int(step.retried), "counted": int(step.retried),
            "number": NUMBERS[kind] if step.retried else 0,
        }
        for name, step in STEPS.items()
        for kind in step.kinds
    ]  # fmt: skip
    assert said == want


@pytest.mark.soak
def test_calls_fail_time_out_or_land_unanswered(
    spark: SparkSession, tmp_path: Path, faulty: Path
) -> None:
    """Scenario 37: temporary errors of the engine are retried; here the engine is storage."""
    log, a, b = LogWriter(tmp_path / "log"), Table("a"), Table("b")
    for statement in ("CREATE DATABASE t", a.create, b.create):
        log.ddl(statement)
    for key in range(12):
        log.transaction(insert(a, (key, "x")), insert(b, (key, "x")))
    for seed in (1, 2, 3):  # until one is not only survived by another start
        target = tmp_path / f"lake{seed}"
        retries = _through_faults(log.folder, target, 4, faulty, 40, seed)
        shown = cuts(target)[-1].tables
        for table in (a, b):  # one whose making failed may lie beside a folder that nothing is in
            found = read(str(target / shown[f"t.{table.name}"].path))
            assert sorted(found.to_pylist(), key=str) == sorted(
                ({"id": key, "v": "x"} for key in range(12)), key=str
            )
        assert_applied_once(target)
        if retries:
            return
    raise AssertionError("nothing was retried")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 9))
def test_faults_of_storage_leave_the_servers_tables(
    spark: SparkSession, bank: Path, tmp_path: Path, faulty: Path, seed: int
) -> None:
    target = tmp_path / "lake"
    # Not only survived by another start.
    assert _through_faults(bank, target, 300, faulty, 100, seed) > 0
    assert_server_state(spark, target, bank / "expected")
    assert_applied_once(target)
    executed = (bank / "gtid_executed.txt").read_text().strip()
    assert cuts(target)[-1].gtid_executed == executed


@pytest.mark.soak
def test_disk_is_full_for_a_while(spark: SparkSession, bank: Path, tmp_path: Path) -> None:
    """A small tmpfs in a mount namespace of its own, made larger once the applier waits for it."""
    target, out, said = tmp_path / "lake", tmp_path / "copy", tmp_path / "stderr"
    target.mkdir()
    script = (
        f"mount -t tmpfs -o size=1m tmpfs {target}"
        f" && {{ (until grep -q 'disk is full' {said}; do sleep 1; done; sleep 3;"
        f" mount -o remount,size=500m {target}) & }}"
        f" && timeout 300 {sys.executable} -m spark_repl apply --relay {bank} --target {target}"
        f" --verbose 2> {said} ; code=$?; kill $! ; cp -r {target} {out}; exit $code"
    )
    command = ["unshare", "-Urm", "sh", "-c", script]
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace here")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 0, said.read_text()[-3000:]
    assert "disk is full" in said.read_text()
    assert_server_state(spark, out, bank / "expected")
    assert_applied_once(out)

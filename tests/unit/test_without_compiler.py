"""Without numba's compiler the kernels run as Python and give the same answers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_repl import read_changes

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
LOGS = ("row_images", "all_types", "minimal_metadata", "logs/compressed", "logs/tagged")

_SCRIPT = """
import sys
if sys.argv[1] == "no numba":
    sys.modules["numba"] = None
import numpy as np, pyarrow as pa
from spark_repl.apply.key_hash import hash_binary
from tests.unit.test_without_compiler import answers
print(answers(), hash_binary(pa.array([b"a", b"bc", None, b""])).tolist())
"""


def answers() -> str:
    """A digest of every row change in the logs."""
    digest = hashlib.sha256()
    for name in LOGS:
        for batch in read_changes(str(FIXTURES / name), zero_dates="null"):
            digest.update(repr(batch.to_pylist()).encode())
    return digest.hexdigest()


def run(kind: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", _SCRIPT, kind],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert not ran.returncode, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    ("kind", "environment"), [("no numba", {}), ("no jit", {"NUMBA_DISABLE_JIT": "1"})]
)
def test_same_answers(kind: str, environment: dict[str, str]) -> None:
    assert run(kind, **environment) == run("compiled")


def test_a_second_start_compiles_nothing(tmp_path: Path) -> None:
    """The cache on disk has every kernel that a first process needed."""
    folder = {"NUMBA_CACHE_DIR": str(tmp_path)}
    run("compiled", **folder)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nbc")}
    run("compiled", **folder)
    assert before
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nbc")} == before

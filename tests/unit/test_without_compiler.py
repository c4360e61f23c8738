"""Without numba's compiler the kernels run as Python and give the same answers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_repl import read_changes
from spark_repl.binlog.json_text import to_text
from spark_repl.binlog.values import Values
from spark_repl.binlog.variant import to_variant
from spark_repl.binlog.variant_text import text_to_variant

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
    for array in documents():
        digest.update(repr(array.to_pylist()).encode())
    return digest.hexdigest()


def documents() -> list[pa.Array]:
    """JSON as text and as Variant, from the log's form and from the server's."""
    recorded = json.loads((FIXTURES / "json" / "documents.json").read_text())
    small = [(bytes.fromhex(b), t.encode()) for b, t in recorded if b and len(b) < 1000]
    logged, printed = (_values([one[i] for one in small]) for i in (0, 1))
    return [
        to_text(logged.buffer, logged.offset, logged.length),
        to_variant(logged.buffer, logged.offset, logged.length),
        text_to_variant(printed),
    ]


def _values(data: list[bytes]) -> Values:
    length = np.array([len(one) for one in data], np.int32)
    offset = (np.cumsum(length) - length).astype(np.int64)
    return Values(np.frombuffer(b"".join(data), np.uint8), offset, length)


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

"""Without numba's compiler the kernels run as Python and give the same answers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_repl import read_changes
from spark_repl.binlog.json.json_text import to_text
from spark_repl.binlog.json.variant_encoding import to_variant
from spark_repl.binlog.json.variant_text import text_to_variant
from spark_repl.binlog.types.column_values import Values

ROOT = Path(__file__).parents[4]
FIXTURES = ROOT / "tests" / "fixtures"
LOGS = ("row_images", "all_types", "minimal_metadata", "logs/compressed", "logs/tagged")

_SCRIPT = """
import sys
if sys.argv[1] == "no numba":
    sys.modules["numba"] = None
import numpy as np, pyarrow as pa
from spark_repl.binlog.kernels.key_hash import hash_binary
from tests.unit.binlog.kernels.test_jit_without_compiler import answers
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


@cache
def compiled() -> str:
    return run("compiled")


@pytest.mark.parametrize(
    ("kind", "environment"), [("no numba", {}), ("no jit", {"NUMBA_DISABLE_JIT": "1"})]
)
def test_kernels_run_as_python_give_the_compiled_answers(
    kind: str, environment: dict[str, str]
) -> None:
    assert run(kind, **environment) == compiled()


def test_a_second_start_compiles_nothing(tmp_path: Path) -> None:
    """The cache on disk has every kernel that a first process needed. Looked at in a copy, as other
    tests may be compiling; compiling everything for it alone takes a minute."""
    from spark_repl.binlog.kernels.cache import _folders
    from spark_repl.user_cache import cache_folder

    compiled()
    folder = {"NUMBA_CACHE_DIR": str(tmp_path)}
    installed = _folders(cache_folder)[1].parent.name
    for kept in _folders(cache_folder):
        if kept.is_dir():
            shutil.copytree(kept, tmp_path / installed / kept.name, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("*.part"))  # fmt: skip
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nbc")}
    run("compiled", **folder)
    assert before
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nbc")} == before


_IMPORTS = """
import pkgutil, importlib, spark_repl
for module in pkgutil.walk_packages(spark_repl.__path__, "spark_repl."):
    if module.name not in ("spark_repl.__main__", *COMPILED):
        importlib.import_module(module.name)
"""
_COMPILED = tuple(
    f"spark_repl.binlog.kernels.{name}" for name in ("cache", "folded_crc", "intrinsics")
)

_APPLIED = """
import sys
from functools import cache
from pathlib import Path
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.dump_stream import events_of, packets
from tests.support.local_delta import rows, run
from tests.unit.receiver.test_packet import feed
table, log, target = Table("a"), LogWriter(Path(sys.argv[1], "log")), Path(sys.argv[1], "lake")
log.ddl("CREATE DATABASE t")
log.ddl(table.create)
log.transaction(insert(table, *[(key, "x") for key in range(40)]))
log.transaction(update(table, ((1, "x"), (1, "y"))), delete(table, (2, "x")))
run(log.folder, target)
received = feed(packets(list(events_of(log.path))), [1000])
print(rows(target, table), received.gtids, received.ends)
"""


@pytest.fixture
def no_numba(tmp_path: Path) -> dict[str, str]:
    """An environment in which importing numba, or what it compiles with, fails."""
    for name in ("numba", "llvmlite"):
        (tmp_path / "absent" / name).mkdir(parents=True)
        text = f"raise ImportError({name!r})"
        (tmp_path / "absent" / name / "__init__.py").write_text(text)
    return {**os.environ, "PYTHONPATH": f"{tmp_path / 'absent'}{os.pathsep}{ROOT}"}


def python(environment: dict[str, str], *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, env=environment, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert not ran.returncode, ran.stderr
    return ran.stdout


def test_everything_can_be_imported(no_numba: dict[str, str]) -> None:
    python(no_numba, "-c", _IMPORTS.replace("COMPILED", repr(_COMPILED)))


def test_the_command_line_works_without_numba(no_numba: dict[str, str]) -> None:
    assert "apply" in python(no_numba, "-m", "spark_repl", "--help")
    log = str(FIXTURES / "logs" / "kinds")
    shown = [
        python(e, "-m", "spark_repl", "relay", "verify", log) for e in (no_numba, {**os.environ})
    ]
    assert shown[0] == shown[1] != ""


@pytest.mark.slow
def test_a_log_is_received_and_applied(no_numba: dict[str, str], tmp_path: Path) -> None:
    with_it = {**os.environ, "PYTHONPATH": str(ROOT)}
    ends = [
        python(environment, "-c", _APPLIED, str(tmp_path / name))
        for name, environment in (("without", no_numba), ("with", with_it))
    ]
    assert ends[0] == ends[1] != ""

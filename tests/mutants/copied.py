"""A copy of the tree, to change sources in, and tests that a process of its own runs on it.

Kernels of a changed source are compiled again: their cache's folder is a digest of all sources
(binlog/kernels/cache.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "spark_repl"
_TIMEOUT_S = 600.0


@contextmanager
def copied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        for name in (PACKAGE, "tests", "jobs", "docs"):
            if (ROOT / name).exists():
                # The compiled kernels come along: they serve where no kernel is changed.
                ignored = shutil.ignore_patterns("*.pyc")
                shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        for path in (*ROOT.glob("*.toml"), *ROOT.glob("*.md")):
            shutil.copy(path, copy)
        yield copy


def passes(copy: Path, tests: list[str]) -> bool:
    """Whether all of the tests pass; the first that fails is enough, and so is one that doesn't
    end, or a package that does not import. Raises RuntimeError when pytest itself could not run."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not soak"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis"),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=copy, env=environment, capture_output=True, timeout=_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    if b"ImportError while loading conftest" in done.stderr:
        return False
    if done.returncode > 2:
        raise RuntimeError(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
    return done.returncode == 0

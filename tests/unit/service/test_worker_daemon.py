"""What Spark's workers are forked from: with compiled kernels, and no thread more than without."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from spark_repl.binlog.kernels import jit
from spark_repl.binlog.kernels.key_hash import hash_binary
from spark_repl.config import Config
from spark_repl.service.shared_spark import SharedSpark

SCRIPT = """
import os, sys
import pyarrow as pa
from spark_repl.binlog.kernels import cache, jit, key_hash
from spark_repl.user_cache import cache_folder
from spark_repl.service.worker_daemon import MODULES, load_worker_kernels, load_worker_modules

load_worker_modules(MODULES)
before = len(os.listdir("/proc/self/task"))
load_worker_kernels()
assert cache.load_kept(cache_folder) > 0
assert len(os.listdir("/proc/self/task")) == before
kernels = [one for one in vars(key_hash).values() if hasattr(one, "overloads") and one.overloads]
assert kernels
child = os.fork()
if child == 0:
    said = key_hash.hash_binary(pa.array([b"abc", b""], pa.large_binary()))
    compiled = any(one.stats.cache_misses for one in kernels)
    os.write(1, f"{said.tolist()} {compiled}".encode())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not jit.compiled, reason="kernels are Python here")
def test_kernels_are_loaded_before_the_fork() -> None:
    want = hash_binary(pa.array([b"abc", b""], pa.large_binary()))  # it is kept from here on
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"{want.tolist()} False"


@pytest.mark.parametrize(
    ("channels", "master", "loads"), [(1, None, False), (3, None, True), (3, "yarn", False)]
)
def test_many_workers_have_kernels_in_common(
    channels: int, master: str | None, loads: bool
) -> None:
    config = Config().override({"target.path": "lake", "apply.workers": 2})
    shared = SharedSpark([config] * channels, master)
    for name in ("daemon.module", "factory.idleWorkerMaxPoolSize"):
        assert (f"spark.python.{name}" in shared._settings) == loads

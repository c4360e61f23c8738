"""The process from which Spark forks its Python workers, with the modules of their tasks loaded.

Spark starts it (``spark.python.daemon.module``) in place of ``pyspark.daemon``. Workers of
``pyspark.daemon`` import everything after the fork, each by itself: 1 s of processor time and
100 MB a worker. Modules that are imported before the fork are in memory once: until they begin,
eight workers take 0.35 GB instead of 0.85, and 2 s of processor time instead of 8. Each worker
loads compiled code by itself, unless there are many workers (``many_workers_daemon``).

A fork does not copy threads. None of these modules starts one in Python, and the libraries
(OpenBLAS, jemalloc) start theirs again in the child.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = (
    "pyspark.worker",
    "spark_repl.apply.group.stager",
    "spark_repl.copy.copy_chunk",
    "spark_repl.verify.verifier",
    "spark_repl.write.alter.altered_rows",
    "spark_repl.write.files.compaction",
    "spark_repl.write.rows.direct_writer",
)


def load_worker_modules(modules: Sequence[str]) -> None:
    """Import modules, and make the garbage collector ignore every existing object.

    Otherwise the collector would write into the pages of these objects, and so copy the pages in
    each worker. A module whose library is not installed is skipped; the task that needs it raises
    the error.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in modules:
        with suppress(ImportError):
            import_module(name)
    _freeze_objects()


def load_worker_kernels() -> None:
    """Load the cached kernels, which otherwise each worker would load for its work.

    This saves 30 MB and 0.3 s of processor time for each worker, and costs 100 MB and 1.5 s in this
    process.
    """
    with suppress(Exception):  # each worker tries again, and raises the error
        from ..binlog.kernels.cache import load_kept
        from ..user_cache import cache_folder

        load_kept(cache_folder)
    _freeze_objects()


def _freeze_objects() -> None:
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load_worker_modules(MODULES)
    import_module("pyspark.daemon").manager()


class _BlockedImports(MetaPathFinder):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in self._names:
            raise ModuleNotFoundError(f"this process does without {name}", name=name)
        return None


def block_imports(*names: str) -> None:
    """Make imports of these modules fail in this process, although they are installed.

    PyArrow imports an installed pandas with the first list that it gets. This costs 27 MB and 0.3 s
    of processor time in each process, although spark_repl does not use pandas.
    """
    sys.meta_path.insert(0, _BlockedImports(names))

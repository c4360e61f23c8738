"""The process that Spark forks its Python workers from, with what their tasks need in it already.

Spark starts it (``spark.python.daemon.module``) in the place of ``pyspark.daemon``, whose workers
import everything behind the fork, each by itself: a second of processor time and 100 MB for each
of them. Imported before it, modules lie in memory once: until they begin eight workers take 0.35 GB
instead of 0.85, and 2 s of processor time instead of 8. What each loads for its work, compiled code
above all, is its own, unless there are many (``many_workers_daemon``).

A fork leaves threads behind. None of these modules begins one in Python, and the libraries' own
(OpenBLAS, jemalloc) are made again in the child by who begins them.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

MODULES = (
    "pyspark.worker",
    "spark_repl.apply.group.stager",
    "spark_repl.copy.copy_chunk",
    "spark_repl.verify.verifier",
    "spark_repl.write.alter.altered_rows",
    "spark_repl.write.files.compaction",
    "spark_repl.write.rows.direct",
)


def load(modules: Sequence[str]) -> None:
    """Imports them, and has the collector pass over all that is there, whose pages would be copied
    in each worker that it goes through. One whose library is not installed is left to the task that
    needs it, which says so."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in modules:
        with suppress(ImportError):
            import_module(name)
    _leave_alone()


def load_kernels() -> None:
    """Loads what is kept of compiled kernels, which each worker would for its work: 30 MB and 0.3 s
    of processor time of each, and 100 MB and 1.5 s of this process."""
    with suppress(Exception):  # what can't be loaded here each worker finds by itself, and says
        from ..binlog.kernels.cache import load_kept
        from ..runtime.user_cache import cache_folder

        load_kept(cache_folder)
    _leave_alone()


def _leave_alone() -> None:
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load(MODULES)
    import_module("pyspark.daemon").manager()

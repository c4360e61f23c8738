"""The process that Spark forks its Python workers from, with what their tasks need in it already.

Spark starts it (``spark.python.daemon.module``) in the place of ``pyspark.daemon``, whose workers
import everything behind the fork, each by itself: a second of processor time and 100 MB for each
of them. Imported before it, modules lie in memory once: until they begin eight workers take 0.35 GB
instead of 0.85, and 2 s of processor time instead of 8. What each loads for its work, compiled code
above all, is its own.

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
    "spark_repl.apply.stager",
    "spark_repl.copy.chunk",
    "spark_repl.verify.verifier",
    "spark_repl.write.altered_rows",
    "spark_repl.write.compaction",
    "spark_repl.write.direct",
    "spark_repl.write.exchange",
)


def load(modules: Sequence[str]) -> None:
    """Imports them, and has the collector pass over all that is there, whose pages would be copied
    in each worker that it goes through. One whose library is not installed is left to the task that
    needs it, which says so."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in modules:
        with suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load(MODULES)
    import_module("pyspark.daemon").manager()

"""``worker_daemon`` for many workers: it also loads compiled kernels before the fork.

Spark starts it by its name (``shared_spark``).
"""

from __future__ import annotations

from importlib import import_module

from .worker_daemon import MODULES, load_worker_kernels, load_worker_modules

if __name__ == "__main__":
    load_worker_modules(MODULES)
    load_worker_kernels()
    import_module("pyspark.daemon").manager()

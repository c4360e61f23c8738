"""``worker_daemon`` for many workers: compiled kernels, too, are loaded before they are forked."""

from __future__ import annotations

from importlib import import_module

from .worker_daemon import MODULES, load, load_kernels

if __name__ == "__main__":
    load(MODULES)
    load_kernels()
    import_module("pyspark.daemon").manager()

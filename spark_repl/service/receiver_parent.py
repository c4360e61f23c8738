"""Imports of receivers, made in the process from which they are forked.

``forked_command`` has Python's fork server import this module by its name.
"""

from __future__ import annotations

from .worker_daemon import block_imports, load_worker_kernels, load_worker_modules

block_imports("pandas")
load_worker_modules(
    (
        "deltalake",
        "spark_repl.cli.replication_commands",
        "spark_repl.cli.main",
        "spark_repl.receiver.receiver",
        "spark_repl.service.receiving",
    )
)
load_worker_kernels()

"""What receivers need, imported in the process that they are forked from (``forked_command``)."""

from __future__ import annotations

from ..runtime.modules import leave_out
from .worker_daemon import load, load_kernels

leave_out("pandas")
load(
    (
        "deltalake",
        "spark_repl.cli.replication_commands",
        "spark_repl.cli.main",
        "spark_repl.receiver.receiver",
        "spark_repl.service.receiving",
    )
)
load_kernels()

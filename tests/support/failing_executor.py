"""The process from which an executor's Python workers are forked: on one executor they end before
their first task.

Spark starts it in place of ``worker_daemon``. ``SPARK_REPL_FAILING`` names a file with the id of
the executor's container in YARN. The workers add their process ids to the file beside it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from spark_repl.runtime import workers
from spark_repl.service.worker_daemon import MODULES, load_worker_modules


class Failing(workers.Guarded):
    """``Guarded`` of an executor: its class has this one's call."""

    def fail(self, tasks: Sequence[Any]) -> tuple[int, list[Any]]:
        file = Path(os.environ["SPARK_REPL_FAILING"])
        if file.exists() and file.read_text() == os.environ["CONTAINER_ID"]:
            with file.with_suffix(".pids").open("a") as pids:
                pids.write(f"{os.getpid()}\n")
            os._exit(1)
        return _call(self, tasks)


_call = workers.Guarded.__call__

if __name__ == "__main__":
    workers.Guarded.__call__ = Failing.fail  # type: ignore[method-assign]
    load_worker_modules(MODULES)
    import_module("pyspark.daemon").manager()

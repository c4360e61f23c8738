"""What a second core does for the decode-and-write stage.

    python -m tests.bench.scaling LOG [--prepared U] [--rounds N]

Applies the folder LOG with the true stager and direct writer, their tasks in one process on one
core and then in two on two, without Spark and its JVM. Only the tasks are timed, job by job: what
the driver does between them (groups, commits, cuts) is left out. The last line is JSON: seconds of
the stage, best of the rounds, on one core and on two.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spark_repl import Config
from spark_repl.decode.stage_worker import stage
from spark_repl.runtime.workers import Guarded
from spark_repl.schedule.until import Until
from spark_repl.write.rows.direct_writer import write_direct
from tests.support import local_delta


def _pin(core: Any) -> None:
    os.sched_setaffinity(0, {core.get()})


class Pool(local_delta.Here):
    """``Workers`` in processes, each on a core of its own; one job at a time, and timed."""

    seconds = 0.0
    _lock = threading.Lock()
    _pools: dict[int, ProcessPoolExecutor] = {}

    def __init__(self, spark: Any, count: int, config: Config) -> None:
        super().__init__(spark, count, config)
        if count not in Pool._pools:
            context = get_context("forkserver")
            cores = context.Manager().Queue()
            for core in sorted(os.sched_getaffinity(0))[:count]:
                cores.put(core)
            Pool._pools[count] = ProcessPoolExecutor(count, context, _pin, (cores,))

    def outcomes(self, function: Callable[[Any], Any], tasks: Sequence[Any], **_: Any) -> list[Any]:
        with Pool._lock:
            began = time.perf_counter()
            found = list(Pool._pools[self.count].map(Guarded(function).outcome, tasks))
            if function in (stage, write_direct):  # not compaction's
                Pool.seconds += time.perf_counter() - began
        return found


def stage_seconds(log: str, cores: int, prepared: str) -> float:
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder:
        for until in [Until.parse(prepared), None] if prepared else [None]:
            target = f"{folder}/lake"
            with local_delta.applier(Path(log), target, until=until, workers=cores) as found:
                coordinator, Pool.seconds = found.coordinator, 0.0
                coordinator.apply(found.index.slice(coordinator.mark.position, found.index.end))
        return Pool.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--prepared", default="", metavar="U")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    best: dict[int, float] = {}
    parts = replace(local_delta.HERE, workers=Pool)
    with patch.object(local_delta, "HERE", parts):
        for _ in range(options.rounds + 1):  # the first one warms the processes up
            for cores in (1, 2):
                seconds = stage_seconds(options.log, cores, options.prepared)
                best[cores] = min(best.get(cores, seconds), seconds)
                print(json.dumps({"cores": cores, "seconds": round(seconds, 3)}), flush=True)
    times = round(best[1] / best[2], 2)
    found = {"seconds": {n: round(s, 3) for n, s in best.items()}, "times": times}
    print(json.dumps(found))


if __name__ == "__main__":
    main()

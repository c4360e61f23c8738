"""Two ways of one thing, in turn, in one session: what does it cost?

``python -m tests.bench.interleaved order|xa LOG [RUNS]`` applies the folder LOG into fresh targets,
RUNS times each way, after one run of each that isn't counted. ``order``: with commit order and
without. ``xa``: a log without XA, with the code that looks for XA and with that taken out. Each run
is a line of JSON; the last line has the medians and by how much the second differs.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from spark_repl import Config, Replica
from spark_repl.apply.group.xa_parts import XaParts
from spark_repl.relay.xa_branches import XaGroup
from spark_repl.runtime.spark_session import build_session


def apply(spark: SparkSession, log: str, **settings: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        values = {"relay": {"path": log}, "target": {"path": f"{folder}/lake"}, "apply": settings}
        began = time.perf_counter()
        with Replica(spark, Config.from_mapping(values)) as replica:
            result = replica.apply()
            phases = replica.opened.phases()
        return {
            "seconds": round(time.perf_counter() - began, 3),
            "rows": result.counters.row_changes,
            "groups": result.counters.groups,
            **phases,
        }


def without_xa(spark: SparkSession, log: str) -> dict[str, Any]:
    with (
        patch.object(XaParts, "resolve", lambda self, applied, records, held: (records, {}, None)),
        patch.object(XaParts, "enter", lambda self, records, branches: XaGroup()),
        patch.object(XaParts, "waiting", lambda self: []),
    ):
        return apply(spark, log)


WAYS: dict[str, dict[str, Callable[..., dict[str, Any]]]] = {
    "order": {
        "on": lambda spark, log: apply(spark, log),
        "off": lambda spark, log: apply(spark, log, preserve_commit_order=False),
    },
    "xa": {"with": lambda spark, log: apply(spark, log), "without": without_xa},
}


def main(what: str, log: str, runs: int = 10) -> None:
    spark = build_session(master="local[2]")
    ways = WAYS[what]
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(runs + 1):
        for name, way in ways.items():
            found = way(spark, log)
            if number:
                taken[name].append(found["seconds"])
            load = float(Path("/proc/loadavg").read_text().split()[0])
            print(json.dumps({"run": number, what: name, **found, "load": load}), flush=True)
    one, other = (statistics.median(seconds) for seconds in taken.values())
    medians = dict(zip(ways, (one, other), strict=True))
    said = {"medians": medians, "percent": round(100 * (other - one) / one, 1)}
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:4]))

"""The whole apply of a log on one core, on two, and on a standalone cluster of two workers.

    python -m tests.bench.cores LOGS [NAME] [--runs 4] [--rounds 2]

LOGS: the folder that ``make_logs`` made. ``spark-repl bench apply`` runs with all its processes on
one core and with one worker, then on two cores with two workers, then with a standalone master of
Spark's and two workers of one core each, as processes on the same two cores. Prints JSON: the
seconds of the last run of each session, by phase.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_repl.runtime.java import spark_home
from tests.support.standalone import standalone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("name", nargs="?", default="oltp")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    log: Path = options.logs / options.name
    prepared = log.with_name(f"{log.name}.prepared").read_text()
    words = ["--relay", str(log), "--runs", str(options.runs)]
    words += ["--prepared", prepared] if prepared else []
    found: dict[str, list[Any]] = {}
    for _ in range(options.rounds):
        found.setdefault("one core", []).append(one(words, "0", workers=1))
        found.setdefault("two cores", []).append(one(words, "0,1", workers=2))
        with cluster() as url:
            result = one([*words, "--master", url], "0,1", workers=2)
        found.setdefault("cluster", []).append(result)
    print(json.dumps(found))


def one(words: list[str], cores: str, *, workers: int) -> dict[str, Any]:
    """Return the seconds, also of each phase."""
    command = ["taskset", "-c", cores, sys.executable, "-m", "spark_repl", "bench", "apply"]
    ran = subprocess.run(
        [*command, "--json", "--workers", str(workers), *words], check=True, stdout=subprocess.PIPE
    )
    result = json.loads(ran.stdout.splitlines()[-1])
    return {"seconds": result["seconds"], "groups": result["groups"], **result["phases"]}


@contextmanager
def cluster() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as name:
        folder, hidden = Path(name), Path(name, "hidden")
        hidden.mkdir()
        given = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())}
        with standalone(folder, hidden, given) as url:
            yield url


if __name__ == "__main__":
    main()

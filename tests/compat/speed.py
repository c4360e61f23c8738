"""How fast the applier is on each release of Spark: warm, and by turns.

Each release has a process with a session of its own. Every round, one release after the other
applies each log into a fresh target, in a new order each round, so that a busy minute of the
machine meets all of them. The first rounds are not counted: they start Spark's Python processes,
and Java compiles.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_COLD_ROUNDS = 3
_TICKS = os.sysconf("SC_CLK_TCK")


def compare(pythons: Mapping[str, Path], logs: Sequence[str], rounds: int) -> None:
    """Print the medians of each release for each log, in seconds, and their ratio to the least."""
    runs = {(log, name): list[tuple[float, float]]() for log in logs for name in pythons}
    with ExitStack() as stack:
        appliers = {name: stack.enter_context(_applier(python)) for name, python in pythons.items()}
        for number in range(_COLD_ROUNDS + rounds):
            for log, name in random.sample([*runs], len(runs)):
                figures = _run(appliers[name], log)
                if number >= _COLD_ROUNDS:
                    runs[log, name].append(figures)
    for log in logs:
        print(f"== Speed: {log}, {rounds} rounds, warm, by turns", flush=True)
        medians = {
            name: [statistics.median(column) for column in zip(*runs[log, name], strict=True)]
            for name in pythons
        }
        least = [min(column) for column in zip(*medians.values(), strict=True)]
        for name, (seconds, used) in medians.items():
            print(
                f"{name}: {seconds:.3f} s ({seconds / least[0]:.2f} of the least), processor time"
                f" {used:.3f} s ({used / least[1]:.2f} of the least)"
            )


@contextmanager
def _applier(python: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that applies the log of each line that it gets."""
    process = subprocess.Popen(
        [str(python), "-m", "tests.compat.speed"], cwd=_ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.communicate()  # the end of its input ends it


def _run(applier: subprocess.Popen[str], log: str) -> tuple[float, float]:
    """Return (seconds, seconds of processor time) of one run."""
    assert applier.stdin is not None and applier.stdout is not None
    before = _processor_seconds(applier.pid)
    applier.stdin.write(f"{log}\n")
    applier.stdin.flush()
    answer = applier.stdout.readline()
    assert answer, "the process of this release has ended"
    return float(json.loads(answer)), _processor_seconds(applier.pid) - before


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process and all below it, with ended ones, in seconds."""
    stats = dict[int, list[str]]()
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = file.read_text()
        except OSError:  # it has ended
            continue
        stats[int(file.parent.name)] = text.rpartition(")")[2].split()
    below, waiting = list[int](), [pid]
    while waiting:
        parent = waiting.pop()
        below.append(parent)
        waiting += [child for child, fields in stats.items() if int(fields[1]) == parent]
    return sum(int(ticks) for member in below for ticks in stats[member][11:15]) / _TICKS


def _serve() -> None:
    """Apply the log of each line of the input, and print the seconds that it took."""
    from spark_repl import Config, Replica
    from spark_repl.runtime.spark_session import build_session

    spark = build_session(master="local[2]", delta=False)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            config = Config().override({
                "relay.path": line.strip(), "target.path": f"{folder}/lake", "apply.workers": 2,
            })  # fmt: skip
            began = time.perf_counter()
            with Replica(spark, config) as replica:
                replica.apply()
            print(json.dumps(time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    _serve()

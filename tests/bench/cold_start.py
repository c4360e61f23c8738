"""How long a new worker takes until it has decoded: new Python processes, numba's cache warm.

    python -m tests.bench.cold_start [--runs N] FILE

From the start of the process to the net changes of all transactions in FILE, Python's own start
and the imports included; the time of the same work in a process that is warm stands beside it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time


def decode(path: str) -> None:
    """What a worker imports, and no more: not Spark, not the planning."""
    from spark_repl.decode.stage_task import StageTask
    from spark_repl.decode.stage_worker import stage
    from spark_repl.relay.index import file_indexes
    from spark_repl.relay.log import open_log
    from spark_repl.relay.record import Kind
    from spark_repl.relay.span import Span

    relay = open_log(path)
    for index in file_indexes(relay):
        file, records = relay.file(index.number), index.records
        records = records[(records["kind"] == Kind.ROWS) | (records["kind"] == Kind.XA_ONE_PHASE)]
        stage(StageTask(0, (Span.of(file.path, file.number, records),), 1, None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("file")
    args = parser.parse_args()
    code = "import sys; from tests.bench.cold_start import decode; decode(sys.argv[1])"
    cold = []
    for _ in range(args.runs + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code, args.file], check=True)
        cold.append(time.perf_counter() - began)
    decode(args.file)
    began = time.perf_counter()
    decode(args.file)
    warm = time.perf_counter() - began
    best, worst = min(cold[1:]), max(cold[1:])  # the first one may have had to compile
    print(f"cold {best:.2f} to {worst:.2f} s in {args.runs} processes, warm {warm:.3f} s")


if __name__ == "__main__":
    main()

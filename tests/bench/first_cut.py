"""Seconds from the command line of a small ``apply`` to its first cut.

    python -m tests.bench.first_cut [--runs N] FOLDER

FOLDER: a recorded log, for example spark_repl/demo/bank. Each run is a new process on a new target.
Prints a line of JSON with the seconds of each run: to the commit of the first cut, by the time of
its file, and to the end of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    runs = [one_run(options.folder) for _ in range(options.runs)]
    print(json.dumps({"first_cut_s": [r[0] for r in runs], "end_s": [r[1] for r in runs]}))


def one_run(folder: Path) -> tuple[float, float]:
    """Return the seconds to the first cut, and to the end of the process."""
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-m", "spark_repl", "apply", "--relay", str(folder)]
        began = time.time()
        subprocess.run([*command, "--target", target], check=True, stdout=subprocess.DEVNULL)
        end = time.time()
        return round(first_cut(Path(target) / "_repl" / "control") - began, 2), round(
            end - began, 2
        )


def first_cut(control: Path) -> float:
    """Return the time of the first commit of the control table that has a cut."""
    for commit in sorted((control / "_delta_log").glob("*.json")):
        for line in commit.read_text("utf-8").splitlines():
            add = json.loads(line).get("add")
            if add and "cut" in pq.read_table(control / add["path"])["kind"].to_pylist():
                return os.stat(commit).st_mtime
    raise SystemExit(f"{control} has no cut")


if __name__ == "__main__":
    main()

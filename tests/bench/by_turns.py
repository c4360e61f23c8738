"""``bench apply`` of recorded logs, by this checkout and another one in turns.

    python -m tests.bench.by_turns LOGS [NAME...] [--old CHECKOUT] [--rounds 2] [--runs 4]

LOGS: the folder that ``make_logs`` made. Each round starts a session of each checkout, with
``--runs`` runs. Its figures are those of the last run. Prints a row of a Markdown table for each
log; the last line is JSON with all results. Without ``--old``, only this checkout is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

_HERE = Path(__file__).parents[2]


def one_session(checkout: Path, log: Path, runs: int) -> dict[str, Any]:
    """Return the result of ``bench apply``."""
    prepared = log.with_name(f"{log.name}.prepared").read_text()
    command = [sys.executable, "-m", "spark_repl", "bench", "apply", "--json", "--relay", str(log)]
    command += ["--runs", str(runs), *(["--prepared", prepared] if prepared else [])]
    ran = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
    )  # fmt: skip
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


def row(name: str, sides: dict[str, list[dict[str, Any]]]) -> str:
    """Return a row of the table: seconds, changes a second and MiB of each side."""
    cells = [name]
    for results in sides.values():
        seconds = ", ".join(f"{result['seconds']:.2f}" for result in results)
        rates = max(result["rows_per_s"] for result in results)
        memory = max(result["peak_pss_mib"] for result in results)
        cells.append(f"{seconds} s; {rates:,}/s; {memory:,} MiB")
    old, new = (
        median(result["seconds"] for result in sides[side]) if side in sides else 0.0
        for side in ("old", "new")
    )
    return f"| {' | '.join(cells)} | {f'{old / new:.2f}' if old else ''} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("names", nargs="*", default=["oltp", "mixed", "wide", "inserts"])
    parser.add_argument("--old", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    checkouts = {"old": options.old, "new": _HERE}
    checkouts = {side: checkout for side, checkout in checkouts.items() if checkout}
    print(f"| log | {' | '.join(checkouts)} | ratio |\n|{'---|' * (len(checkouts) + 2)}")
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in options.names:
        found[name] = {side: [] for side in checkouts}
        for _ in range(options.rounds):
            for side, checkout in checkouts.items():
                result = one_session(checkout.resolve(), options.logs / name, options.runs)
                found[name][side].append(result)
        print(row(name, found[name]), flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

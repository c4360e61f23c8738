"""The time from commit to cut under a steady load of a server beside it, and the processor's share.

    python -m tests.bench.live_load --mysql FOLDER [--rate 224] [--rows 100] [--seconds 600]

By default 22,400 row changes a second for ten minutes, the rate of a test that Artie published.
Prints the line of ``bench latency``, then percent of a core by kind of process, ``run`` being the
applier's own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.support.live.receiving import config_for, toml

from .idle import processors
from .one_server import one_server

_WARM_UP_S = 20
"""seconds at the beginning that ``bench latency`` does not count"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mysql", required=True, type=Path)
    parser.add_argument("--rate", type=int, default=224)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=600)
    options = parser.parse_args()
    with one_server(options.mysql) as (server, folder):
        file = folder / "run.toml"
        file.write_text(toml(config_for(server, folder)))
        load = [
            sys.executable, "-m", "tests.bench.steady_load", "--port", str(server.port),
            "--user", "app", "--password", "app",
            "--rate", str(options.rate), "--rows", str(options.rows),
            "--seconds", str(options.seconds + 2 * _WARM_UP_S),
        ]  # fmt: skip
        command = ["bench", "latency", "--json", "--config", str(file)]
        command += ["--seconds", str(options.seconds)]
        with subprocess.Popen(load) as client:
            bench = subprocess.Popen([sys.executable, "-m", "spark_repl", *command])
            print(json.dumps(shares(bench, options.seconds)))
            client.terminate()


def shares(bench: subprocess.Popen[bytes], seconds: int) -> dict[str, float]:
    """Percent of a core, by kind of process, in most of the time that is measured."""
    time.sleep(2 * _WARM_UP_S)
    before, began, after = processors(bench.pid), time.monotonic(), Counter[str]()
    while bench.poll() is None and time.monotonic() < began + seconds - 2 * _WARM_UP_S:
        after, now = processors(bench.pid), time.monotonic()
        time.sleep(1)
    found = {kind: round((s - before[kind]) / (now - began) * 100, 1) for kind, s in after.items()}
    bench.wait()
    return found


if __name__ == "__main__":
    main()

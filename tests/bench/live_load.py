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
from pathlib import Path

from .idle import share
from .one_server import config_file, one_server

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
        file = config_file(server, folder)
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
            time.sleep(2 * _WARM_UP_S)  # the start, and what ``bench latency`` does not count
            print(json.dumps(share(bench.pid, max(1, options.seconds - 2 * _WARM_UP_S))))
            bench.wait()
            client.terminate()


if __name__ == "__main__":
    main()

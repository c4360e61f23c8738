"""What ``run`` takes of a core beside a source that rests, with and without somebody at its page.

    python -m tests.bench.idle --mysql FOLDER [--seconds 60] [--tables 100]

One server, so many tables with a row each. Prints a line of JSON: parts of a core, in percent, that
``run`` and all that it has started take, by kind of process; their memory in MiB (proportional set
size); how many commits and files came meanwhile.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from collections import Counter
from pathlib import Path

from spark_repl.config import Config
from tests.support.live.receiving import config_for, toml
from tests.support.live.server import Server, free_port

from .many_channels import wait_for
from .one_server import one_server
from .processes import memory_mib, processes, running
from .verify_rows import processor_s

_SETTLE_S = 90.0
"""upkeep has come to its end by then"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mysql", required=True, type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--tables", type=int, default=100)
    options = parser.parse_args()
    with one_server(options.mysql) as (server, folder):
        print(json.dumps(measured(server, folder, options)))


def measured(server: Server, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    names = [f"t.t{i}" for i in range(options.tables)]
    server.query("CREATE DATABASE t")
    for name in names:
        server.query(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
    listen = f"127.0.0.1:{free_port()}"
    config = config_for(server, folder, observe__listen=listen)
    file = folder / "run.toml"
    file.write_text(toml(config))
    with running([file]) as run:
        wait_for([config], server.executed)
        for name in names:
            server.query(f"INSERT INTO {name} VALUES (1, 1)")
        wait_for([config], server.executed)
        time.sleep(_SETTLE_S)
        before = files(config)
        alone = share(run, options.seconds)
        came = files(config) - before
        memory = memory_mib(run)
        looked = share(run, options.seconds, f"http://{listen}/")
    return {
        "alone": alone, "memory_mib": memory, "with_the_page": looked, "files_that_came": came,
    }  # fmt: skip


def files(config: Config) -> int:
    return sum(1 for path in Path(config.target.path).rglob("*") if path.is_file())


def share(parent: int, seconds: int, page: str = "") -> dict[str, float]:
    """Percent of a core, by kind of process; the page is asked as a browser does that shows it."""
    before, began = processors(parent), time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        if page:
            urllib.request.urlopen(page).read()
        time.sleep(min(left, 5.0))
    passed = time.monotonic() - began
    return {
        kind: round((taken - before[kind]) / passed * 100, 2)
        for kind, taken in processors(parent).items()
    }


def processors(parent: int) -> Counter[str]:
    """Seconds of a core that a process and all below it have taken, by kind."""
    found = Counter[str]()
    for pid, kind in processes(parent):
        found[kind] += processor_s(pid)
    return found


if __name__ == "__main__":
    main()

"""Ten channels of a hundred tables each in one process of ``run``: how much memory that takes.

    python -m tests.bench.many_channels --mysql FOLDER [--channels 10] [--tables 100] [--seconds 60]

One server, a database for each channel, which a filter keeps alone. Rows come all the while. Prints
a line of JSON: memory of ``run`` and all that it started (proportional set size, MB), at the end
and at most, by kind of process, and how long a row took from its commit to its cut.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from pathlib import Path

from spark_repl.config import Config
from spark_repl.control.records.channels import control_of
from spark_repl.control.records.copies import standing
from spark_repl.gtid import GtidSet
from tests.support.live.receiving import config_for, toml
from tests.support.live.server import Server

from .one_server import one_server
from .processes import memory_mib, running

_MOST_S = 900


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mysql", required=True, type=Path)
    parser.add_argument("--channels", type=int, default=10)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    with one_server(options.mysql) as (server, folder):
        print(json.dumps(measured(server, folder, options)))


def measured(server: Server, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    names = [f"c{i}" for i in range(options.channels)]
    for name in names:
        tables = [
            f"CREATE TABLE {name}.t{i} (id INT PRIMARY KEY, v INT, pad CHAR(60))"
            for i in range(options.tables)
        ]
        server.query(f"CREATE DATABASE {name}", *tables)
    configs = [
        config_of(server, folder, name, number, options.workers)
        for number, name in enumerate(names)
    ]
    with running([folder / f"{name}.toml" for name in names]) as run:
        began = time.monotonic()
        wait_for(configs, server.executed)
        first_s = time.monotonic() - began
        most, latest, rounds = Counter[str](), Counter[str](), list[float]()
        until, row = time.monotonic() + options.seconds, 0
        while time.monotonic() < until:
            row += 1
            for name in names:
                server.query(
                    *(
                        f"INSERT INTO {name}.t{i} VALUES ({row}, 1, 'x')"
                        for i in range(options.tables)
                    )
                )
            committed = time.monotonic()
            wait_for(configs, server.executed)
            rounds.append(time.monotonic() - committed)
            latest = memory_mib(run)
            most = latest if latest.total() > most.total() else most
    return {
        "channels": len(names), "tables": options.tables, "rounds": row,
        "first_s": round(first_s, 1), "round_s": round(statistics.median(rounds), 2),
        "mb_at_end": latest.total(), "mb_at_most": most.total(), "by_kind": dict(most),
    }  # fmt: skip


def config_of(server: Server, folder: Path, name: str, number: int, workers: int) -> Config:
    (folder / name).mkdir()
    paths = {"relay__path": f"{folder}/{name}/log", "target__path": f"{folder}/lake"}
    config = config_for(server, folder, server_id=4000 + number, observe__listen="", **paths)
    given = {"channel": name, "filters.do_db": (name,), "apply.workers": workers}
    config = config.override(given)
    (folder / f"{name}.toml").write_text(f'channel = "{name}"\n' + toml(config))
    return config


def wait_for(configs: list[Config], executed: str) -> None:
    """Until each channel's newest cut has that set."""
    want, until = GtidSet.parse(executed), time.monotonic() + _MOST_S
    for config in configs:
        while True:
            cut = standing(control_of(config)).cut
            if cut is not None and want.issubset(GtidSet.parse(cut.gtid_executed)):
                break
            assert time.monotonic() < until, config.channel
            time.sleep(0.2)


if __name__ == "__main__":
    main()
